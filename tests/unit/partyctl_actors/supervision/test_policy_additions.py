"""What ours adds to the six rules, each with and without (docs/decisions/0013)."""

from __future__ import annotations

import math

import pytest
from fakes.sessions import Driven, kinds, only

from partyctl_actors.supervision.policy_commands import (
    ClearCheckpoint,
    CloseConversation,
    Fail,
    Finish,
    Interrupt,
    Open,
    Reason,
    Rule,
    SaveCheckpoint,
    Wait,
)
from partyctl_actors.supervision.policy_events import (
    Broke,
    ContinueAsked,
    Died,
    Found,
    Lost,
    Opened,
    Outcome,
    Phase,
    Restored,
    Succeeded,
    Waited,
)
from partyctl_actors.supervision.policy_failures import RESET_MAX, SAME_ID_DELAY
from partyctl_plugins.contract import Continuity


def running(**more: object) -> Driven:
    """A session in its second turn, in c1."""
    session = Driven(**more)  # type: ignore[arg-type]
    session.turn("c1")
    session.begin()
    return session


def opening(conversation_id: str | None = "c1", **more: object) -> Driven:
    """A session that is opening a connection for its first turn."""
    session = Driven(conversation_id, **more)  # type: ignore[arg-type]
    session.prepare()
    session.run()
    return session


# --- after a tool ---


@pytest.mark.parametrize(("tool_ran", "rule"), [(True, Rule.RETRY_AFTER_TOOL), (False, Rule.RETRY)])
def test_a_transient_after_a_tool_is_tried_again_and_said_so(tool_ran: bool, rule: Rule) -> None:
    session = running()
    assert only(Wait, session.fail(Outcome.TRANSIENT, tool_ran=tool_ran)).seconds == 30
    assert session.rules == [rule]


@pytest.mark.parametrize("tool_ran", [True, False])
def test_with_after_tool_fail_it_stands(tool_ran: bool) -> None:
    session = running(after_tool="fail")
    commands = session.fail(Outcome.TRANSIENT, tool_ran=tool_ran)
    assert kinds(commands) == (["SaveCheckpoint", "Fail"] if tool_ran else ["Wait"])
    assert session.rules == [Rule.RETRY_UNSAFE if tool_ran else Rule.RETRY]


def test_after_tool_is_about_the_attempt_that_failed() -> None:
    session = running(after_tool="fail")
    session.fail(Outcome.TRANSIENT, tool_ran=False)
    session.waited()
    assert kinds(session.fail(Outcome.TRANSIENT, tool_ran=False)) == ["Wait"]


@pytest.mark.parametrize("tool_ran", [True, False])
def test_a_turn_is_not_begun_in_a_fresh_conversation_after_a_tool(tool_ran: bool) -> None:
    session = running()
    commands = session.fail(Outcome.RESUME_REFUSED, tool_ran=tool_ran)
    last = ["Fail"] if tool_ran else ["Open"]
    assert kinds(commands) == ["CloseConversation", "ClearCheckpoint", *last]
    assert session.rules == [Rule.FRESH_REFUSED if tool_ran else Rule.REPLACE]


def test_nor_after_a_tool_in_an_earlier_attempt() -> None:
    session = running()
    session.fail(Outcome.TRANSIENT, tool_ran=True, died=True)
    assert only(Open, session.waited()).conversation_id == "c1"
    assert kinds(session.fail(Outcome.RESUME_REFUSED)) == ["ClearCheckpoint", "Fail"]


@pytest.mark.parametrize("tool_ran", [True, False])
def test_nor_when_the_conversation_ended_before_it_had_a_name(tool_ran: bool) -> None:
    session = opening(None)
    session.opened()
    commands = session.fail(Outcome.TRANSIENT, tool_ran=tool_ran, died=True)
    assert kinds(commands) == (["Fail"] if tool_ran else ["Wait"])


# --- the same id again ---


