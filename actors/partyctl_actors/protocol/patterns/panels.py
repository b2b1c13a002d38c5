"""Patterns in which several work on the same thing.

Roles are asked one after the other: whoever collects the work hears from one role at a time.
"""

from __future__ import annotations

from collections.abc import Iterable

from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.nodes import Step
from partyctl_actors.protocol.patterns.pattern import Pattern, as_role, as_roles, message
from partyctl_actors.protocol.role import Role
from partyctl_actors.protocol.steps import choose, loop, repeat, send


def best_of(
    requester: Role | str,
    workers: Iterable[Role | str],
    judge: Role | str | None = None,
    *,
    task: type[Message] | None = None,
    candidate: type[Message] | None = None,
    answer: type[Message] | None = None,
) -> Pattern:
    """All workers get the task; the judge gets their candidates and answers the requester.

    Without a judge the requester gets the candidates and that is all. Messages: `Task`, `Candidate`, `Answer` (with a
    judge).

    Raises:
        ProtocolError: no worker, a role twice, or what is given is no message class.
    """
    asking = as_role(requester)
    judging = asking if judge is None else as_role(judge)
    trying = as_roles(workers, "best_of()")
    as_roles([*trying, *dict.fromkeys((asking, judging))], "best_of()")
    named = {
        "Task": message("Task", "What is to be done.", task),
        "Candidate": message("Candidate", "One attempt at the task.", candidate),
    }
    steps: list[Step] = [send(asking, worker, named["Task"]) for worker in trying]
    steps += [send(worker, judging, named["Candidate"]) for worker in trying]
    if judging != asking:
        named["Answer"] = message("Answer", "The best of the candidates.", answer)
        steps.append(send(judging, asking, named["Answer"]))
    return Pattern(named, steps)


def map_reduce(
    requester: Role | str,
    workers: Iterable[Role | str],
    reducer: Role | str,
    *,
    part: type[Message] | None = None,
    mapped: type[Message] | None = None,
    reduced: type[Message] | None = None,
) -> Pattern:
    """Each worker gets its part; the reducer gets what they made of it and brings it together for the requester.

    Messages: `Part`, `Mapped`, `Reduced`.

    Raises:
        ProtocolError: no worker, a role twice, or what is given is no message class.
    """
    asking, reducing = as_role(requester), as_role(reducer)
    mapping = as_roles(workers, "map_reduce()")
    as_roles([asking, reducing, *mapping], "map_reduce()")
    named = {
        "Part": message("Part", "One part of the whole.", part),
        "Mapped": message("Mapped", "What was made of one part.", mapped),
        "Reduced": message("Reduced", "What was made of all parts.", reduced),
    }
    return Pattern(
        named,
        [send(asking, worker, named["Part"]) for worker in mapping],
        [send(worker, reducing, named["Mapped"]) for worker in mapping],
        send(reducing, asking, named["Reduced"]),
    )


def debate(
    requester: Role | str,
    first: Role | str,
    second: Role | str,
    judge: Role | str,
    *,
    motion: type[Message] | None = None,
    argument: type[Message] | None = None,
    case: type[Message] | None = None,
    verdict: type[Message] | None = None,
) -> Pattern:
    """Two argue about the requester's motion; after each round both put their case, and the judge goes on or decides.

    Messages: `Motion`, `Topic` (the judge's to the two), `Argument`, `Case`, `Continue` and `Decided` (without a text),
    `Verdict`.

    Raises:
        ProtocolError: two of the roles are one, or what is given is no message class.
    """
    asking, one, other, judging = as_roles([requester, first, second, judge], "debate()")
    named = {
        "Motion": message("Motion", "What is to be debated.", motion),
        "Topic": message("Topic", "What you are to argue, and on which side."),
        "Argument": message("Argument", "An argument to the other side.", argument),
        "Case": message("Case", "Your case to the judge after this round.", case),
        "Continue": message("Continue", "Another round is needed.", text=False),
        "Decided": message("Decided", "The judge has heard enough.", text=False),
        "Verdict": message("Verdict", "The decision, and why.", verdict),
    }
    told = named["Continue"], named["Decided"]
    return Pattern(
        named,
        send(asking, judging, named["Motion"]),
        [send(judging, side, named["Topic"]) for side in (one, other)],
        loop(
            send(one, other, named["Argument"]),
            send(other, one, named["Argument"]),
            [send(side, judging, named["Case"]) for side in (one, other)],
            choose(
                judging,
                one,
                {told[0]: [send(judging, other, told[0]), repeat()], told[1]: send(judging, other, told[1])},
            ),
        ),
        send(judging, asking, named["Verdict"]),
    )
