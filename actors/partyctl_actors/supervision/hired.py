"""An agent session's provider in worker processes: one worker for each connection, driven by a `Supervisor`.

The supervisors live on an event loop that is somebody else's thread; the session's calls come from any other one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Protocol

from partyctl_actors.supervision.engine import Opening
from partyctl_actors.supervision.hired_connection import HiredConnection, told
from partyctl_actors.supervision.plan import SupervisorLimits, WorkerPlan
from partyctl_actors.supervision.policy_events import Found
from partyctl_actors.supervision.supervisor import Supervisor
from partyctl_base.clock import StopSignal
from partyctl_base.ids import IdAllocator
from partyctl_confinement.client import LauncherClient
from partyctl_plugins import schema_places
from partyctl_plugins.contract import (
    ConversationSpec,
    ProviderProfile,
    SchemaMechanism,
    TurnCancelledError,
)

HOST_LIMIT = 30.0
"""Until whoever starts workers is up, in seconds, over and above what hiring and loading may take."""


class Grounds(Protocol):
    """Where workers come from, and the event loop on which they are supervised."""

    def hold(self) -> asyncio.AbstractEventLoop:
        """The loop, which runs on another thread until as many `release` as `hold` were called."""

    def release(self) -> None:
        """See `hold`. Blocks until what is no longer needed has ended. Never on the loop."""

    async def client(self) -> LauncherClient:
        """Whoever starts workers; another one if the last is gone. On the loop."""


class HiredEngine:
    """Opens connections by hiring workers.

    Args:
        grounds: where from.
        plan: which workers.
        limits: how long each step may take.
        ids: who names messages.
        on_hired: told each worker's pid and confinement, on the loop.
        profile: what the provider can do, if that is known already; then no worker is hired before it is needed.
        attempt: take over the worker that the session had before, by the plan's labels and epoch, with this attempt
            under way; "" with none. None: there was none.

    Raises:
        PluginLoadError, PartyError: no worker could be started, or the plugin could not be loaded in it.
        AttachRefused: another one has the session's worker by right of a later epoch.
    """

    def __init__(
        self,
        grounds: Grounds,
        plan: WorkerPlan,
        limits: SupervisorLimits,
        ids: IdAllocator,
        on_hired: Callable[[int, str], None] | None = None,
        profile: ProviderProfile | None = None,
        attempt: str | None = None,
    ) -> None:
        self._grounds = grounds
        self._plan = plan
        self._limits = limits
        self._ids = ids
        self._on_hired = on_hired
        self._lock = threading.Lock()
        self._opening: Opening[HiredConnection] | None = None
        self._connections: list[HiredConnection] = []
        self._closed = False
        self._end_unknown = False
        self._ready: HiredConnection | None = None
        self.predecessor_dead = True
        self.found = Found.GONE
        self.taken: HiredConnection | None = None
        self.end = ""
        self._loop = grounds.hold()
        try:
            if attempt is not None:
                told(self._attach(attempt), self._loop).result(HOST_LIMIT + 2 * limits.hire)
                profile = profile if self.taken is None else self.taken.profile or profile
            if profile is not None:
                self._profile = profile
                return
            # The first worker is hired before it is needed: who has a broken plugin learns it here, and only a worker
            # can say what its provider is capable of.
            hire = told(self._hire(), self._loop)
            self._ready = hire.result(HOST_LIMIT + limits.hire + limits.load)
        except BaseException:
            self.close()
            raise
        profile = self._ready.profile
        assert profile is not None
        self._profile = profile

    @property
    def profile(self) -> ProviderProfile:
        return self._profile

    @property
    def supervisor(self) -> Supervisor | None:
        """The supervisor of the newest worker, None while there is none."""
        with self._lock:
            return self._connections[-1].supervisor if self._connections else None

    @property
    def workers(self) -> dict[str, str]:
        """What each of its workers is doing, by the launcher's ids of them."""
        with self._lock:
            return {each.worker_id: each.doing for each in self._connections if each.worker_id}

    def open(self, spec: ConversationSpec, stop: StopSignal, limit: float) -> HiredConnection:
        """See `Engine.open`."""
        with self._lock:
            self._opening = opening = Opening[HiredConnection](self._discard)
            ready, self._ready = self._ready, None
        if stop.is_set():
            self._ready = ready
            raise TurnCancelledError("the opening of a conversation was interrupted")
        task = told(self._open(ready, spec, opening, limit), self._loop)
        try:
            return opening.result(limit)
        except BaseException:
            task.cancel()
            raise

    def abandon(self) -> None:
        with self._lock:
            opening = self._opening
        if opening is not None:
            opening.abandon()

    def close(self) -> None:
        """See `Engine.close`: ends every worker there still is."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        try:
            for connection in list(self._connections):
                connection.close()
        finally:
            self._grounds.release()

    async def _open(
        self, ready: HiredConnection | None, spec: ConversationSpec, opening: Opening[HiredConnection], limit: float
    ) -> None:
        connection = ready
        try:
            if connection is None or not connection.alive:
                connection = await self._hire()
            with self._lock:
                self.predecessor_dead = not self._end_unknown and self._connections == [connection]
                self._end_unknown = False
            await connection.converse(spec, limit)
        except BaseException as error:
            if connection is not None:
                error = connection.blamed(error)
                await asyncio.shield(connection.ended())
            opening.failed(error)
        else:
            opening.made(connection)

    def _discard(self, late: HiredConnection) -> None:
        """Close what was opened when nobody waited for it any more: the conversation may be opened elsewhere next."""
        told(late.ended(), self._loop)

    async def _attach(self, attempt: str) -> None:
        """Take over the worker there is; one that nothing can be done with is closed."""
        connection = HiredConnection(await self._grounds.client(), self._plan, self._limits, self._ids, self._gone)
        with self._lock:
            self._connections.append(connection)
        hired: list[tuple[int, str]] = []
        self.found, self.end = await connection.attach(attempt, lambda *worker: hired.append(worker))
        if self.found is Found.GONE or not connection.usable:
            await asyncio.shield(connection.ended())
            return
        self.taken = connection
        if self._on_hired is not None:
            self._on_hired(*hired[0])
        if connection.is_opening:
            self._ready = connection

    async def _hire(self) -> HiredConnection:
        connection = HiredConnection(await self._grounds.client(), self._plan, self._limits, self._ids, self._gone)
        with self._lock:
            closed = self._closed
            self._connections.append(connection)
        try:
            if closed:
                raise TurnCancelledError("the session was closed meanwhile")
            await connection.load(self._on_hired)
        except BaseException as error:
            blamed = connection.blamed(error)
            await asyncio.shield(connection.ended())
            if blamed is error:
                raise
            raise blamed from error
        return connection

    def _gone(self, connection: HiredConnection) -> None:
        with self._lock:
            if connection in self._connections:
                self._connections.remove(connection)
                self._end_unknown |= not connection.end_is_known
        profile = connection.profile
        if profile is not None and profile.output_schema is SchemaMechanism.FILE_PATH:
            schema_places.sweep(self._plan.env.get("TMPDIR"))  # what a worker that was killed left behind
