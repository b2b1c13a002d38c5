from __future__ import annotations

import asyncio

import pytest
from fakes.runs import jumping

from partyctl_actors.runs.settle import settle, settled


async def stubborn(rounds: int) -> None:
    for _ in range(rounds):
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            continue


def test_work_that_ends_by_itself_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> float:
        await settled(asyncio.sleep(2), 5, "work")
        return asyncio.get_running_loop().time()

    assert jumping(test()) == pytest.approx(2)
    assert caplog.text == ""


def test_work_that_does_not_end_is_cancelled_at_the_limit() -> None:
    async def test() -> float:
        await settled(asyncio.sleep(3600), 5, "work")
        return asyncio.get_running_loop().time()

    assert jumping(test()) == pytest.approx(5)


def test_work_that_ignores_a_cancel_is_left_behind_and_said_so(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> float:
        task = asyncio.ensure_future(stubborn(2))
        await settle([task], 5, "the participant of A")
        now = asyncio.get_running_loop().time()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return now

    assert jumping(test()) == pytest.approx(6)
    assert "the participant of A did not stop within 6 s and is left behind" in caplog.text


def test_what_it_raises_is_logged_and_not_raised(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise OSError("cannot close")

    jumping(settled(fail(), 5, "work"))
    assert "work failed while it stopped" in caplog.text
    assert "cannot close" in caplog.text


def test_nothing_is_waited_for_when_there_is_nothing() -> None:
    jumping(settle([], 5, "nobody"))
