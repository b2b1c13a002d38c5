"""Patterns of two or three roles, and of a row of them."""

from __future__ import annotations

from collections.abc import Mapping

from partyctl_actors.errors import ProtocolError
from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.patterns.pattern import Pattern, as_role, as_roles, message
from partyctl_actors.protocol.role import Role
from partyctl_actors.protocol.steps import choose, loop, repeat, send


def request_reply(
    caller: Role | str, responder: Role | str, *, ask: type[Message] | None = None, answer: type[Message] | None = None
) -> Pattern:
    """The caller asks, the responder answers. Messages: `Ask`, `Answer`.

    Raises:
        ProtocolError: the two are one role, or what is given is no message class.
    """
    asking, answering = as_role(caller), as_role(responder)
    said, reply = message("Ask", "What is asked.", ask), message("Answer", "The answer.", answer)
    return Pattern({"Ask": said, "Answer": reply}, send(asking, answering, said), send(answering, asking, reply))


def review_loop(
    requester: Role | str,
    worker: Role | str,
    reviewer: Role | str,
    *,
    task: type[Message] | None = None,
    draft: type[Message] | None = None,
    approve: type[Message] | None = None,
    reject: type[Message] | None = None,
    final: type[Message] | None = None,
) -> Pattern:
    """The worker's drafts go to the reviewer until one is approved; the requester gets the final work.

    Messages: `Task`, `Draft`, `Approve` (without a text), `Reject`, `Final`.

    Raises:
        ProtocolError: two of the roles are one, or what is given is no message class.
    """
    asking, working, reviewing = as_roles([requester, worker, reviewer], "review_loop()")
    named = {
        "Task": message("Task", "What is to be done.", task),
        "Draft": message("Draft", "The work so far, for review.", draft),
        "Approve": message("Approve", "The draft is good as it is.", approve, text=False),
        "Reject": message("Reject", "What has to change before the draft is good.", reject),
        "Final": message("Final", "The approved work.", final),
    }
    return Pattern(
        named,
        send(asking, working, named["Task"]),
        loop(
            send(working, reviewing, named["Draft"]),
            choose(reviewing, working, {named["Approve"]: [], named["Reject"]: repeat()}),
        ),
        send(working, asking, named["Final"]),
    )


def approval_gate(
    requester: Role | str,
    worker: Role | str,
    approver: Role | str,
    *,
    task: type[Message] | None = None,
    proposal: type[Message] | None = None,
    approve: type[Message] | None = None,
    deny: type[Message] | None = None,
    result: type[Message] | None = None,
    refusal: type[Message] | None = None,
) -> Pattern:
    """The worker proposes, the approver lets it pass or not; the requester gets the result or the refusal.

    Messages: `Task`, `Proposal`, `Approve` (without a text), `Deny`, `Result`, `Refusal`.

    Raises:
        ProtocolError: two of the roles are one, or what is given is no message class.
    """
    asking, working, approving = as_roles([requester, worker, approver], "approval_gate()")
    named = {
        "Task": message("Task", "What is to be done.", task),
        "Proposal": message("Proposal", "What would be done, for approval.", proposal),
        "Approve": message("Approve", "It may be done.", approve, text=False),
        "Deny": message("Deny", "It may not be done, and why.", deny),
        "Result": message("Result", "What was done.", result),
        "Refusal": message("Refusal", "Nothing was done, and why.", refusal),
    }
    return Pattern(
        named,
        send(asking, working, named["Task"]),
        send(working, approving, named["Proposal"]),
        choose(
            approving,
            working,
            {
                named["Approve"]: send(working, asking, named["Result"]),
                named["Deny"]: send(working, asking, named["Refusal"]),
            },
        ),
    )


def pipeline(first: Role | str, stages: Mapping[Role | str, type[Message]]) -> Pattern:
    """`first` hands on to the first stage, each stage to the next: `pipeline("Source", {"Clean": Raw, "Store": Row})`.

    Args:
        stages: each stage and the message that it is handed, in their order.

    Raises:
        ProtocolError: no stage, a role twice, or what is given is no message class.
    """
    if not isinstance(stages, Mapping):
        raise ProtocolError("The stages are not a mapping", where="pipeline()", fix='Write {"Clean": Raw, ...}')
    row = as_roles([first, *stages], "pipeline()", least=2)
    steps = [send(row[i], row[i + 1], kind) for i, kind in enumerate(stages.values())]
    return Pattern({kind.label: kind for kind in stages.values()}, steps)
