"""What the attempts of a turn used is counted once, however each of them ended."""

from __future__ import annotations

import pytest
from fakes.agent_sessions import Told, left_waiting, local

from partyctl_actors.supervision.spending import NOTHING, Used, recorded, to_plain
from partyctl_actors.supervision.turn_log import MemoryTurnLog
from partyctl_plugins.contract import FailureKind, ProviderUsage, RetryPolicy, TokenUsage, TurnFailedError
from partyctl_plugins.events import UsageReport
from partyctl_plugins.testing import FakeClock, FakeTurn, SequentialIds, turn_failed

OVERLOADED = turn_failed(FailureKind.TRANSIENT)


def report(tokens: int, cost_usd: float | None = None) -> UsageReport:
    return UsageReport(ProviderUsage(TokenUsage(input_tokens=tokens, output_tokens=1)), cost_usd)


def failing(*reports: UsageReport, **more: object) -> FakeTurn:
    return FakeTurn(events=reports, fails=OVERLOADED, **more)  # type: ignore[arg-type]


def of_turns(log: MemoryTurnLog) -> list[Used | None]:
    """What the log has of each turn that is over."""
    return [recorded(outcome) for outcome in log.recover().outcomes.values()]


def test_use_adds_up_and_a_cost_that_nobody_knows_is_none() -> None:
    assert NOTHING + NOTHING == NOTHING
    assert Used(1, 2, None, 3) + Used(10, 20, 0.5, 30) == Used(11, 22, 0.5, 33)
    assert Used(1, 2).tokens == 3
    assert recorded({"used": to_plain(Used(1, 2, 0.5, 3))}) == Used(1, 2, 0.5, 3)
    assert recorded({}) is None
    assert recorded({"used": {"of another": "version"}}) is None


def test_a_turn_used_what_all_its_attempts_used_and_of_each_the_last_report_counts() -> None:
    log = MemoryTurnLog()
    answer = FakeTurn(input_tokens=10, output_tokens=5, duration_ms=7)
    told, _ = local([failing(report(2), report(4, 0.5)), failing(), answer], log=log)
    told.run()
    assert told.used == [Used(4, 1, 0.5), NOTHING, Used(10, 5, None, 7)]
    assert of_turns(log) == [Used(14, 6, 0.5, 7)]


def test_a_turn_that_failed_used_what_its_attempts_reported_and_the_time_they_took() -> None:
    log, clock = MemoryTurnLog(), FakeClock()
    told, _ = local([failing(report(2), during=lambda: clock.advance(3))], log=log, clock=clock, retry=RetryPolicy(()))
    with pytest.raises(TurnFailedError):
        told.run()
    assert told.used == [Used(2, 1, None, 3000)]
    assert of_turns(log) == [Used(2, 1, None, 3000)]


def test_the_next_turn_does_not_pay_for_the_one_before() -> None:
    log = MemoryTurnLog()
    told, _ = local([failing(report(2)), FakeTurn(input_tokens=3), FakeTurn(input_tokens=4)], log=log)
    told.run()
    told.run()
    assert of_turns(log) == [Used(5, 1), Used(4)]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), turn_failed()])
def test_an_attempt_that_was_broken_off_used_what_it_had_reported(error: BaseException) -> None:
    def broken_off() -> None:
        raise error

    log = MemoryTurnLog()
    told, _ = local([FakeTurn(events=[report(2)], during=broken_off)], log=log)
    with pytest.raises(type(error)):
        told.run()
    assert of_turns(log) == [Used(2, 1)]


def test_an_interrupted_turn_used_what_it_had_reported() -> None:
    log = MemoryTurnLog()
    told: Told
    turn = FakeTurn(events=[report(2)], during=lambda: told.session.interrupt(), stalls=True)
    told, _ = local([turn], log=log)
    assert told.run().result.interrupted
    assert of_turns(log) == [Used(2, 1)]


def test_what_was_used_before_the_session_died_is_counted_with_the_turn_and_told_to_nobody_again() -> None:
    ticket, left = left_waiting(failing(report(2)))
    again, _ = local([failing(report(4)), FakeTurn(input_tokens=10)], log=left, ids=SequentialIds())
    again.session.run(ticket)
    assert again.used == [Used(4, 1), Used(10)]
    assert of_turns(left) == [Used(16, 2)]


def test_who_is_told_and_fails_costs_the_turn_nothing() -> None:
    told, _ = local([FakeTurn(input_tokens=1)])
    told.used = None  # type: ignore[assignment]
    assert told.run().result.text == "ok"
