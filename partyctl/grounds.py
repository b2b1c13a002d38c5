"""Where the agent sessions of this process have their workers: one event loop, on a thread of its own, and one private
host, for as long as any session is open."""

import asyncio
import os
import threading

from partyctl.embedded import PrivateHost
from partyctl_confinement.client import LauncherClient

STOP_LIMIT = 30.0
"""Seconds until the private host and the loop of the last session must have ended; then they are left to themselves."""


class SharedGrounds:
    """See `partyctl_actors.supervision.hired.Grounds`. Usable from any thread but its own loop's.

    A process that was forked from this one has none of its threads, so it gets a loop and a private host of its own.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._holders = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        # On the loop.
        self._host: PrivateHost | None = None
        self._asking: asyncio.Lock | None = None

    def hold(self) -> asyncio.AbstractEventLoop:
        """The loop; started for the first who asks."""
        if self._pid != os.getpid():  # before the lock, which another thread may have held in the fork
            self._begin()
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._asking = asyncio.Lock()
                self._thread = threading.Thread(target=_run, args=(self._loop,), name="agent-sessions", daemon=True)
                self._thread.start()
            self._holders += 1
            return self._loop

    def release(self) -> None:
        """One session less. With the last one the private host ends, and the loop."""
        with self._lock:
            self._holders -= 1
            if self._holders or self._loop is None or self._thread is None:
                return
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
            ending = asyncio.run_coroutine_threadsafe(self._end(), loop)
            # It ends by itself: whoever waits here may be interrupted by a Ctrl-C.
            ending.add_done_callback(lambda _: loop.call_soon_threadsafe(loop.stop))
            ending.result(STOP_LIMIT)
            thread.join(STOP_LIMIT)

    async def client(self) -> LauncherClient:
        """The launcher of the private host; of another one, if that is gone. On the loop.

        Raises:
            HostError: the private host did not start; says why.
        """
        assert self._asking is not None
        async with self._asking:
            host = self._host or PrivateHost()
            self._host = None
            try:
                client = await host.client()
                if client.is_over:
                    await host.close()
                    host = PrivateHost()
                    client = await host.client()
            except BaseException:
                await asyncio.shield(host.close())
                raise
            self._host = host
            return client

    async def _end(self) -> None:
        host, self._host = self._host, None
        if host is not None:
            await host.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()
