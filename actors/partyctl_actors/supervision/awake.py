"""A limit that counts only the time in which this process ran.

A process that was stopped, or put to sleep with its machine, finds every limit passed when it goes on, and what it
waited for had no chance either: the other side was most likely stopped with it. So a limit is counted in ticks. What a
tick takes beyond its length is no time that anybody was late, and whoever has just woken up gets a last tick more.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_log = logging.getLogger("partyctl.supervision")

TICK = 1.0
"""Seconds between two looks at the clock at most; a shorter limit has at least four of them."""


class Remaining:
    """What is left of a limit, in seconds. Pure: the caller says when it is.

    Args:
        limit: how long, in seconds.
        now: when the counting begins.

    Attributes:
        seconds: what is left.
        tick: after how long to look again.
    """

    def __init__(self, limit: float, now: float) -> None:
        self.seconds = limit
        self._slice = min(TICK, limit / 4)
        self._last = now
        self._woke = False

    @property
    def tick(self) -> float:
        return min(self._slice, self.seconds)

    def passed(self, now: float) -> float:
        """Count what has passed since the last look; for how long the process was suspended in it, or 0.0."""
        asked, took = self.tick, now - self._last
        self._last = now
        self.seconds -= min(asked, took)
        suspended = took - asked
        if suspended <= self._slice:
            return 0.0
        if self.seconds < self._slice and not self._woke:
            self._woke = True
            self.seconds = self._slice
        return suspended

    @property
    def is_over(self) -> bool:
        """Whether nothing is left, or less than a clock can tell."""
        return self.seconds < 1e-6


@asynccontextmanager
async def within(limit: float | None) -> AsyncIterator[None]:
    """As `asyncio.timeout`, but time in which this process was suspended does not count.

    Args:
        limit: how long, in seconds; None for no limit.

    Raises:
        TimeoutError: it took longer.
    """
    if limit is None:
        yield
        return
    loop = asyncio.get_running_loop()
    left = Remaining(limit, loop.time())
    handle: asyncio.TimerHandle
    async with asyncio.timeout(None) as deadline:

        def look() -> None:
            nonlocal handle
            suspended = left.passed(loop.time())
            if suspended >= TICK:
                _log.warning("suspended for %.1f s: a limit of %g s goes on where it was", suspended, limit)
            if left.is_over:
                deadline.reschedule(loop.time())
            else:
                handle = loop.call_later(left.tick, look)

        handle = loop.call_later(left.tick, look)
        try:
            yield
        finally:
            handle.cancel()
