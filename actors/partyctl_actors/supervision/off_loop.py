"""A blocking call, awaited. Each has a thread of its own: a pool has an end, and turns go on for hours."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable
from typing import TypeVar, cast

_log = logging.getLogger("partyctl.supervision")

T = TypeVar("T")
OnLoop = Callable[[Callable[[], None]], None]


async def off_loop(work: Callable[[OnLoop], T], stop: Callable[[], None] | None = None) -> T:
    """What `work` returns or raises.

    Args:
        work: called on another thread; with what it is given it has something called on the loop, in order.
        stop: called when this is cancelled, to have `work` come to its end, which is awaited all the same.
    """
    loop = asyncio.get_running_loop()
    # What it raised is a value here: a future takes no StopIteration, and reports an error that nobody waits for.
    over: asyncio.Future[tuple[T | None, BaseException | None]] = loop.create_future()

    def on_loop(call: Callable[[], None]) -> None:
        try:
            loop.call_soon_threadsafe(call)
        except RuntimeError:
            if not loop.is_closed():
                raise
            _log.debug("An event loop was closed before all was told that it waited for")

    def carry_out() -> None:
        outcome: tuple[T | None, BaseException | None]
        try:
            outcome = work(on_loop), None
        except BaseException as error:
            outcome = None, error
        on_loop(lambda: over.set_result(outcome))

    threading.Thread(target=contextvars.copy_context().run, args=(carry_out,), name="off-loop", daemon=True).start()
    try:
        result, error = await asyncio.shield(over)
    except asyncio.CancelledError:
        if stop is not None:
            stop()
        await asyncio.wait((over,))
        raise
    if error is not None:
        raise error
    return cast(T, result)
