"""One conversation in a worker of its own, as a session's thread has it in its hands."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import queue
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from partyctl_actors.supervision.plan import SupervisorLimits, WorkerPlan
from partyctl_actors.supervision.policy_events import Found
from partyctl_actors.supervision.supervisor import Supervisor
from partyctl_base.clock import StopSignal
from partyctl_base.ids import IdAllocator
from partyctl_confinement.client import LauncherClient
from partyctl_confinement.errors import LauncherLost
from partyctl_plugins.contract import (
    AgentEvent,
    ConversationSpec,
    Emit,
    NoRunningTurnError,
    ProviderProfile,
    TurnRequest,
    TurnResult,
)
from partyctl_plugins.events import TurnInterrupted

T = TypeVar("T")
_log = logging.getLogger("partyctl.supervision")

UNHEARD_MAX = 256
"""How many events may wait for the thread that runs the turn; then the worker waits."""


class HiredConnection:
    """One conversation in a worker of its own.

    Args:
        launcher, plan, limits: as for a `Supervisor`.
        ids: who names messages.
        gone: told when it has ended, on the loop.
    """

    def __init__(
        self,
        launcher: LauncherClient,
        plan: WorkerPlan,
        limits: SupervisorLimits,
        ids: IdAllocator,
        gone: Callable[[HiredConnection], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._supervisor = Supervisor(launcher, plan, self._heard, limits, self._pace)
        self._limits = limits
        self._ids = ids
        self._gone = gone
        self._lock = threading.Lock()
        self._turn_id: str | None = None
        self._found_with: str | None = None
        self._closed = False
        self._coming: queue.SimpleQueue[AgentEvent | concurrent.futures.Future[TurnResult]] = queue.SimpleQueue()
        self._room = asyncio.Event()
        self._room.set()

    @property
    def conversation_id(self) -> str | None:
        return self._supervisor.conversation_id

    @property
    def worker_id(self) -> str | None:
        """The launcher's id of its worker, None while there is none."""
        return self._supervisor.worker_id

    @property
    def doing(self) -> str:
        """What its worker is doing: the state of its supervisor."""
        return self._supervisor.state

    @property
    def profile(self) -> ProviderProfile | None:
        """What the provider can do, once it is loaded."""
        return self._supervisor.profile

    @property
    def alive(self) -> bool:
        return not self._closed and self._supervisor.state not in ("failed", "abandoned", "closing", "closed")

    @property
    def usable(self) -> bool:
        """Whether a worker that was taken over can be gone on with."""
        return self._supervisor.state in ("idle", "busy", "opening")

    @property
    def is_opening(self) -> bool:
        """Whether its conversation is being opened."""
        return self._supervisor.state == "opening"

    @property
    def supervisor(self) -> Supervisor:
        """Who drives its worker; to be looked at only."""
        return self._supervisor

    @property
    def end_is_known(self) -> bool:
        """Whether the worker has ended for certain; a launcher that is lost has not said so."""
        notice = self._supervisor.notice
        return notice is not None and notice.cause not in ("launcher-lost", "client-closed")

    def blamed(self, error: BaseException) -> BaseException:
        """`error`, or `LauncherLost` where the worker only ended with its launcher, which is nobody's failure here."""
        notice = self._supervisor.notice
        if notice is None or notice.cause not in ("launcher-lost", "client-closed", "stop"):
            return error
        return LauncherLost("the launcher of a worker is gone, and the worker with it", why=notice.describe())

    def turn(self, attempt: str, request: TurnRequest, emit: Emit, stop: StopSignal) -> TurnResult:
        """See `Connection.turn`."""
        with self._lock:
            is_under_way, self._found_with = self._found_with == attempt, None
            if not is_under_way:  # else what its worker had kept may be in it already
                self._coming = queue.SimpleQueue()
            coming = self._coming
            if stop.is_set() and not is_under_way:
                result = None
            else:
                self._turn_id = attempt
                coming_of_it = self._awaited(request) if is_under_way else self._asked(attempt, request)
                result = told(coming_of_it(), self._loop)
            if stop.is_set() and is_under_way:
                told(self._supervisor.interrupt(), self._loop)
        if result is None:
            emit(TurnInterrupted())
            return TurnResult(session_id=self.conversation_id, interrupted=True)
        result.add_done_callback(coming.put)
        try:
            while not isinstance(said := coming.get(), concurrent.futures.Future):
                self._taken()
                emit(said)
            return result.result()
        except Exception as error:
            blamed = self.blamed(error)
            if blamed is error:
                raise
            raise blamed from error
        finally:
            with self._lock:
                self._turn_id = None

    def acknowledge(self, attempt: str) -> None:
        """See `Connection.acknowledge`: its worker keeps it, for a supervisor that may have to attach."""
        if self.alive:
            told(self._supervisor.acknowledge(attempt), self._loop)

    def interrupt(self) -> None:
        """See `Connection.interrupt`. A worker that does not obey in time is killed."""
        with self._lock:  # so that it comes after the order to run the turn
            if self._turn_id is not None:
                told(self._supervisor.interrupt(), self._loop)

    def steer(self, text: str) -> None:
        """See `Connection.steer`."""
        with self._lock:
            turn_id = self._turn_id
            if turn_id is None:
                raise NoRunningTurnError("there is no running turn to steer")
            sent = told(self._supervisor.steer(turn_id, self._ids.new_id("steer"), text), self._loop)
        sent.result()

    def close(self) -> None:
        """See `Connection.close`. A worker that takes longer than its limit is killed."""
        if self._supervisor.state == "closed":
            return
        limit = self._limits.close + 3 * self._limits.kill
        try:
            told(self.ended(), self._loop).result(limit)
        except Exception:
            _log.exception("A worker could not be closed within %g s; it is left to its launcher", limit)

    def _asked(self, attempt: str, request: TurnRequest) -> Callable[[], Coroutine[Any, Any, TurnResult]]:
        return lambda: self._supervisor.turn(attempt, request)

    def _awaited(self, request: TurnRequest) -> Callable[[], Coroutine[Any, Any, TurnResult]]:
        return lambda: self._supervisor.result(request.timeout, request.idle_timeout)

    # --- on the loop ---

    async def attach(self, attempt: str, on_hired: Callable[[int, str], None] | None) -> tuple[Found, str]:
        """Take over the session's worker, or hear how it ended; see `Supervisor.attach`."""
        found, loss = await self._supervisor.attach(attempt, on_hired)
        if found is Found.BUSY and attempt:
            self._found_with = attempt
        return found, "" if loss is None else loss.why

    async def load(self, on_hired: Callable[[int, str], None] | None) -> None:
        """Hire the worker and load the plugin; see `Supervisor.load`."""
        await self._supervisor.load(on_hired)

    async def converse(self, spec: ConversationSpec, limit: float) -> None:
        """Open the conversation, or wait until it is open; see `Supervisor.converse` and `Supervisor.opened`."""
        if self.is_opening:
            await self._supervisor.opened(limit)
        else:
            await self._supervisor.converse(spec, limit)

    async def ended(self) -> None:
        """Close it, and see its worker's end."""
        self._closed = True
        self._room.set()
        await self._supervisor.close()
        self._gone(self)

    def _heard(self, event: AgentEvent) -> None:
        self._coming.put(event)
        if self._coming.qsize() >= UNHEARD_MAX:
            self._room.clear()
            self._make_room()  # whoever takes them may have looked just before

    async def _pace(self) -> None:
        await self._room.wait()

    def _taken(self) -> None:
        """An event was taken by the thread that runs the turn."""
        if not self._room.is_set():
            self._loop.call_soon_threadsafe(self._make_room)

    def _make_room(self) -> None:
        if self._closed or self._coming.qsize() < UNHEARD_MAX // 2:
            self._room.set()


def told(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> concurrent.futures.Future[T]:
    """What will come of `work`, which is done on the loop, for a caller on another thread."""
    return asyncio.run_coroutine_threadsafe(work, loop)