@pytest.mark.parametrize("dead", [True, False])
def test_a_refused_id_is_tried_again_only_if_the_process_before_may_live(dead: bool) -> None:
    session = opening()
    commands = session.fail(Outcome.RESUME_REFUSED, predecessor_dead=dead)
    if dead:
        assert commands == [ClearCheckpoint(), Open(session.serial, None)]
        return
    assert commands == [Wait(session.serial, SAME_ID_DELAY)]
    assert session.waited() == [Open(session.serial, "c1")]


def test_it_is_tried_again_once() -> None:
    session = opening()
    session.fail(Outcome.RESUME_REFUSED, predecessor_dead=False)
    session.waited()
    session.fail(Outcome.RESUME_REFUSED, predecessor_dead=False)
    assert session.rules == [Rule.SAME_ID, Rule.REPLACE]


def test_a_pinned_turn_tries_the_same_id_too_and_nothing_else() -> None:
    session = Driven("c1")
    session.prepare(pin=True)
    session.run()
    assert kinds(session.fail(Outcome.RESUME_REFUSED, predecessor_dead=False)) == ["Wait"]
    session.waited()
    assert kinds(session.fail(Outcome.RESUME_REFUSED, predecessor_dead=False)) == ["SaveCheckpoint", "Fail"]


# --- reset times ---


@pytest.mark.parametrize(
    ("resets_at", "seconds"),
    [
        (None, 30),
        (1000 + 2400, 2400),
        (1000 + 5, 5),
        (1000, 30),
        (400, 30),
        (1000 + 10 * 365 * 86400, RESET_MAX),
        (math.inf, RESET_MAX),
        (math.nan, 30),
    ],
)
def test_a_reset_time_replaces_the_delay_up_to_the_cap(resets_at: float | None, seconds: float) -> None:
    session = running()
    assert only(Wait, session.fail(Outcome.TRANSIENT, resets_at=resets_at, epoch=1000)).seconds == seconds


def test_a_usage_limit_stands_at_once_and_tells_until_when() -> None:
    session = running()
    assert kinds(session.fail(Outcome.USAGE_LIMIT, resets_at=3400, epoch=1000)) == ["SaveCheckpoint", "Fail"]
    assert session.state.limited_until == 3400
    session.turn()
    assert session.state.limited_until is None


@pytest.mark.parametrize("resets_at", [None, math.nan, math.inf])
def test_a_limit_without_a_time_tells_none(resets_at: float | None) -> None:
    session = running()
    session.fail(Outcome.USAGE_LIMIT, resets_at=resets_at)
    assert session.state.limited_until is None


# --- stalled conversations ---


@pytest.mark.parametrize("limit", [None, 2])
def test_a_conversation_stalls_after_so_many_turns_without_progress(limit: int | None) -> None:
    session = running(retire_after_stalled=limit)
    session.fail(Outcome.TIMEOUT)
    session.begin()
    commands = session.fail(Outcome.TIMEOUT)
    assert (ClearCheckpoint() in commands) is (limit is not None)
    assert session.rules[-1] is (Rule.PROPAGATE if limit is None else Rule.STALLED)


@pytest.mark.parametrize("outcome", [Outcome.AUTH, Outcome.USAGE_LIMIT])
def test_a_login_or_a_limit_is_not_its_conversations_fault(outcome: Outcome) -> None:
    session = running(retire_after_stalled=1)
    session.fail(outcome)
    assert session.state.conversation_id == "c1"


@pytest.mark.parametrize("between", ["success", "progress", "continue"])
def test_stalled_turns_count_in_a_row(between: str) -> None:
    session = running(retire_after_stalled=2)
    session.fail(Outcome.TIMEOUT, progressed=False)
    if between == "success":
        session.turn("c1")
    if between == "progress":
        session.begin()
        session.fail(Outcome.TIMEOUT, progressed=True)
    if between == "continue":
        session.on(ContinueAsked(0))
    session.begin()
    session.fail(Outcome.TIMEOUT)
    assert session.state.conversation_id == "c1"


