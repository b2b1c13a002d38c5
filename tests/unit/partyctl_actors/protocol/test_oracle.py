"""Random protocols against the naive reading of the language in `fakes.naive`."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from random import Random

from fakes.naive import (
    END,
    Generator,
    Row,
    agree,
    declared,
    duty,
    is_confused,
    moves,
    places,
    replay,
    settle,
    told,
)
from fakes.shuffled import conducted
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from partyctl_actors.errors import ProjectionError
from partyctl_actors.protocol import (
    EndState,
    Interaction,
    Protocol,
    ReceiveState,
    SendState,
    check,
    definition,
    explore,
    load,
    project,
    refines,
)
from partyctl_actors.protocol.exits import can_finish
from partyctl_actors.protocol.nodes import Loop
from partyctl_actors.protocol.rows import steps_in_order
from partyctl_actors.protocol.tracks import advance, begin
from partyctl_actors.runs import Transcript
from partyctl_actors.runs.verdict import Ending

EXAMPLES = int(os.environ.get("PARTYCTL_ORACLE_EXAMPLES", "500"))
MOST = 1_000
STEPS = 25
SITUATIONS = 200
VERDICTS: Counter[str] = Counter()

ROWS = st.builds(lambda seed, depth: Generator(seed).protocol(depth), st.integers(0, 2**32), st.sampled_from((3, 2)))


def protocol_or_refusal(row: Row) -> Protocol | ProjectionError:
    try:
        return Protocol(declared(row))
    except ProjectionError as error:
        return error


def follow(row: Row, protocol: Protocol) -> None:
    """Take every course of events; the flow and each role's view must be in step with it."""
    flow = protocol.flow
    views = {role.name: project(protocol, role) for role in protocol.roles}
    situation, _ = settle(row)
    root = (situation, begin(flow), tuple((name, view.start) for name, view in views.items()))
    seen = {(situation, root[2])}
    waiting = [root]
    while waiting and len(seen) < MOST:
        situation, marking, standing = waiting.pop()
        now = {name: views[name].states[place] for name, place in standing}
        assert marking.over == (situation == END)
        assert marking.at.keys() == places(situation).keys()
        if situation == END:
            assert all(isinstance(view, EndState) for view in now.values())
        for path, (item, entered) in places(situation).items():
            state = flow.states[marking.at[path]]
            _, sender, receiver, arms, _ = item
            assert isinstance(state, Interaction)
            assert (state.sender.name, state.receiver.name, state.unfolds) == (sender, receiver, entered)
            assert list(state.arms) == [label for label, _ in arms]
            says, hears = now[sender], now[receiver]
            assert isinstance(says, SendState)
            assert isinstance(hears, ReceiveState)
            assert (says.receiver.name, set(says.arms)) == (receiver, set(state.arms))
            assert hears.sender.name == sender
        for path, item, label, later, entered in moves(situation):
            moved = dict(standing)
            for name in item[1:3]:
                state_there = now[name]
                assert not isinstance(state_there, EndState)
                moved[name] = state_there.arms[label]
            after = advance(flow, marking, path, label)
            assert after.unfolds == entered
            node = (later, after, tuple(moved.items()))
            if (later, node[2]) not in seen:
                seen.add((later, node[2]))
                waiting.append(node)


def play(protocol: Protocol, random: Random, most: int = 150) -> bool:
    """Roles that follow their views, over queues, in any order, as far ahead of each other as they like.

    Returns:
        Whether it came to the end; nobody may ever be stuck, or find a message that it does not know.
    """
    views = {role: project(protocol, role) for role in protocol.roles}
    at = {role: view.start for role, view in views.items()}
    queues: dict[tuple[object, object], list[str]] = {}
    for _ in range(most):
        ready = []
        for role, view in views.items():
            state = view.states[at[role]]
            if isinstance(state, SendState) or (isinstance(state, ReceiveState) and queues.get((state.sender, role))):
                ready.append((role, state))
        if not ready:
            assert all(isinstance(views[role].states[place], EndState) for role, place in at.items())
            assert not any(queues.values())
            return True
        role, state = random.choice(ready)
        if isinstance(state, SendState):
            label = random.choice(list(state.arms))
            queues.setdefault((role, state.receiver), []).append(label)
        else:
            assert isinstance(state, ReceiveState)
            label = queues[state.sender, role].pop(0)
        at[role] = state.arms[label]
    return False


