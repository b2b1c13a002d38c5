"""The rules at the head of `conductor`, one by one."""

from __future__ import annotations

from datetime import timedelta

import pytest
from fakes.conducting import asking, ending, joined, plan, run
from fakes.runs import A, B, Ping, Pong, rally, request_reply, triangle

from partyctl_actors.journals import Decision
from partyctl_actors.payloads import pack
from partyctl_actors.protocol import Protocol, choose
from partyctl_actors.runs import messages
from partyctl_actors.runs.conductor import TABLE, begin, step
from partyctl_actors.runs.limits import Limits
from partyctl_actors.runs.run_state import (
    CancelAsked,
    Deliver,
    Dismiss,
    Event,
    Failed,
    Finish,
    Garbled,
    Grant,
    Joined,
    Left,
    Opened,
    Phase,
    Recall,
    Record,
    Sent,
    Stop,
    Stopped,
    Tick,
    Unrecorded,
    Welcome,
)
from partyctl_actors.runs.verdict import Ending, Verdict

TEXT = pack({"text": "hi"})
timed = Protocol(choose(A, B, {Ping: [], Pong: []}, within=timedelta(seconds=2)))


def said(role: str, turn: int, receiver: str, label: str = "Ping", payload: bytes = TEXT, tokens: int = 0) -> Sent:
    return Sent(role, turn, receiver, label, payload, tokens, 1.0)


# --- 1. opening ---


def test_nobody_is_asked_before_every_role_has_joined() -> None:
    state, commands = run(begin(plan(request_reply)), Opened(0.0), Joined("B", request_reply.id, 0.0))
    assert commands == []
    state, commands = step(state, Joined("A", request_reply.id, 0.0))
    assert commands == [Welcome("A"), Welcome("B"), Grant(1, "A", "B", None)]
    assert state.phase is Phase.ASKING


def test_roles_missing_at_the_limit_are_named_and_the_others_are_stopped() -> None:
    state, _ = run(begin(plan(triangle)), Opened(10.0), Joined("B", triangle.id, 10.0))
    assert state.wake == 10.0 + Limits().join
    assert step(state, Tick(39.9)) == (state, [])
    state, commands = step(state, Tick(40.0))
    assert commands == [Stop("B", "A, C: not heard of within 30 s")]
    state, commands = step(state, Stopped("B", 40.0))
    verdict = ending(state)
    assert (verdict.ending, verdict.role) == (Ending.ABSENT, "A, C")
    assert commands == [Finish(verdict)]


def test_a_role_of_another_protocol_ends_the_run() -> None:
    state, commands = run(begin(plan(request_reply)), Opened(0.0), Joined("A", "other", 0.0))
    assert (ending(state).ending, ending(state).role) == (Ending.MISMATCH, "A")
    assert isinstance(commands[0], Stop)


def test_a_role_that_speaks_or_stops_before_the_run_is_to_blame() -> None:
    for event in (said("A", 1, "B"), Stopped("A", 0.0)):
        state, _ = run(begin(plan(request_reply)), Opened(0.0), Joined("A", request_reply.id, 0.0), event)
        assert (ending(state).ending, ending(state).role) == (Ending.ILLEGAL, "A")


# --- 2. each interaction ---


@pytest.mark.parametrize("limit", ["steps", "unfoldings", "tokens", "wall_clock"])
def test_without_room_nobody_is_asked(limit: str) -> None:
    state, commands = joined(rally, **{limit: 0})
    assert not any(isinstance(command, Grant) for command in commands)
    assert (ending(state).ending, ending(state).turn) == (Ending.ALLOWANCE, 1)
    assert ending(state).excess == (limit, 0, 0)


def test_the_grant_rides_on_the_delivery_that_enabled_it() -> None:
    _, commands = step(asking(request_reply), said("A", 1, "B"))
    decision = Decision(1, "A", "B", "Ping", TEXT, 0)
    assert commands == [Record(decision), Deliver(decision, Ping("hi"), Grant(2, "B", "A", None))]


def test_a_grant_for_another_role_than_the_receiver_goes_by_itself() -> None:
    _, commands = run(asking(triangle), said("A", 1, "B"), Sent("B", 2, "C", "Notice", pack({}), 0, 1.0))
    assert commands[-1] == Grant(3, "A", "C", None)
    assert isinstance(commands[-2], Deliver)
    assert commands[-2].grant is None