@pytest.mark.parametrize("demand", [{"expect": "c1"}, {"pin": True}])
def test_a_strict_or_pinned_turn_retires_no_stalled_conversation(demand: dict[str, object]) -> None:
    session = Driven("c1", retire_after_stalled=1)
    session.begin(**demand)  # type: ignore[arg-type]
    session.fail(Outcome.TIMEOUT)
    assert (session.state.conversation_id, session.state.stalled) == ("c1", 1)


# --- ids ---


@pytest.mark.parametrize("outcome", [Outcome.RESUME_REFUSED, Outcome.TRANSIENT, Outcome.OTHER, Outcome.AUTH])
def test_an_id_that_a_failed_resume_names_is_not_adopted(outcome: Outcome) -> None:
    session = opening()
    session.fail(outcome, "c9")
    assert session.state.conversation_id != "c9"


def test_nor_that_of_an_opening_that_had_no_turn() -> None:
    session = opening(None)
    session.fail(Outcome.AUTH, "c9")
    assert session.state.conversation_id is None


def test_the_id_of_a_first_turn_that_failed_is_and_it_is_tried_again_there() -> None:
    session = opening(None)
    session.opened()
    session.fail(Outcome.TRANSIENT, "c1", died=True)
    assert only(Open, session.waited()).conversation_id == "c1"


# --- continuity ---


@pytest.mark.parametrize("demand", [{"expect": "c1"}, {"pin": True}])
def test_a_turn_that_keeps_its_conversation_and_is_answered_in_another_fails(demand: dict[str, object]) -> None:
    session = Driven("c1")
    session.begin(**demand)  # type: ignore[arg-type]
    close, save, fail = session.succeed("c9")
    assert (close, save) == (CloseConversation(1), SaveCheckpoint("c1"))
    assert fail == Fail("turn-1", Reason.CONTINUITY, Rule.CONTINUITY, 1, False, "c1", "c9")
    assert (session.state.conversation_id, session.state.last_turn_conversation_id) == ("c1", "c9")


@pytest.mark.parametrize("demand", [{"expect": "c1"}, {"pin": True}])
def test_it_fails_before_it_is_asked_if_another_conversation_was_opened(demand: dict[str, object]) -> None:
    session = Driven("c1")
    session.prepare(**demand)  # type: ignore[arg-type]
    session.run()
    fail = only(Fail, session.opened("c9"))
    assert (fail.reason, fail.attempts, fail.expected, fail.actual) == (Reason.CONTINUITY, 0, "c1", "c9")


def test_an_ordinary_turn_that_is_answered_in_another_conversation_was_replaced() -> None:
    session = Driven("c1")
    session.begin()
    assert only(Finish, session.succeed("c9")).continuity is Continuity.REPLACED
    assert (session.state.conversation_id, session.state.turns) == ("c9", 1)


# --- budgets ---


def test_a_replacement_takes_no_retry_and_brings_none() -> None:
    session = Driven("c1", delays=(1, 2, 3))
    session.prepare()
    session.run()
    waits = []
    for outcome in (Outcome.TRANSIENT, Outcome.TRANSIENT, Outcome.RESUME_REFUSED, Outcome.TRANSIENT):
        commands = session.fail(outcome)
        if outcome is Outcome.TRANSIENT:
            waits.append(only(Wait, commands).seconds)
            session.waited()
    assert waits == [1, 2, 3]
    assert (session.decided[-1].retries, session.decided[-1].replaced) == (3, True)
    assert only(Fail, session.fail(Outcome.TRANSIENT)).rule is Rule.EXHAUSTED


def test_a_person_who_says_go_on_ends_the_wait_and_forgives_what_was_spent() -> None:
    session = running(delays=(1,))
    session.fail(Outcome.TRANSIENT)
    old = session.serial
    assert kinds(session.on(ContinueAsked(0))) == ["Execute"]
    assert session.on(Waited(0, old)) == []
    assert kinds(session.fail(Outcome.TRANSIENT)) == ["Wait"]


