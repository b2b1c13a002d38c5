"""What a bus waits for: futures, named timers, and those who wait for room. Each needs a running loop."""

import asyncio
from collections.abc import Callable

from partyctl_broker.errors import BusError

Future = asyncio.Future[None]


def resolve(future: Future, error: BusError | None = None) -> None:
    """End a wait, well or with an error, unless it has ended already."""
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


class Timers:
    """Timers by name; a new one replaces the one of the same name."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def set(self, name: str, seconds: float, callback: Callable[[], None]) -> None:
        """Call back in so many seconds."""
        self.cancel(name)
        self._timers[name] = self._loop.call_later(seconds, self._fire, name, callback)

    def _fire(self, name: str, callback: Callable[[], None]) -> None:
        del self._timers[name]
        callback()

    def set_earlier(self, name: str, seconds: float, callback: Callable[[], None]) -> None:
        """The same, unless the timer is due before that anyway."""
        timer = self._timers.get(name)
        if timer is None or timer.when() > self._loop.time() + seconds:
            self.set(name, seconds, callback)

    def cancel(self, name: str) -> None:
        """Forget a timer, if there is one."""
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def clear(self) -> None:
        """Forget them all."""
        for name in list(self._timers):
            self.cancel(name)


class Waiters:
    """Those who wait for something that may have changed: they are woken together, and look for themselves."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._futures: list[Future] = []

    async def wait(self) -> None:
        """Wait until somebody calls `wake`."""
        future = self._loop.create_future()
        self._futures.append(future)
        await future

    def wake(self) -> None:
        """Wake all that wait now."""
        futures, self._futures = self._futures, []
        for future in futures:
            resolve(future)
