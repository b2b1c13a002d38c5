"""The deadline of a turn whose session died while it waited for the next attempt, and another one goes on."""

from __future__ import annotations

import pytest
from fakes.agent_sessions import GO, Told, local

from partyctl_actors.supervision.turn_log import MemoryTurnLog, Recovered
from partyctl_actors.supervision.turn_shard import Plain
from partyctl_base.clock import StopSignal
from partyctl_plugins.contract import FailureKind, RetryPolicy, TurnTicket, TurnTimeoutError
from partyctl_plugins.testing import FakeClock, FakeTurn, SequentialIds, turn_failed
from partyctl_plugins.testing.transport import ScriptItem

OVERLOADED = turn_failed(FailureKind.TRANSIENT)
DELAYS = RetryPolicy((30, 60))


class Killed(FakeClock):
    """The process dies in the first wait. What its log held then is kept."""

    def __init__(self, start: float, log: MemoryTurnLog) -> None:
        super().__init__(start)
        self._log = log
        self.found: Recovered | None = None

    def wait(self, seconds: float, stop: StopSignal) -> bool:
        self.found = self._log.recover()
        raise SystemExit

    def left(self, ticket: TurnTicket) -> MemoryTurnLog:
        """The log as the process left it; what it wrote while it was unwound is not in it."""
        assert self.found is not None
        state: Plain | None = self.found.state
        log = MemoryTurnLog()
        log.intend(ticket.turn_id, self.found.intents[ticket.turn_id], state)
        return log


def died_waiting(deadline: float | None) -> tuple[MemoryTurnLog, TurnTicket]:
    """At 100 s, in a wait of 30 s."""
    log = MemoryTurnLog()
    clock = Killed(100, log)
    told, _ = local([OVERLOADED], log=log, clock=clock, retry=DELAYS)
    ticket = told.session.prepare_turn(GO)
    with pytest.raises(SystemExit):
        told.session.run(ticket, deadline=deadline)
    return clock.left(ticket), ticket


def gone_on(log: MemoryTurnLog, *script: ScriptItem, at: float) -> tuple[Told, list[float]]:
    """The next session with this log, and what it waits."""
    clock, ids = FakeClock(at), SequentialIds()
    ids.new_id("turn")  # the name that is taken
    told, _ = local(script, log=log, clock=clock, retry=DELAYS, ids=ids)
    return told, clock.waits


def test_it_counts_on_where_it_was() -> None:
    log, ticket = died_waiting(60)
    told, waits = gone_on(log, OVERLOADED, at=120)
    with pytest.raises(TurnTimeoutError, match=r"60 s.*its deadline covers all retries"):
        told.session.run(ticket)
    assert waits == [10]
    failed = log.recover().outcomes[ticket.turn_id]["failed"]
    assert isinstance(failed, dict)
    assert failed["type"] == "TurnTimeoutError"


def test_one_that_passed_meanwhile_ends_the_turn_and_the_provider_is_not_asked() -> None:
    log, ticket = died_waiting(60)
    told, waits = gone_on(log, at=161)
    with pytest.raises(TurnTimeoutError, match="its deadline"):
        told.session.run(ticket)
    assert waits == []
    assert told.run().result.text == "ok"


def test_a_turn_that_is_over_in_time_leaves_no_deadline_to_the_next() -> None:
    log, ticket = died_waiting(60)
    told, waits = gone_on(log, FakeTurn(text="in time"), OVERLOADED, OVERLOADED, at=120)
    assert told.session.run(ticket).result.text == "in time"
    assert told.run().result.text == "ok"
    assert waits == [10, 30, 60]


def test_a_turn_without_one_gets_none() -> None:
    log, ticket = died_waiting(None)
    told, _ = gone_on(log, FakeTurn(text="late"), at=100_000)
    assert told.session.run(ticket).result.text == "late"


@pytest.mark.parametrize(("first", "second", "limit"), [(60, 15, 15), (40, 90, 40), (None, 15, 15)])
def test_whoever_goes_on_may_give_an_earlier_one_and_no_later_one(
    first: float | None, second: float, limit: float
) -> None:
    log, ticket = died_waiting(first)
    told, _ = gone_on(log, OVERLOADED, at=120)
    with pytest.raises(TurnTimeoutError, match=f"{limit} s"):
        told.session.run(ticket, deadline=second)


def test_it_survives_a_second_death() -> None:
    log, ticket = died_waiting(60)
    clock = Killed(110, log)
    told, _ = local([], log=log, clock=clock, retry=DELAYS)
    with pytest.raises(SystemExit):
        told.session.run(ticket)
    told, _ = gone_on(clock.left(ticket), at=161)
    with pytest.raises(TurnTimeoutError, match="60 s"):
        told.session.run(ticket)


def test_the_request_of_such_a_turn_is_read_without_it() -> None:
    log, ticket = died_waiting(60)
    told, _ = gone_on(log, at=120)
    assert told.session.unfinished == ticket