def test_go_on_does_not_revive_a_turn_that_was_told_to_end() -> None:
    session = running()
    session.fail(Outcome.TRANSIENT)
    session.interrupt()
    assert session.on(ContinueAsked(0)) == []
    assert kinds(session.waited(stopped=True)) == ["SaveCheckpoint", "Fail"]


# --- an interrupt that is put as a failure ---


@pytest.mark.parametrize("outcome", list(Outcome))
def test_what_an_interrupted_turn_fails_with_is_its_end_and_costs_nothing(outcome: Outcome) -> None:
    session = running()
    session.interrupt()
    finish = only(Finish, session.fail(outcome, tool_ran=True))
    assert finish == Finish("turn-2", Continuity.CONTINUED, "c1", forced=True)
    assert (session.state.conversation_id, session.decided[-1].retries) == ("c1", 0)


def test_a_result_that_came_before_the_interrupt_took_effect_is_a_result() -> None:
    session = running()
    session.interrupt()
    assert not only(Finish, session.succeed("c1")).forced


# --- deaths, losses, exceptions ---


def test_a_worker_that_dies_in_a_turn_is_a_failure_for_no_known_reason() -> None:
    session = running()
    assert kinds(session.on(Died(0, 1, "killed by signal 9"))) == ["ClearCheckpoint", "Fail"]
    assert session.decided[-1].cause == "killed by signal 9"


def test_a_worker_that_dies_at_rest_or_in_a_wait_is_opened_anew() -> None:
    session = running()
    session.fail(Outcome.TRANSIENT)
    assert session.on(Died(0, 1)) == []
    assert only(Open, session.waited()).conversation_id == "c1"


def test_the_late_death_of_an_earlier_worker_is_nobodys() -> None:
    session = Driven("c1")
    session.begin()
    session.fail(Outcome.TRANSIENT, died=True)
    session.waited()
    session.opened()
    before = session.state
    assert session.on(Died(0, 1)) == []
    assert session.state == before


def test_late_answers_change_nothing() -> None:
    session = running()
    old = session.serial
    session.fail(Outcome.TRANSIENT)
    session.waited()
    before = session.state
    for late in (Succeeded(0, old, "c9"), Opened(0, 1), Waited(0, old + 1)):
        assert session.on(late) == []
    assert session.state == before


@pytest.mark.parametrize("phase", [Phase.OPENING, Phase.RUNNING])
def test_the_loss_of_launcher_or_host_ends_the_attempt_and_spends_nothing(phase: Phase) -> None:
    session = opening(retire_after_stalled=1)
    if phase is Phase.RUNNING:
        session.opened()
    fail = only(Fail, session.on(Lost(0)))
    assert (fail.reason, fail.in_flight, fail.attempts) == (Reason.LOST, phase is Phase.RUNNING, phase is Phase.RUNNING)
    assert (session.state.conversation_id, session.state.stalled, session.state.live) == ("c1", 0, False)


def test_a_wait_outlives_the_launcher() -> None:
    session = running()
    session.fail(Outcome.TRANSIENT)
    assert session.on(Lost(0)) == []
    assert only(Open, session.waited()).conversation_id == "c1"


@pytest.mark.parametrize("phase", [Phase.OPENING, Phase.RUNNING, Phase.WAITING])
def test_what_the_caller_raises_ends_the_turn_as_it_is_and_leaves_nothing_stuck(phase: Phase) -> None:
    session = opening()
    if phase is not Phase.OPENING:
        session.opened()
    if phase is Phase.WAITING:
        session.fail(Outcome.TRANSIENT)
    commands = session.on(Broke(0, cause="KeyboardInterrupt"))
    assert only(Fail, commands).reason is Reason.BROKE
    assert only(SaveCheckpoint, commands).conversation_id == "c1"
    assert session.state.live is (phase is Phase.WAITING)
    assert kinds(session.prepare()) == ["Prepared"]


def test_the_conversation_of_a_first_turn_that_broke_is_known() -> None:
    session = opening(None)
    session.opened()
    session.on(Broke(0, "c1"))
    session.prepare()
    assert only(Open, session.run()).conversation_id == "c1"


