"""The six rules, row by row: what was measured of them (docs/recovery.md)."""

from __future__ import annotations

import pytest
from fakes.sessions import Driven, kinds, only

from partyctl_actors.supervision.policy_commands import (
    AdoptVerdict,
    ClearCheckpoint,
    CloseConversation,
    Execute,
    Fail,
    Finish,
    Interrupt,
    Open,
    Prepared,
    Reason,
    Refusal,
    Refuse,
    Rule,
    SaveCheckpoint,
    Steer,
    Wait,
)
from partyctl_actors.supervision.policy_events import (
    AdoptAsked,
    CloseAsked,
    Outcome,
    Phase,
    PrepareAsked,
    ReleaseAsked,
    SteerAsked,
)
from partyctl_plugins.contract import Continuity, RenewalBudget

KEPT = [Outcome.USAGE_LIMIT, Outcome.AUTH, Outcome.SCHEMA, Outcome.TIMEOUT, Outcome.INTERRUPTED, Outcome.INCAPABLE]


def held(**more: object) -> Driven:
    """A session with a connection to c1, which has had one turn."""
    session = Driven(**more)  # type: ignore[arg-type]
    session.turn("c1")
    return session


# --- start, adopt, prepare, run ---


def test_a_session_starts_with_the_conversation_it_is_given() -> None:
    assert Driven("c1").state.conversation_id == "c1"
    assert Driven("").state.conversation_id is None


def test_a_conversation_that_cannot_be_resumed_is_not_started_from() -> None:
    assert Driven("c1", supports_resume=False).state.conversation_id is None


def test_a_conversation_is_adopted_by_a_session_that_holds_none_or_the_same() -> None:
    session = Driven()
    assert session.on(AdoptAsked(0, "c1")) == [AdoptVerdict(True)]
    assert session.on(AdoptAsked(0, "c1")) == [AdoptVerdict(True)]
    assert session.state.conversation_id == "c1"


def test_turns_are_kept_by_adopting_what_is_held() -> None:
    session = held()
    session.on(ReleaseAsked(0))
    assert session.on(AdoptAsked(0, "c1")) == [AdoptVerdict(True)]
    assert session.state.turns == 1


@pytest.mark.parametrize("why", ["closed", "prepared", "running", "live", "another", "cannot", "empty"])
def test_a_conversation_is_not_adopted(why: str) -> None:
    session = Driven("c1" if why == "another" else None, supports_resume=why != "cannot")
    if why == "live":
        session = held()
    if why in ("prepared", "running"):
        session.prepare()
    if why == "running":
        session.run()
    if why == "closed":
        session.close()
    before = session.state
    offered = {"live": "c1", "empty": ""}.get(why, "c2")
    assert session.on(AdoptAsked(0, offered)) == [AdoptVerdict(False)]
    assert session.state == before


def test_a_ticket_tells_what_is_held_and_demanded() -> None:
    assert Driven("c1").prepare(expect="c1", pin=True) == [Prepared("turn-1", "c1", True, True)]
    assert Driven().prepare() == [Prepared("turn-1", None, False, False)]


def test_closed_counts_before_busy_and_busy_before_continuity() -> None:
    session = Driven()
    session.begin()
    assert session.prepare(expect="other") == [Refuse(Refusal.BUSY)]
    session.close()
    assert session.prepare(expect="other") == [Refuse(Refusal.CLOSED)]


@pytest.mark.parametrize("holds", [None, "c2"])
def test_another_conversation_than_the_one_demanded_is_refused(holds: str | None) -> None:
    session = Driven(holds)
    assert session.prepare(expect="c1") == [Refuse(Refusal.CONTINUITY, "c1", holds)]


def test_a_refusal_leaves_an_earlier_ticket_as_it_was() -> None:
    session = Driven("c1")
    session.prepare()
    session.on(PrepareAsked(0, "other", expect="c2"))
    assert session.run() == [Open(1, "c1")]


@pytest.mark.parametrize("ticket", ["turn-1", "never"])
def test_only_the_last_ticket_runs(ticket: str) -> None:
    session = Driven()
    session.prepare()
    session.prepare()
    assert session.run(ticket) == [Refuse(Refusal.STALE)]
    assert session.run() == [Open(1, None)]


def test_a_ticket_runs_once() -> None:
    session = Driven()
    session.begin()
    assert session.run() == [Refuse(Refusal.STALE)]
    assert session.state.phase is Phase.RUNNING
    session.succeed("c1")
    assert session.run() == [Refuse(Refusal.STALE)]


def test_a_turn_opens_a_connection_and_the_next_one_uses_it() -> None:
    session = Driven()
    session.prepare()
    assert session.run() == [Open(1, None)]
    assert session.opened() == [Execute(2)]
    assert session.succeed("c1") == [SaveCheckpoint("c1"), Finish("turn-1", Continuity.CONTINUED, "c1")]
    session.prepare()
    assert session.run() == [Execute(3)]


