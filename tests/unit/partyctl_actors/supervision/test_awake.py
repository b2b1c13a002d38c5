"""Limits that count only the time in which the process ran."""

import asyncio
import logging
import re

import pytest
from fakes.quiet import quietly

from partyctl_actors.supervision.awake import TICK, Remaining, within


def test_ticks_add_up_to_the_limit() -> None:
    left, now, looks = Remaining(3.5, 100.0), 100.0, 0
    while not left.is_over:
        now += left.tick
        assert left.passed(now) == 0.0
        looks += 1
    assert (now, looks) == (103.5, 4)


def test_what_a_tick_takes_beyond_its_length_counts_for_nothing() -> None:
    left = Remaining(10.0, 0.0)
    assert left.passed(600.0 + left.tick) == 600.0
    assert left.seconds == 10.0 - TICK


def test_a_tick_that_is_a_little_late_was_not_suspended() -> None:
    left = Remaining(10.0, 0.0)
    assert left.passed(1.5) == 0.0


def test_whoever_wakes_up_in_the_last_tick_gets_another_but_once() -> None:
    left = Remaining(4.0, 0.0)
    for now in (1.0, 2.0, 3.0):
        left.passed(now)
    assert left.passed(60.0) == 56.0
    assert left.seconds == TICK
    left.passed(120.0)
    assert left.is_over


@pytest.mark.parametrize("limit", [0.01, 1.0, 61.3])
def test_a_limit_passes_when_it_should(limit: float) -> None:
    async def wait() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        with pytest.raises(TimeoutError):
            async with within(limit):
                await asyncio.Event().wait()
        return loop.time() - began

    assert quietly(wait()) == pytest.approx(limit, abs=1e-3)


@pytest.mark.parametrize("limit", [None, 5.0])
def test_what_comes_in_time_is_no_timeout_and_leaves_nothing(limit: float | None) -> None:
    async def wait() -> str:
        async with within(limit):
            await asyncio.sleep(4)
        await asyncio.sleep(10)
        return "came"

    assert quietly(wait()) == "came"


def test_a_loop_that_stood_still_for_longer_than_the_limit_is_no_timeout(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wait() -> str:
        loop = asyncio.get_running_loop()
        running = loop.time
        async with within(5.0):
            await asyncio.sleep(0.5)
            monkeypatch.setattr(loop, "time", lambda: running() + 3600)
            await asyncio.sleep(3)
        return "came"

    with caplog.at_level(logging.WARNING, "partyctl.supervision"):
        assert quietly(wait()) == "came"
    [told] = [record.getMessage() for record in caplog.records]
    assert re.fullmatch(r"suspended for 3\d{3}\.\d s: a limit of 5 s goes on where it was", told)