def test_a_conversation_that_cannot_be_resumed_lasts_as_long_as_its_connection() -> None:
    session = Driven(supports_resume=False, idle_release_after=0)
    assert kinds(session.turn("c1")) == ["Finish"]
    assert session.state.conversation_id == "c1"
    assert kinds(session.begin(expect="c1")) == ["Execute"]
    session.succeed("c1")
    session.on(Died(0, 1))
    assert session.state.conversation_id is None


@pytest.mark.parametrize("demand", [{"expect": "c1"}, {"pin": True}, {}])
def test_what_it_demands_may_be_gone_before_it_runs(demand: dict[str, object]) -> None:
    session = Driven(supports_resume=False)
    session.turn("c1")
    session.prepare(**demand)  # type: ignore[arg-type]
    session.on(Died(0, 1))
    commands = session.run()
    if demand:
        assert only(Fail, commands).reason is Reason.CONTINUITY
    else:
        session.opened()
        assert only(Finish, session.succeed("c2")).continuity is Continuity.REPLACED


@pytest.mark.parametrize("with_go_on", [True, False])
def test_a_pinned_turn_whose_conversation_ends_in_a_wait_is_not_begun_afresh(with_go_on: bool) -> None:
    session = Driven(supports_resume=False)
    session.turn("c1")
    session.begin(pin=True)
    session.fail(Outcome.TRANSIENT)
    session.on(Died(0, 1))
    commands = session.on(ContinueAsked(0)) if with_go_on else session.waited()
    assert only(Fail, commands).rule is Rule.FRESH_REFUSED


# --- another supervisor ---


@pytest.mark.parametrize("worker", [Found.GONE, Found.AT_REST])
@pytest.mark.parametrize("phase", [Phase.OPENING, Phase.RUNNING])
def test_a_turn_is_never_begun_again_by_another_supervisor(worker: Found, phase: Phase) -> None:
    session = opening()
    if phase is Phase.RUNNING:
        session.opened()
    fail = only(Fail, session.on(Restored(0, worker)))
    in_flight = phase is Phase.RUNNING and worker is Found.GONE
    assert (fail.reason, fail.in_flight) == (Reason.LOST, in_flight)


def test_an_attempt_that_the_worker_is_at_goes_on_and_is_reminded_of_an_interrupt() -> None:
    session = running()
    assert session.on(Restored(0, Found.BUSY)) == []
    session.interrupt()
    assert session.on(Restored(0, Found.BUSY)) == [Interrupt(session.serial)]


@pytest.mark.parametrize(("now", "left"), [(10, 20), (40, 0), (-500, 30)])
def test_a_wait_goes_on_where_it_was_whatever_the_clock_says(now: float, left: float) -> None:
    session = running()
    session.fail(Outcome.TRANSIENT)
    session.now = now
    assert only(Wait, session.on(Restored(now, Found.GONE))).seconds == left
    assert session.state.turn is not None
    assert session.state.turn.retries == 1
    assert kinds(session.waited()) == ["Open"]


def test_a_wait_that_was_told_to_end_ends() -> None:
    session = running()
    session.fail(Outcome.TRANSIENT)
    session.interrupt()
    assert kinds(session.on(Restored(0, Found.GONE))) == ["SaveCheckpoint", "Fail"]
    assert not session.state.live


# --- reports ---


def test_a_report_tells_rule_counters_and_cause() -> None:
    session = running()
    session.fail(Outcome.TRANSIENT, cause="overloaded")
    session.waited()
    session.fail(Outcome.TRANSIENT, cause="overloaded again")
    last = session.decided[-1]
    assert (last.rule, last.turn_id, last.outcome, last.conversation_id) == (
        Rule.RETRY,
        "turn-2",
        Outcome.TRANSIENT,
        "c1",
    )
    assert (last.retries, last.times, last.wait, last.cause) == (2, 2, 60, "overloaded again")