# --- rule 1 ---


def test_a_transient_failure_is_tried_again_in_place_after_each_delay_and_then_stands() -> None:
    session = held()
    session.begin()
    for delay in (30, 60):
        assert only(Wait, session.fail(Outcome.TRANSIENT)).seconds == delay
        assert kinds(session.waited()) == ["Execute"]
    end = session.fail(Outcome.TRANSIENT)
    assert end == [SaveCheckpoint("c1"), Fail("turn-2", Reason.FAILED, Rule.EXHAUSTED, 3)]
    assert session.state.live


def test_a_failed_opening_is_opened_again() -> None:
    session = Driven("c1")
    session.prepare()
    session.run()
    assert kinds(session.fail(Outcome.TRANSIENT)) == ["Wait"]
    assert only(Open, session.waited()).conversation_id == "c1"


def test_without_delays_a_transient_failure_stands() -> None:
    session = held(delays=())
    session.begin()
    assert only(Fail, session.fail(Outcome.TRANSIENT)).rule is Rule.EXHAUSTED


@pytest.mark.parametrize("how", ["interrupt", "close", "stopped"])
def test_a_wait_that_is_cut_short_raises_the_transient_error(how: str) -> None:
    session = held()
    session.begin()
    session.fail(Outcome.TRANSIENT)
    if how != "stopped":
        assert Interrupt(session.serial) in (session.interrupt() if how == "interrupt" else session.close())
    end = session.waited(stopped=how == "stopped")
    assert end == [SaveCheckpoint("c1"), Fail("turn-2", Reason.FAILED, Rule.INTERRUPTED, 1)]


# --- rule 2 ---


def test_a_refused_resume_is_tried_once_in_a_fresh_conversation() -> None:
    session = Driven("c1")
    session.prepare()
    session.run()
    assert session.fail(Outcome.RESUME_REFUSED) == [ClearCheckpoint(), Open(2, None)]
    session.opened()
    assert only(Finish, session.succeed("c2")) == Finish("turn-1", Continuity.REPLACED, "c2")


def test_a_conversation_that_is_refused_at_its_turn_is_closed_first() -> None:
    session = held()
    session.begin()
    assert kinds(session.fail(Outcome.RESUME_REFUSED)) == ["CloseConversation", "ClearCheckpoint", "Open"]


def test_a_second_refusal_stands_and_forgets() -> None:
    session = Driven("c1")
    session.prepare()
    session.run()
    session.fail(Outcome.RESUME_REFUSED)
    assert kinds(session.fail(Outcome.RESUME_REFUSED)) == ["ClearCheckpoint", "Fail"]
    assert session.state.conversation_id is None


@pytest.mark.parametrize("demand", [{"expect": "c1"}, {"pin": True}])
def test_a_strict_or_pinned_turn_is_never_tried_fresh(demand: dict[str, object]) -> None:
    session = Driven("c1")
    session.prepare(**demand)  # type: ignore[arg-type]
    session.run()
    assert kinds(session.fail(Outcome.RESUME_REFUSED)) == ["SaveCheckpoint", "Fail"]
    assert session.state.conversation_id == "c1"


def test_a_conversation_lost_under_its_own_turn_is_forgotten_and_the_turn_not_replayed() -> None:
    session = Driven()
    session.begin()
    assert kinds(session.fail(Outcome.RESUME_REFUSED)) == ["CloseConversation", "ClearCheckpoint", "Fail"]


# --- rule 3 ---


def test_a_resumed_turn_that_fails_for_no_known_reason_forgets_its_conversation() -> None:
    session = held()
    session.begin()
    end = session.fail(Outcome.OTHER)
    assert kinds(end) == ["CloseConversation", "ClearCheckpoint", "Fail"]
    assert only(Fail, end).rule is Rule.BACKSTOP
    assert session.state.conversation_id is None


def test_a_first_turn_that_fails_so_keeps_the_conversation_it_named() -> None:
    session = Driven()
    session.begin()
    assert kinds(session.fail(Outcome.OTHER, "c1")) == ["SaveCheckpoint", "Fail"]
    assert session.state.conversation_id == "c1"


@pytest.mark.parametrize("outcome", KEPT)
def test_a_classified_failure_keeps_the_conversation(outcome: Outcome) -> None:
    session = held()
    session.begin()
    end = session.fail(outcome)
    assert end == [SaveCheckpoint("c1"), Fail("turn-2", Reason.FAILED, Rule.PROPAGATE, 1)]
    assert session.state.live