def test_tokens_of_a_decision_count_before_the_next_step() -> None:
    state = asking(rally, tokens=100)
    state, _ = step(state, said("A", 1, "B", tokens=60))
    assert state.phase is Phase.ASKING
    state, commands = step(state, said("B", 2, "A", "Pong", tokens=50))
    assert ending(state).excess == ("tokens", 110, 100)
    assert isinstance(commands[1], Deliver), "what was paid for is delivered"


def test_a_loop_entered_three_times_is_three_unfoldings() -> None:
    state = asking(rally, unfoldings=2)
    for turn in (1, 3):
        state, _ = run(state, said("A", turn, "B"), said("B", turn + 1, "A", "Pong"))
    assert ending(state).excess == ("unfoldings", 2, 2)


def test_the_end_dismisses_every_role() -> None:
    state, commands = run(asking(request_reply), said("A", 1, "B"), said("B", 2, "A", "Pong"))
    assert commands[-3:] == [Dismiss("A"), Dismiss("B"), Finish(Verdict(Ending.COMPLETE, 2))]
    assert state.phase is Phase.DONE


# --- 3. asking ---


@pytest.mark.parametrize(
    ("event", "blamed", "why"),
    [
        (said("B", 1, "A", "Pong"), "B", "turn of A"),
        (said("A", 2, "B"), "A", "turn 2"),
        (said("A", 1, "A"), "A", "receiver is B"),
        (said("A", 1, "B", "Pong"), "A", "on offer: Ping"),
        (said("A", 1, "B", tokens=-5), "A", "negative"),
        (Joined("B", request_reply.id, 1.0), "B", "twice"),
        (Stopped("B", 1.0), "B", "without being told"),
        (Garbled("B", "noise", 1.0), "B", "noise"),
    ],
)
def test_whatever_is_not_the_turns_own_message_ends_the_run_and_names_the_role(
    event: Event, blamed: str, why: str
) -> None:
    state, commands = step(asking(request_reply), event)
    assert (ending(state).ending, ending(state).role) == (Ending.ILLEGAL, blamed)
    assert why in ending(state).why
    assert [command.role for command in commands if isinstance(command, Stop)] == ["A", "B"]
    assert not any(isinstance(command, (Record, Deliver)) for command in commands)


@pytest.mark.parametrize("payload", [b"", b"\xc1", pack({}) + b"x", pack({"text": 5}), pack({"other": "x"})])
def test_fields_that_do_not_fit_end_the_run_and_name_the_role(payload: bytes) -> None:
    state, commands = step(asking(request_reply), said("A", 1, "B", payload=payload))
    assert (ending(state).ending, ending(state).role) == (Ending.CONTENT, "A")
    assert not any(isinstance(command, (Record, Deliver)) for command in commands)


def test_a_missed_deadline_is_noticed_without_word_from_the_role() -> None:
    state = asking(timed)
    assert (state.asked["A"].due, state.wake) == (2.0, 2.0 + Limits().lateness)
    assert step(state, Tick(2.9)) == (state, [])
    state, _ = step(state, Tick(3.0))
    assert (ending(state).ending, ending(state).role) == (Ending.DEADLINE, "A")


def test_an_answer_after_the_deadline_does_not_count() -> None:
    in_time = step(asking(timed), Sent("A", 1, "B", "Ping", TEXT, 0, 2.5))[0]
    assert ending(in_time).ending is Ending.COMPLETE
    late = step(asking(timed), Sent("A", 1, "B", "Ping", TEXT, 0, 3.5))[0]
    assert ending(late).ending is Ending.DEADLINE


# --- 4. the record ---


def test_what_was_said_is_recorded_before_it_is_delivered() -> None:
    _, commands = step(asking(request_reply), said("A", 1, "B"))
    assert [type(command) for command in commands] == [Record, Deliver]


def test_a_decision_that_cannot_be_recorded_ends_the_run() -> None:
    state, commands = step(asking(request_reply), Unrecorded("disk full", 1.0))
    assert (ending(state).ending, ending(state).why) == (Ending.JOURNAL, "disk full")
    assert {type(command) for command in commands} == {Stop}


def test_recorded_decisions_are_recalled_and_only_the_rest_is_asked_for() -> None:
    first = Decision(1, "A", "B", "Ping", TEXT, 40)
    state, commands = joined(request_reply, first)
    assert commands[2:] == [Recall(first), Deliver(first, Ping("hi"), Grant(2, "B", "A", None))]
    assert (state.spent.steps, state.spent.tokens) == (2, 40)


