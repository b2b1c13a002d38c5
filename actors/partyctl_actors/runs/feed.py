"""The events of one run, for any number of listeners.

Events are a chain: each listener holds its own place in it, and nobody holds what all of them have passed. A listener
costs nothing but what it has yet to hear, and one that is dropped costs nothing at all.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from partyctl_actors.runs.tracing import RunEvent


class _Link:
    __slots__ = ("event", "next")

    def __init__(self) -> None:
        self.event: RunEvent | None = None
        self.next: _Link | None = None


class Feed:
    """What happens in a run, as it is told to listeners. It is a `Tracer`."""

    def __init__(self) -> None:
        self._last = _Link()
        self._closed = False
        self._waiting: list[asyncio.Future[None]] = []

    def record(self, event: RunEvent) -> None:
        """See `Tracer.record`."""
        link = self._last
        link.event, link.next = event, _Link()
        self._last = link.next
        self._wake()

    def close(self) -> None:
        """Nothing happens any more; listeners end when they have heard everything."""
        self._closed = True
        self._wake()

    def listen(self) -> AsyncIterator[RunEvent]:
        """Every event from now on, to the end of the run."""
        return _Listener(self, self._last)

    async def news(self) -> bool:
        """Wait until something happens; False if nothing will."""
        if self._closed:
            return False
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(told)
        try:
            await told
        finally:
            with contextlib.suppress(ValueError):
                self._waiting.remove(told)
        return True

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for told in waiting:
            if not told.done():
                told.set_result(None)


class _Listener:
    def __init__(self, feed: Feed, link: _Link) -> None:
        self._feed = feed
        self._link = link

    def __aiter__(self) -> _Listener:
        return self

    async def __anext__(self) -> RunEvent:
        while self._link.next is None:
            if not await self._feed.news():
                raise StopAsyncIteration
        event, self._link = self._link.event, self._link.next
        assert event is not None
        return event