@pytest.mark.parametrize("resumed", [True, False])
def test_an_overflow_forgets_the_conversation_resumed_or_not(resumed: bool) -> None:
    session = held() if resumed else Driven()
    session.begin()
    assert kinds(session.fail(Outcome.CONTEXT_OVERFLOW, "c1")) == ["CloseConversation", "ClearCheckpoint", "Fail"]


@pytest.mark.parametrize("outcome", [Outcome.OTHER, Outcome.CONTEXT_OVERFLOW])
@pytest.mark.parametrize("demand", [{"expect": "c1"}, {"pin": True}])
def test_a_strict_or_pinned_turn_keeps_it_whatever_it_fails_with(outcome: Outcome, demand: dict[str, object]) -> None:
    session = held()
    session.begin(**demand)  # type: ignore[arg-type]
    assert kinds(session.fail(outcome)) == ["SaveCheckpoint", "Fail"]
    assert session.state.conversation_id == "c1"


def test_a_failure_leaves_where_the_last_turn_ran() -> None:
    session = held()
    session.begin()
    session.fail(Outcome.OTHER)
    assert session.state.last_turn_conversation_id == "c1"


# --- rule 4 ---


@pytest.mark.parametrize(
    ("budget", "took"),
    [
        (RenewalBudget(max_turns=1), {}),
        (RenewalBudget(max_turn_input_tokens=10), {"input_tokens": 10}),
        (RenewalBudget(max_turn_duration_ms=10), {"duration_ms": 10}),
    ],
)
def test_a_conversation_that_reaches_its_budget_is_retired(budget: RenewalBudget, took: dict[str, int]) -> None:
    session = Driven(renewal=budget)
    end = session.turn("c1", **took)
    assert kinds(end) == ["CloseConversation", "ClearCheckpoint", "Finish"]
    assert only(Finish, end) == Finish("turn-1", Continuity.RESET, "c1")
    assert (session.state.conversation_id, session.state.last_turn_conversation_id) == (None, "c1")


def test_below_the_budget_it_goes_on() -> None:
    budget = RenewalBudget(max_turns=2, max_turn_input_tokens=10, max_turn_duration_ms=10)
    session = Driven(renewal=budget)
    assert only(Finish, session.turn("c1", input_tokens=9, duration_ms=9)).continuity is Continuity.CONTINUED
    assert only(Finish, session.turn("c1")).continuity is Continuity.RESET
    assert only(Finish, session.turn("c2")).continuity is Continuity.CONTINUED


def test_an_interrupted_turn_neither_counts_nor_retires() -> None:
    session = Driven(renewal=RenewalBudget(max_turns=1))
    session.begin()
    assert only(Finish, session.succeed("c1", interrupted=True)).continuity is Continuity.CONTINUED
    assert session.state.turns == 0


def test_a_pinned_turn_counts_and_the_next_ordinary_one_retires() -> None:
    session = Driven("c1", renewal=RenewalBudget(max_turns=1))
    for demand in ({"pin": True}, {"expect": "c1"}):
        session.begin(**demand)  # type: ignore[arg-type]
        assert only(Finish, session.succeed("c1")).continuity is Continuity.CONTINUED
    session.begin()
    assert only(Finish, session.succeed("c1")).continuity is Continuity.RESET


def test_replaced_is_said_even_if_the_replacement_is_retired_at_once() -> None:
    session = Driven("c1", renewal=RenewalBudget(max_turns=1))
    session.prepare()
    session.run()
    session.fail(Outcome.RESUME_REFUSED)
    session.opened()
    assert only(Finish, session.succeed("c2")).continuity is Continuity.REPLACED
    assert session.state.conversation_id is None


# --- rule 5 ---


@pytest.mark.parametrize(("idle", "closes"), [(9.9, False), (10, True)])
def test_a_connection_that_was_idle_for_the_limit_is_closed_at_prepare(idle: float, closes: bool) -> None:
    session = held(idle_release_after=10)
    session.now = idle
    assert (kinds(session.prepare())[0] == "CloseConversation") is closes
    assert kinds(session.run()) == (["Open"] if closes else ["Execute"])
    if closes:
        session.opened()
    assert only(Finish, session.succeed("c1")).continuity is Continuity.CONTINUED


def test_release_closes_on_demand_and_keeps_the_conversation() -> None:
    session = held()
    assert kinds(session.on(ReleaseAsked(0))) == ["CloseConversation"]
    assert session.on(ReleaseAsked(0)) == []
    session.prepare()
    assert only(Open, session.run()).conversation_id == "c1"


def test_release_does_nothing_while_a_turn_runs_or_before_a_conversation_has_a_name() -> None:
    session = held()
    session.begin()
    assert session.on(ReleaseAsked(0)) == []
    nameless = Driven()
    nameless.turn(None)
    assert nameless.on(ReleaseAsked(0)) == []
    assert nameless.state.live


# --- close, interrupt, steer ---


