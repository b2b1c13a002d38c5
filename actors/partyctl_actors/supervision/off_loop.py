"""A blocking call, awaited. Each has a thread of its own: a pool has an end, and turns go on for hours."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
OnLoop = Callable[[Callable[[], None]], None]


async def off_loop(work: Callable[[OnLoop], T], stop: Callable[[], None] | None = None) -> T:
    """What `work` returns or raises.

    Args:
        work: called on another thread; with what it is given it has something called on the loop, in order.
        stop: called when this is cancelled, to have `work` come to its end, which is awaited all the same.
    """
    loop = asyncio.get_running_loop()
    over: asyncio.Future[T] = loop.create_future()

    def on_loop(call: Callable[[], None]) -> None:
        loop.call_soon_threadsafe(call)

    def carry_out() -> None:
        try:
            result = work(on_loop)
        except BaseException as error:
            loop.call_soon_threadsafe(over.set_exception, error)
        else:
            loop.call_soon_threadsafe(over.set_result, result)

    threading.Thread(target=contextvars.copy_context().run, args=(carry_out,), name="off-loop", daemon=True).start()
    try:
        return await asyncio.shield(over)
    except asyncio.CancelledError:
        if stop is not None:
            stop()
        await asyncio.wait((over,))
        over.exception()  # it is heard, and the cancellation stands
        raise
