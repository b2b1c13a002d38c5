"""The conductor where a `par` lets several interactions be under way at once."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import timedelta

import pytest
from fakes.conducting import ending
from fakes.conducting import joined as everyone_joined
from fakes.runs import A, B, C, Notice, Ping, Pong, Stop

from partyctl_actors.journals import Decision
from partyctl_actors.payloads import pack
from partyctl_actors.protocol import Protocol, Step, choose, loop, par, repeat, roles, send
from partyctl_actors.runs.conductor import step
from partyctl_actors.runs.run_state import (
    Command,
    Deliver,
    Event,
    Finish,
    Grant,
    Left,
    Phase,
    Recall,
    Record,
    Recorded,
    Sent,
    State,
    Tick,
    Welcome,
)
from partyctl_actors.runs.verdict import Ending, Verdict

(D,) = roles("D")
NOTHING = pack({})

apart = Protocol(par([send(A, B, Ping), send(B, A, Pong)], [send(C, D, Ping), send(D, C, Pong)]), send(B, C, Notice))


def joined(protocol: Protocol, *recorded: Decision, **allowance: float) -> tuple[State, list[Command]]:
    state, commands = everyone_joined(protocol, *recorded, **allowance)
    return state, [command for command in commands if not isinstance(command, Welcome)]


def said(state: State, role: str, label: str, at: float = 0.0) -> Sent:
    grant = state.asked[role].grant
    return Sent(role, grant.turn, grant.receiver, label, NOTHING, 0, at)


def run(state: State, *lines: tuple[str, str]) -> tuple[State, list[Command]]:
    commands: list[Command] = []
    for role, label in lines:
        state, more = step(state, said(state, role, label))
        commands += more
    return state, commands


def decision(turn: int, sender: str, receiver: str, label: str) -> Decision:
    return Decision(turn, sender, receiver, label, NOTHING, 0)


def record(commands: list[Command]) -> list[Decision]:
    return [command.decision for command in commands if isinstance(command, Record)]


def test_every_branch_is_asked_at_once() -> None:
    state, commands = joined(apart)
    assert commands == [Grant(1, "A", "B", None), Grant(1, "C", "D", None)]
    assert list(state.asked) == ["A", "C"]


def test_branches_go_on_independently_and_decisions_are_numbered_as_they_come() -> None:
    state, commands = run(joined(apart)[0], ("C", "Ping"), ("D", "Pong"), ("A", "Ping"))
    assert record(commands) == [
        decision(1, "C", "D", "Ping"),
        decision(2, "D", "C", "Pong"),
        decision(3, "A", "B", "Ping"),
    ]
    grants = [command.grant for command in commands if isinstance(command, Deliver)]
    assert grants == [Grant(2, "D", "C", None), None, Grant(4, "B", "A", None)]
    assert list(state.asked) == ["B"]


def test_what_follows_begins_with_the_last_decision_of_all_branches() -> None:
    lines = {"A": ("Ping", "B"), "B": ("Pong", "A"), "C": ("Ping", "D"), "D": ("Pong", "C")}
    orders = [
        order
        for order in itertools.permutations("ABCD")
        if order.index("A") < order.index("B") and order.index("C") < order.index("D")
    ]
    for order in orders:
        state, commands = run(joined(apart)[0], *((role, lines[role][0]) for role in order))
        assert commands[-1] == Grant(5, "B", "C", None)
        state, commands = run(state, ("B", "Notice"))
        assert isinstance(commands[-1], Finish)
        assert ending(state) == Verdict(Ending.COMPLETE, 5)


def test_a_role_speaks_only_in_its_own_turn_and_all_turns_are_named() -> None:
    state, _ = step(joined(apart)[0], Sent("D", 1, "C", "Pong", NOTHING, 0, 0.0))
    assert ending(state) == Verdict(Ending.ILLEGAL, 1, "D", "it is the turn of A to speak to B and of C to speak to D")


def test_a_role_speaks_only_to_its_own_branch() -> None:
    state, _ = step(joined(apart)[0], Sent("A", 1, "D", "Ping", NOTHING, 0, 0.0))
    assert ending(state) == Verdict(Ending.ILLEGAL, 1, "A", "it spoke to D, and this turn's receiver is B")


def test_a_role_that_repeats_itself_is_to_blame_although_its_branch_went_on() -> None:
    state, _ = run(joined(apart)[0], ("A", "Ping"))
    state, _ = step(state, Sent("A", 1, "B", "Ping", NOTHING, 0, 0.0))
    assert ending(state) == Verdict(Ending.ILLEGAL, 2, "A", "it is the turn of C to speak to D and of B to speak to A")


def test_a_branch_whose_role_is_gone_ends_the_run_in_the_turn_that_it_had() -> None:
    state, _ = run(joined(apart)[0], ("C", "Ping"), ("D", "Pong"))
    state, _ = step(state, Left("A", "killed", 0.0))
    assert (ending(state).role, ending(state).turn) == ("A", 1)


def seconds(of_a: float | None, of_c: float | None) -> Protocol:
    def limited(limit: float | None) -> timedelta | None:
        return None if limit is None else timedelta(seconds=limit)

    return Protocol(par([send(A, B, Ping, within=limited(of_a))], [send(C, D, Ping, within=limited(of_c))]))


@pytest.mark.parametrize(
    ("of_a", "of_c", "wake"), [(5, 2, 3), (2, 5, 3), (None, 4, 5), (4, None, 5), (None, None, None)]
)
def test_the_state_wakes_for_the_earliest_of_all_limits(
    of_a: float | None, of_c: float | None, wake: float | None
) -> None:
    assert joined(seconds(of_a, of_c))[0].wake == wake


def test_only_the_one_whose_time_is_up_is_overdue() -> None:
    state, _ = joined(seconds(5, 2))
    state, _ = step(state, Tick(3.0))
    assert ending(state) == Verdict(Ending.DEADLINE, 1, "C", "it had 2 s to speak to D")


def test_a_limit_that_was_met_is_forgotten_and_the_other_is_kept() -> None:
    state, _ = step(joined(seconds(5, 2))[0], said(joined(seconds(5, 2))[0], "C", "Ping", 1.0))
    assert (state.wake, list(state.asked)) == (6.0, ["A"])
    state, _ = step(state, said(state, "A", "Ping", 6.5))
    assert (ending(state).ending, ending(state).role) == (Ending.DEADLINE, "A")


def test_a_slow_record_takes_nothing_of_the_time_of_those_whose_turn_it_led_to() -> None:
    two = timedelta(seconds=2)
    protocol = Protocol(
        par([send(A, B, Ping), send(B, A, Pong, within=two)], [send(C, D, Ping, within=two), send(D, C, Pong)])
    )
    state, _ = run(joined(protocol)[0], ("A", "Ping"))
    assert (state.asked["B"].due, state.asked["C"].due, state.wake) == (2.0, 2.0, 3.0)
    state, commands = step(state, Recorded(1.5))
    assert commands == []
    assert (state.asked["B"].due, state.asked["C"].due, state.wake) == (3.5, 2.0, 3.0)
    state, _ = step(state, said(state, "C", "Ping", 1.6))
    assert state.wake == 4.5
    assert step(state, Tick(3.0)) == (state, [])


def test_every_interaction_is_charged_when_it_begins() -> None:
    state, commands = joined(apart, steps=1)
    assert not any(isinstance(command, Grant) for command in commands)
    assert ending(state).excess == ("steps", 1, 1)
    state, _ = run(joined(apart, steps=3)[0], ("A", "Ping"))
    assert (state.phase, state.spent.steps) == (Phase.ASKING, 3)
    state, commands = step(state, said(state, "C", "Ping"))
    # What was said is still delivered, and then the run stops.
    assert [type(command) for command in commands[:2]] == [Record, Deliver]
    assert ending(state).excess == ("steps", 3, 3)


def turning(sender: Step, answer: Step) -> Protocol:
    return Protocol(
        loop(
            par([sender], [answer]),
            choose(
                A, C, {Ping: [send(A, B, Ping), send(C, D, Ping), repeat()], Stop: [send(A, B, Stop), send(C, D, Stop)]}
            ),
        )
    )


def test_a_loop_around_a_par_is_entered_once_for_all_branches() -> None:
    state, _ = joined(turning(send(A, B, Ping), send(C, D, Pong)), unfoldings=2)
    assert state.spent.unfoldings == 1
    turn = (("A", "Ping"), ("C", "Pong"), ("A", "Ping"), ("A", "Ping"), ("C", "Ping"))
    state, _ = run(state, *turn)
    assert state.spent.unfoldings == 2
    state, _ = run(state, *turn)
    assert ending(state).excess == ("unfoldings", 2, 2)


# --- the record ---

LINES = (("C", "Ping"), ("A", "Ping"), ("D", "Pong"), ("B", "Pong"), ("B", "Notice"))


def full() -> list[Decision]:
    return record(run(joined(apart)[0], *LINES)[1])


def test_a_full_record_is_followed_in_its_own_order_and_nobody_is_asked() -> None:
    state, commands = joined(apart, *full())
    assert [command.decision for command in commands if isinstance(command, Recall)] == full()
    assert [command.decision for command in commands if isinstance(command, Deliver)] == full()
    assert not any(isinstance(command, (Grant, Record)) for command in commands)
    assert ending(state) == Verdict(Ending.COMPLETE, 5)


@pytest.mark.parametrize("kept", range(5))
def test_a_part_of_a_record_is_recalled_and_every_branch_goes_on_where_it_was(kept: int) -> None:
    undisturbed, _ = run(joined(apart)[0], *LINES[:kept])
    state, commands = joined(apart, *full()[:kept])
    assert replace(state, plan=undisturbed.plan) == undisturbed
    assert [command.decision for command in commands if isinstance(command, Recall)] == full()[:kept]
    granted = [command for command in commands if isinstance(command, Grant)]
    granted += [command.grant for command in commands if isinstance(command, Deliver) and command.grant]
    assert {grant.role: grant for grant in granted} == {role: asked.grant for role, asked in undisturbed.asked.items()}
    assert record(run(state, *LINES[kept:])[1]) == full()[kept:]


def test_one_branch_may_be_recalled_further_than_the_other() -> None:
    state, commands = joined(apart, decision(1, "C", "D", "Ping"), decision(2, "D", "C", "Pong"))
    assert list(state.asked) == ["A"]
    assert commands[-1] == Grant(1, "A", "B", None)


@pytest.mark.parametrize(
    "unlike",
    [
        decision(1, "B", "A", "Pong"),
        decision(1, "A", "D", "Ping"),
        decision(1, "C", "D", "Pong"),
        decision(2, "C", "D", "Ping"),
        decision(1, "X", "D", "Ping"),
    ],
)
def test_a_record_that_fits_no_branch_ends_the_run_and_both_sides_are_shown(unlike: Decision) -> None:
    state, _ = joined(apart, unlike)
    assert ending(state).ending is Ending.JOURNAL
    assert f"recorded is turn {unlike.turn}, {unlike.sender} to {unlike.receiver}" in ending(state).why
    assert "on offer is turn 1, A to B: Ping; C to D: Ping" in ending(state).why


def test_no_event_of_one_branch_changes_what_the_other_was_asked() -> None:
    before, _ = joined(apart)
    events: list[Event] = [said(before, "A", "Ping"), Tick(9.0)]
    state = before
    for event in events:
        state, _ = step(state, event)
    assert state.asked["C"] is before.asked["C"]