def test_close_ends_the_session_once() -> None:
    session = held()
    assert kinds(session.close()) == ["CloseConversation"]
    assert session.close() == []
    assert session.prepare() == [Refuse(Refusal.CLOSED)]


def test_the_ticket_of_a_closed_session_is_refused() -> None:
    session = Driven()
    session.prepare()
    session.close()
    assert session.run() == [Refuse(Refusal.CLOSED)]


def test_a_running_turn_that_is_closed_comes_to_an_end_and_keeps_its_result() -> None:
    session = held()
    session.begin()
    assert kinds(session.close()) == ["Interrupt", "CloseConversation"]
    assert kinds(session.succeed("c1", interrupted=True)) == ["SaveCheckpoint", "Finish"]


def test_a_closed_session_retries_nothing() -> None:
    session = held()
    session.begin()
    session.close()
    assert only(Finish, session.fail(Outcome.TRANSIENT)).forced


def test_an_opening_that_is_closed_ends_cancelled_and_leaves_no_connection() -> None:
    session = Driven()
    session.prepare()
    session.run()
    assert session.on(CloseAsked(0)) == [Interrupt(1)]
    assert session.opened() == [CloseConversation(1), Fail("turn-1", Reason.CANCELLED, Rule.CANCELLED, 0)]


def test_an_opening_that_is_interrupted_ends_cancelled_and_keeps_the_connection() -> None:
    session = Driven("c1")
    session.prepare()
    session.run()
    assert session.interrupt() == [Interrupt(1)]
    assert only(Fail, session.opened()).reason is Reason.CANCELLED
    assert session.state.live


@pytest.mark.parametrize("how", ["opened", "failed"])
def test_an_opening_interrupted_between_attempts_raises_the_last_error(how: str) -> None:
    session = Driven("c1")
    session.begin()
    session.fail(Outcome.TRANSIENT, died=True)
    session.waited()
    session.interrupt()
    end = session.opened() if how == "opened" else session.fail(Outcome.INTERRUPTED)
    assert only(Fail, end) == Fail("turn-1", Reason.FAILED, Rule.INTERRUPTED, 1)


def test_an_interrupt_between_execute_and_the_answer_reaches_the_attempt() -> None:
    session = Driven()
    session.begin()
    assert session.interrupt() == [Interrupt(session.serial)]
    assert session.interrupt() == []


def test_an_interrupt_with_no_turn_running_does_nothing() -> None:
    session = Driven()
    assert session.interrupt() == []
    session.prepare()
    assert session.interrupt() == []
    assert kinds(session.run()) == ["Open"]


def test_a_prepared_turn_that_is_interrupted_is_cancelled_without_asking_anybody() -> None:
    session = held()
    session.prepare()
    assert session.interrupt("turn-2") == []
    assert session.run() == [Fail("turn-2", Reason.CANCELLED, Rule.CANCELLED, 0)]
    assert session.run() == [Refuse(Refusal.STALE)]


def test_a_cancelled_ticket_that_is_superseded_is_stale() -> None:
    session = Driven()
    session.prepare()
    session.interrupt("turn-1")
    session.prepare()
    assert session.run("turn-1") == [Refuse(Refusal.STALE)]
    assert kinds(session.run("turn-2")) == ["Open"]


def test_a_cancelled_ticket_stands_in_nobodys_way() -> None:
    session = Driven()
    session.prepare()
    session.interrupt("turn-1")
    assert session.on(AdoptAsked(0, "c1")) == [AdoptVerdict(True)]


@pytest.mark.parametrize("ticket", ["turn-1", "turn-2"])
def test_an_interrupt_of_an_ended_or_superseded_turn_leaves_the_next_one_alone(ticket: str) -> None:
    session = Driven()
    session.turn("c1")
    session.prepare()
    session.begin()
    before = session.state
    assert session.interrupt(ticket) == []
    assert session.state == before


def test_a_message_passes_only_into_a_running_turn() -> None:
    session = Driven()
    refused = [Refuse(Refusal.NO_RUNNING_TURN)]
    assert session.on(SteerAsked(0)) == refused
    session.prepare()
    assert session.on(SteerAsked(0)) == refused
    session.run()
    assert session.on(SteerAsked(0)) == refused
    session.opened()
    assert session.on(SteerAsked(0)) == [Steer(session.serial)]
    session.fail(Outcome.TRANSIENT)
    assert session.on(SteerAsked(0)) == refused
    session.waited()
    session.interrupt()
    assert session.on(SteerAsked(0)) == refused
    session.succeed("c1", interrupted=True)
    assert session.on(SteerAsked(0)) == refused


def test_a_provider_that_takes_no_message_is_named_first_even_by_a_closed_session() -> None:
    session = Driven(supports_steer=False)
    session.close()
    assert session.on(SteerAsked(0)) == [Refuse(Refusal.CANNOT_STEER)]
