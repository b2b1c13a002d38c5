"""Blocking calls awaited: whatever becomes of the call or of the loop, nobody waits for ever."""

import asyncio
import gc
import threading
from collections.abc import Callable

import pytest

from partyctl_actors.supervision.off_loop import OnLoop, off_loop


def raising(error: BaseException) -> Callable[[OnLoop], None]:
    def work(on_loop: OnLoop) -> None:
        raise error

    return work


def test_what_the_call_returns_is_returned_and_what_it_tells_comes_before() -> None:
    told: list[int] = []

    def work(on_loop: OnLoop) -> str:
        for number in range(3):
            on_loop(lambda number=number: told.append(number))  # type: ignore[misc]
        return "done"

    assert asyncio.run(off_loop(work)) == "done"
    assert told == [0, 1, 2]


@pytest.mark.parametrize("error", [ValueError("no"), asyncio.CancelledError()])
def test_what_the_call_raises_is_raised(error: BaseException) -> None:
    with pytest.raises(type(error)) as raised:
        asyncio.run(off_loop(raising(error)))
    assert isinstance(raised.value, type(error))


def test_a_call_that_raises_what_no_coroutine_can_raise_ends_too() -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(asyncio.wait_for(off_loop(raising(StopIteration(1))), 10))


def test_a_cancellation_stops_the_call_and_nothing_of_its_error_is_reported() -> None:
    reported: list[dict[str, object]] = []
    stopped = threading.Event()

    def work(on_loop: OnLoop) -> None:
        stopped.wait(10)
        raise ValueError("stopped")

    async def cancelled() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        waiting = asyncio.ensure_future(off_loop(work, stop=stopped.set))
        await asyncio.sleep(0)
        (thread,) = (each for each in threading.enumerate() if each.name == "off-loop")
        waiting.cancel()
        await asyncio.sleep(0)
        waiting.cancel()  # whoever is impatient
        with pytest.raises(asyncio.CancelledError):
            await waiting
        thread.join(10)
        await asyncio.sleep(0)
        gc.collect()

    asyncio.run(cancelled())
    assert not reported


def test_a_loop_that_was_closed_meanwhile_is_told_nothing_and_the_call_comes_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)
    go_on, over = threading.Event(), threading.Event()

    def work(on_loop: OnLoop) -> None:
        go_on.wait(10)
        on_loop(lambda: None)
        over.set()

    loop = asyncio.new_event_loop()
    waiting = loop.create_task(off_loop(work))
    loop.run_until_complete(asyncio.sleep(0))
    (thread,) = (each for each in threading.enumerate() if each.name == "off-loop")
    loop.close()
    go_on.set()
    thread.join(10)
    assert over.is_set()
    assert not failures
    waiting._log_destroy_pending = False  # type: ignore[attr-defined]
