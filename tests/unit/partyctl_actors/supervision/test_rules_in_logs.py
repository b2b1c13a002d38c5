"""Which rules of recovery were applied to a turn, as the log of its session tells it."""

from __future__ import annotations

import pytest
from fakes.agent_sessions import left_waiting, local

from partyctl_actors.supervision.turn_log import MemoryTurnLog
from partyctl_base.clock import StopSignal
from partyctl_plugins.contract import FailureKind, RenewalBudget, RetryPolicy, TurnFailedError
from partyctl_plugins.testing import FakeClock, FakeTransport, FakeTurn, SequentialIds, fake_profile, turn_failed

OVERLOADED = turn_failed(FailureKind.TRANSIENT)


def rules(log: MemoryTurnLog) -> list[object]:
    """Those of each turn that is over."""
    return [outcome["rules"] for outcome in log.recover().outcomes.values()]


def test_a_turn_that_just_ran_has_none() -> None:
    log = MemoryTurnLog()
    told, _ = local(log=log)
    told.run()
    assert rules(log) == [[]]


def test_each_turn_has_its_own_in_order() -> None:
    log = MemoryTurnLog()
    profile = fake_profile(renewal=RenewalBudget(max_turns=2))
    told, _ = local(FakeTransport([OVERLOADED, OVERLOADED, FakeTurn(), FakeTurn(), FakeTurn()], profile), log=log)
    for _ in range(3):
        told.run()
    assert rules(log) == [["retry", "retry"], ["renewal"], []]


def test_the_rule_by_which_a_turn_failed_is_the_last() -> None:
    log = MemoryTurnLog()
    told, _ = local([OVERLOADED, OVERLOADED], log=log, retry=RetryPolicy((1,)))
    with pytest.raises(TurnFailedError):
        told.run()
    assert rules(log) == [["retry", "exhausted"]]


def test_an_interrupt_in_a_wait_is_one() -> None:
    log, clock = MemoryTurnLog(), FakeClock()
    told, _ = local([OVERLOADED], log=log, clock=clock)
    clock.on_wait = lambda _: told.session.interrupt()
    with pytest.raises(TurnFailedError):
        told.run()
    assert rules(log) == [["retry", "interrupted"]]


def test_what_is_no_failure_of_the_provider_is_one() -> None:
    class Pressed(FakeClock):
        def wait(self, seconds: float, stop: StopSignal) -> bool:
            raise KeyboardInterrupt

    log = MemoryTurnLog()
    told, _ = local([OVERLOADED], log=log, clock=Pressed())
    with pytest.raises(KeyboardInterrupt):
        told.run()
    assert rules(log) == [["retry", "broke"]]


def test_they_go_on_with_the_turn_in_the_next_session() -> None:
    ticket, left = left_waiting(OVERLOADED)
    again, _ = local([OVERLOADED, FakeTurn()], log=left, ids=SequentialIds())
    again.session.run(ticket)
    assert rules(left) == [["retry", "retry"]]
