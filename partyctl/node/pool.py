"""The code hosts of a node: one per program, started for the first run that needs it, ended after the last."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from partyctl.maps import Map
from partyctl.node.code import CodeHost, Program

END_LIMIT = 2.0
"""Seconds the code hosts get to end when the node stops; the launcher ends what is left."""


@dataclass(slots=True, eq=False)
class _Shared:
    starting: "asyncio.Task[CodeHost]"
    users: int = 0

    @property
    def host(self) -> CodeHost | None:
        """The code host, once it has started and as long as it lives."""
        task = self.starting
        started = task.done() and not task.cancelled() and task.exception() is None
        return task.result() if started and not task.result().is_lost else None


class CodeHosts:
    """Lends code hosts to runs.

    Args:
        start: starts one and has it import its file; leaves nothing behind if it fails or is cancelled.
        end: ends one.
    """

    def __init__(
        self, start: Callable[[Program], Awaitable[CodeHost]], end: Callable[[CodeHost], Awaitable[None]]
    ) -> None:
        self._start = start
        self._end = end
        self._shared: dict[Program, _Shared] = {}
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def workers(self) -> list[Map]:
        """The code hosts that play, as workers."""
        hosts = [shared.host for shared in self._shared.values()]
        return [{"id": host.id, "state": "ready"} for host in hosts if host]

    @contextlib.asynccontextmanager
    async def lend(self, program: Program) -> AsyncIterator[CodeHost]:
        """The code host of `program` for the length of one run; waits until the file is imported.

        Raises:
            PartyError: what `start` raised.
        """
        shared = self._shared.get(program)
        if shared is None or (shared.starting.done() and shared.host is None):
            # None, or one that failed or died, which is the business of those who have it.
            shared = self._shared[program] = _Shared(asyncio.ensure_future(self._start_one(program)))
        shared.users += 1
        try:
            yield await asyncio.shield(shared.starting)
        finally:
            shared.users -= 1
            if not shared.users:
                self._give_up(program, shared)

    async def close(self) -> None:
        """End all of them; what does not end in time is left to the launcher."""
        for program, shared in list(self._shared.items()):
            self._give_up(program, shared)
        if self._ending:
            await asyncio.wait(self._ending, timeout=END_LIMIT)

    async def _start_one(self, program: Program) -> CodeHost:
        return await self._start(program)

    def _give_up(self, program: Program, shared: _Shared) -> None:
        if self._shared.get(program) is shared:
            del self._shared[program]
        shared.starting.cancel()
        ending = asyncio.get_running_loop().create_task(self._end_one(shared.starting))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _end_one(self, starting: "asyncio.Task[CodeHost]") -> None:
        await asyncio.wait((starting,))
        if not starting.cancelled() and starting.exception() is None:
            await self._end(starting.result())