def conduct(row: Row, protocol: Protocol, random: Random) -> None:
    """The real conductor and the real role actors: every run is one that the language allows, ends as the analysis
    says, and can be followed from its record, or from any part of it, without asking anybody again."""
    first = conducted(protocol, random, steps=STEPS)
    assert first.verdict.ending in (Ending.COMPLETE, Ending.ALLOWANCE)
    assert allowed(row, first.transcript) == (first.verdict.ending is Ending.COMPLETE)
    assert can_finish(protocol.flow)[protocol.flow.start] or first.verdict.ending is Ending.ALLOWANCE
    if not any(isinstance(step, Loop) for step in steps_in_order(protocol.steps)) and len(protocol.flow.states) < STEPS:
        assert first.verdict.ending is Ending.COMPLETE
    assert [decision.turn for decision in first.record] == list(range(1, len(first.record) + 1))
    again = conducted(protocol, random, first.record, steps=STEPS)
    assert again == replace(first, asked=0, recalled=len(first.record))
    kept = first.record[: random.randint(0, len(first.record))]
    resumed = conducted(protocol, random, kept, steps=STEPS)
    assert (resumed.record[: len(kept)], resumed.recalled) == (kept, len(kept))
    assert allowed(row, resumed.transcript) == (resumed.verdict.ending is Ending.COMPLETE)
    if resumed.verdict.ending is Ending.COMPLETE:
        assert resumed.asked == len(resumed.record) - len(kept)


def allowed(row: Row, transcript: Transcript) -> bool:
    """Whether a transcript is one to the very end; a ValueError if it is none of this row at all."""
    situation, _ = settle(row)
    for envelope in transcript:
        said = (envelope.sender.name, envelope.receiver.name, envelope.label)
        (situation,) = [then for _, item, label, then, _ in moves(situation) if (*item[1:3], label) == said]
    return bool(situation == END)


def parting(row: Row, error: ProjectionError) -> int:
    """The number of the choice that a refusal is about; its two runs are real, look alike, and ask for two things."""
    assert error.role is not None
    role = error.role.name
    one, other = error.runs
    seen = [[message for message in run if role in message[:2]] for run in error.runs]
    assert seen[0] == seen[1]
    (numbers, end), (others, other_end) = (replay(row, run, role) for run in error.runs)
    assert not agree(duty(end, role), duty(other_end, role), role)
    at = next(i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    assert one[at][:2] == other[at][:2] == tuple(error.where.split(" -> "))
    assert numbers[at] == others[at]
    return numbers[at]


def cured(row: Row, error: ProjectionError) -> None:
    """Do what the recipes say, until nothing is refused any more; none is given twice."""
    given_before: set[tuple[int, str]] = set()
    made: Protocol | ProjectionError = error
    while isinstance(made, ProjectionError):
        assert made.role is not None
        number = parting(row, made)
        assert (number, made.role.name) not in given_before
        given_before.add((number, made.role.name))
        assert f"send({made.where.split(' -> ')[0]}, {made.role}, ...)" in made.recipe
        row = told(row, number, made.role.name)
        made = protocol_or_refusal(row)


def test_the_random_protocols_are_of_all_sorts() -> None:
    rows = [Generator(seed).protocol(3) for seed in range(200)]
    refused = sum(isinstance(protocol_or_refusal(row), ProjectionError) for row in rows)
    assert 50 <= refused <= 150
    accepted = [str(made) for row in rows if isinstance(made := protocol_or_refusal(row), Protocol)]
    for word in ("par\n", "stop", "loop r", "repeat s", "repeat\n"):
        assert sum(word in text for text in accepted) >= 3, word


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # a seed does not shrink
)
@given(ROWS, st.integers(0, 2**32))
def test_what_is_accepted_runs_to_its_end_and_what_is_refused_has_its_witness_and_its_cure(row: Row, seed: int) -> None:
    made = protocol_or_refusal(row)
    if isinstance(made, ProjectionError):
        assert made.role is not None
        event("refused by a rule" if made.rule else "refused for a contradiction")
        VERDICTS[made.rule or "a contradiction"] += 1
        assert is_confused(row, made.role.name, MOST) in (True, None)
        cured(row, made)
    else:
        event("accepted")
        VERDICTS["accepted"] += 1
        assert not any(is_confused(row, role.name, MOST) for role in made.roles)
        follow(row, made)
        found = explore([project(made, role) for role in made.roles], most=SITUATIONS)
        assert found.trouble in (None, "starvation")
        assert found.trouble is None or any(finding.code == "no-exit" for finding in check(made).findings)
        ended = [play(made, Random(seed + i)) for i in range(3)]
        assert can_finish(made.flow)[made.flow.start] or not any(ended)
        conduct(row, made, Random(seed))
        loaded = load(definition(made))
        assert loaded == made
        assert str(loaded) == str(made)
        for role in made.roles:
            # Not the same states: what a definition says twice is loaded once.
            views = project(made, role), project(loaded, role)
            assert refines(*views) is None
            assert refines(*views[::-1]) is None


def teardown_module() -> None:
    if EXAMPLES > 500:
        print(dict(VERDICTS))