def test_a_finished_record_asks_nobody() -> None:
    record = (Decision(1, "A", "B", "Ping", TEXT, 0), Decision(2, "B", "A", "Pong", TEXT, 0))
    state, commands = joined(request_reply, *record)
    assert ending(state).ending is Ending.COMPLETE
    assert not any(isinstance(command, (Grant, Record)) for command in commands)


@pytest.mark.parametrize(
    "record",
    [
        [Decision(1, "A", "B", "Pong", TEXT, 0)],
        [Decision(1, "B", "A", "Ping", TEXT, 0)],
        [Decision(2, "A", "B", "Ping", TEXT, 0)],
        [Decision(1, "A", "B", "Ping", b"\xc1", 0)],
        [
            Decision(n, "A" if n % 2 else "B", "B" if n % 2 else "A", "Ping" if n % 2 else "Pong", TEXT, 0)
            for n in (1, 2, 3)
        ],
    ],
    ids=["label", "sender", "turn", "payload", "too long"],
)
def test_a_record_that_does_not_fit_is_a_journal_error(record: list[Decision]) -> None:
    state, _ = joined(request_reply, *record)
    assert ending(state).ending is Ending.JOURNAL


# --- 5., 6. and 7. the early end ---


def test_a_failed_role_is_not_told_to_stop_and_not_waited_for() -> None:
    report = messages.Failed(1, "ValueError", "no", "", "", "", "")
    state, commands = step(asking(request_reply), Failed("A", report, 1.0))
    assert commands == [Stop("B", "A: no")]
    state, commands = step(state, Stopped("B", 1.0))
    assert ending(state) == Verdict(Ending.FAILED, 1, "A", failure=report)
    assert commands == [Finish(ending(state))]


def test_a_role_that_is_gone_ends_the_run() -> None:
    state, _ = run(asking(request_reply), Left("B", "killed", 1.0), Stopped("A", 1.0))
    assert ending(state) == Verdict(Ending.LOST, 1, "B", "killed")


def test_a_lost_link_ends_the_run_and_blames_nobody_in_particular() -> None:
    state, commands = step(asking(request_reply), Left(None, "no broker", 1.0))
    assert (ending(state).ending, ending(state).role) == (Ending.LOST, None)
    assert [command.role for command in commands if isinstance(command, Stop)] == ["A", "B"]


def test_cancelling_waits_for_every_role_to_confirm() -> None:
    state, _ = run(asking(request_reply), CancelAsked("enough", 1.0), Stopped("A", 1.0))
    assert state.phase is Phase.STOPPING
    state, commands = step(state, Left("B", "closed", 1.0))
    assert commands == [Finish(Verdict(Ending.CANCELLED, 1, None, "enough"))]


def test_roles_that_do_not_confirm_are_named_at_the_limit() -> None:
    state, _ = run(asking(request_reply), CancelAsked("enough", 1.0), Stopped("A", 1.0))
    assert state.wake == 1.0 + Limits().stop
    state, commands = step(state, Tick(6.0))
    assert commands == [Finish(Verdict(Ending.CANCELLED, 1, None, "enough", unanswered=("B",)))]


def test_a_role_that_joins_a_stopping_run_is_stopped_too() -> None:
    state, _ = run(
        begin(plan(request_reply)), Opened(0.0), Joined("A", request_reply.id, 0.0), CancelAsked("enough", 0.0)
    )
    state, commands = step(state, Joined("B", request_reply.id, 0.0))
    assert commands == [Stop("B", "enough")]
    assert state.waiting == {"A", "B"}


def test_nothing_is_delivered_once_the_run_stops() -> None:
    state, _ = step(asking(request_reply), CancelAsked("enough", 1.0))
    assert step(state, said("A", 1, "B")) == (state, [])


def test_a_stranger_can_neither_join_nor_end_a_run() -> None:
    for state in (begin(plan(request_reply)), asking(request_reply)):
        for event in (Joined("X", request_reply.id, 0.0), said("X", 1, "B"), Garbled("X", "", 0.0), Left("X", "", 0.0)):
            assert step(state, event) == (state, [])


def test_a_finished_run_ignores_everything() -> None:
    state, _ = run(asking(request_reply), said("A", 1, "B"), said("B", 2, "A", "Pong"))
    for event in (said("A", 3, "B"), CancelAsked("", 9.0), Tick(99.0), Left("A", "", 9.0), Unrecorded("", 9.0)):
        assert step(state, event) == (state, [])


def test_the_table_has_a_row_for_every_phase() -> None:
    assert set(TABLE) == set(Phase)
