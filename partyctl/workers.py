"""Workers without a supervisor: a provider's transport in a process of its own, as a `Transport` like any other.

For tests: it retries nothing, records nothing, and a worker that is gone is an error of the turn under way. A session
is supervised by `partyctl_actors.supervision`, over the same launcher and the same worker.
"""

import asyncio
import concurrent.futures
import contextlib
import itertools
import os
import queue
import sys
import threading
from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import Any, TypeVar

from partyctl_base.aio import AsyncChannel
from partyctl_base.channel import ChannelClosed
from partyctl_confinement.client import ExitNotice, Hired, LauncherClient
from partyctl_confinement.control import LauncherProcess
from partyctl_confinement.environment import LAUNCHER_ALLOW, scrubbed
from partyctl_plugins import manager, records
from partyctl_plugins.contract import (
    AgentSessionError,
    CliExitError,
    ConversationSpec,
    Emit,
    GuardedEmit,
    NoRunningTurnError,
    ProviderProfile,
    SessionStateError,
    TransportKind,
    TurnRequest,
    TurnResult,
)
from partyctl_plugins.manager import ProviderEntry

T = TypeVar("T")
R = TypeVar("R", bound=records.Report)

WORKER_MAIN = "partyctl_plugins.worker:main"

START_S = 40.0
"""Until the launcher is up, and until a worker is; in seconds. Long, because a machine that runs tests is loaded."""

ANSWER_S = 60.0
"""Until a worker has loaded its plugin, opened its conversation or taken a message; in seconds."""

CLOSE_S = 10.0
"""Until a worker that was told to close has ended; then it is killed. In seconds."""


class Workers:
    """A launcher of one's own, and the transports whose workers it starts. Ends them all when it is closed.

    A plugin need not be installed: what can be imported here can be imported in a worker.
    """

    def __init__(self) -> None:
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        environment = scrubbed(os.environ, LAUNCHER_ALLOW) | {"PYTHONPATH": path}
        self._launcher = LauncherProcess.start(
            preload=["partyctl_plugins.worker"], environment=environment, timeout=START_S
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="workers", daemon=True)
        self._thread.start()
        self._ids = itertools.count(1)
        self._client = self.wait(self._connect(), START_S)

    def __enter__(self) -> "Workers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def transport(
        self,
        provider: str,
        *,
        target: str = "",
        kind: TransportKind = TransportKind.STREAM,
        options: Mapping[str, object] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> "WorkerTransport":
        """A provider, each of whose conversations runs in a worker of its own.

        Args:
            provider: its name.
            target: what to import, "module" or "module:attribute"; that of the installed provider if omitted.
            kind: how it is to be reached.
            options: its own settings.
            env: variables of its environment besides PATH and HOME.

        Raises:
            ProviderNotFound, ProviderConflict: no target is given, and not exactly one such provider is installed.
        """
        entry = ProviderEntry(provider, target) if target else manager.resolve(provider)
        usual = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        return WorkerTransport(self, entry, kind, dict(options or {}), {**usual, **(env or {})})

    def close(self) -> None:
        """End every worker, and the launcher. Idempotent."""
        if self._loop.is_closed():
            return
        with contextlib.suppress(TimeoutError):
            self.wait(self._client.close(), CLOSE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._launcher.stop()

    def wait(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """What comes of `work` on the loop; TimeoutError after `seconds`."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(seconds)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise TimeoutError(f"not done within {seconds:g} s") from None

    async def hire(self, name: str, reports: "Reports") -> Hired:
        """A worker whose reports go to `reports`. On the loop."""
        hired = await self._client.spawn(name=f"test {name}", main=WORKER_MAIN, timeout=START_S)
        reports.listening = asyncio.get_running_loop().create_task(reports.listen(hired))
        return hired

    def new_id(self, prefix: str) -> str:
        """A fresh name."""
        return f"{prefix}-{next(self._ids)}"

    async def _connect(self) -> LauncherClient:
        return LauncherClient(AsyncChannel(self._launcher.add_client("tests")))


class Reports:
    """What one worker says, sorted by who waits for it."""

    def __init__(self) -> None:
        self.listening: asyncio.Task[None] | None = None
        self._coming: queue.SimpleQueue[records.Report | ExitNotice] = queue.SimpleQueue()
        self._steers: dict[str, concurrent.futures.Future[records.Steered]] = {}
        self._notice: ExitNotice | None = None

    async def listen(self, hired: Hired) -> None:
        """Take everything the worker says, and its end. On the loop."""
        while (received := await hired.channel.receive()) is not None:
            report = records.decode_report(received.data)
            if isinstance(report, records.Steered):
                self._steers.pop(report.steer_id).set_result(report)
            else:
                self._coming.put(report)
        self._notice = await hired.exited()
        self._coming.put(self._notice)
        for steer in self._steers.values():
            steer.set_exception(NoRunningTurnError("the worker ended", why=self._notice.describe()))

    def next(self, seconds: float | None = None) -> records.Report | ExitNotice:
        """What it said next; the notice of its end, again and again, when it is gone.

        Raises:
            TimeoutError: it said nothing for `seconds`.
        """
        try:
            said = self._coming.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError(f"a worker said nothing for {seconds:g} s") from None
        if isinstance(said, ExitNotice):
            self._coming.put(said)
        return said

    def expect(self, kind: type[R]) -> R:
        """The next report, which has to be of `kind`.

        Raises:
            AgentSessionError: the worker failed what it was asked, or is gone.
        """
        said = self.next(ANSWER_S)
        if isinstance(said, records.Failed):
            raise said.exception()
        if isinstance(said, ExitNotice):
            raise _lost(said)
        if not isinstance(said, kind):
            raise AgentSessionError(f"a worker said {type(said).__name__} in place of {kind.__name__}")
        return said

    def steering(self, steer_id: str) -> "concurrent.futures.Future[records.Steered]":
        """What will become of a message."""
        answer: concurrent.futures.Future[records.Steered] = concurrent.futures.Future()
        self._steers[steer_id] = answer
        return answer


class WorkerTransport:
    """Opens conversations with one provider, each in a worker of its own; made by `Workers.transport`."""

    def __init__(
        self,
        workers: Workers,
        entry: ProviderEntry,
        kind: TransportKind,
        options: Mapping[str, object],
        env: Mapping[str, str],
    ) -> None:
        self._workers = workers
        self._entry = entry
        self._kind = kind
        self._options = options
        self._env = env
        self._profile: ProviderProfile | None = None

    @property
    def profile(self) -> ProviderProfile:
        """What the provider says of itself in a worker, the first of which is hired for the question."""
        if self._profile is None:
            conversation = self._loaded("/")
            conversation.close()
        assert self._profile is not None
        return self._profile

    def open(self, spec: ConversationSpec) -> "WorkerConversation":
        """Hire a worker, load the plugin, open the conversation; see `Transport.open`."""
        conversation = self._loaded(spec.cwd)
        try:
            conversation.open(spec)
        except BaseException:
            conversation.close()
            raise
        return conversation

    def _loaded(self, cwd: str) -> "WorkerConversation":
        reports = Reports()
        hired = self._workers.wait(self._workers.hire(self._entry.name, reports), START_S)
        link = Link(self._workers, hired, reports)
        try:
            reports.expect(records.Ready)
            link.send(records.Load(self._entry, cwd, self._kind, self._env, self._options))
            self._profile = reports.expect(records.Loaded).profile
        except BaseException:
            link.close()
            raise
        kind = SteerableWorkerConversation if self._profile.supports_steer else WorkerConversation
        return kind(link)


class Link:
    """One hired worker, from any thread."""

    def __init__(self, workers: Workers, hired: Hired, reports: Reports) -> None:
        self.reports = reports
        self._workers = workers
        self._hired = hired

    def new_id(self, prefix: str) -> str:
        return self._workers.new_id(prefix)

    def send(self, command: records.Command) -> None:
        """Send a command; what a dead worker was sent is answered by the notice of its end."""
        with contextlib.suppress(ChannelClosed):
            self._workers.wait(self._hired.channel.send(records.encode_command(command)), ANSWER_S)

    def close(self) -> None:
        """Have the worker close its conversation and end; kill it if it does not."""
        self.send(records.Close())
        try:
            self._workers.wait(self._hired.exited(), CLOSE_S)
        except TimeoutError:
            self._workers.wait(self._hired.kill(), CLOSE_S)
        self._workers.wait(self._release(), CLOSE_S)

    async def _release(self) -> None:
        if self.reports.listening is not None:
            await self.reports.listening
        self._hired.channel.close()


class WorkerConversation:
    """A conversation in a worker."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._lock = threading.Lock()
        self._turn_id: str | None = None
        self._closed = False
        self._id: str | None = None

    @property
    def conversation_id(self) -> str | None:
        return self._id

    def open(self, spec: ConversationSpec) -> None:
        """Open the provider's conversation; see `Transport.open` for what is raised."""
        self._link.send(records.Open(spec))
        self._id = self._link.reports.expect(records.Opened).conversation_id

    def turn(self, request: TurnRequest, emit: Emit) -> TurnResult:
        """Run one turn; `emit` is called here. What it raises interrupts the turn, and is raised at the turn's end."""
        turn_id = self._link.new_id("turn")
        with self._lock:
            if self._closed:
                raise SessionStateError("the conversation is closed")
            if self._turn_id is not None:
                raise SessionStateError("a turn is running already", where=self._turn_id)
            self._turn_id = turn_id
        try:
            self._link.send(records.Turn(turn_id, request))
            with GuardedEmit(emit, self.interrupt) as guarded:
                return self._follow(guarded)
        finally:
            with self._lock:
                self._turn_id = None

    def interrupt(self) -> None:
        """End the running turn."""
        with self._lock:
            turn_id = self._turn_id
        if turn_id is not None:
            self._link.send(records.Interrupt(turn_id))

    def close(self) -> None:
        """Close the conversation and end its worker. Idempotent."""
        with self._lock:
            closed, self._closed = self._closed, True
        if not closed:
            self._link.close()

    def _follow(self, emit: Emit) -> TurnResult:
        while True:
            said = self._link.reports.next()
            if isinstance(said, records.Event):
                emit(said.event)
            if isinstance(said, records.Result):
                self._id = said.conversation_id or self._id
                return said.result
            if isinstance(said, records.Failed):
                self._id = said.conversation_id or self._id
                raise said.exception()
            if isinstance(said, ExitNotice):
                raise _lost(said)


class SteerableWorkerConversation(WorkerConversation):
    """A conversation in a worker that takes messages while its turn runs."""

    def steer(self, text: str) -> None:
        """Send `text` into the running turn; see `SteerableConversation.steer`."""
        with self._lock:
            turn_id = self._turn_id
        if turn_id is None:
            raise NoRunningTurnError("there is no running turn to steer")
        message = records.Steer(turn_id, self._link.new_id("steer"), text)
        answer = self._link.reports.steering(message.steer_id)
        self._link.send(message)
        refusal = answer.result(ANSWER_S).exception()
        if refusal is not None:
            raise refusal


def _lost(notice: ExitNotice) -> AgentSessionError:
    returncode = -notice.signal if notice.signal else notice.status
    stderr = notice.stderr.decode(errors="replace")
    return CliExitError(
        ("worker",), returncode, stderr=stderr, message="the worker ended", where=f"pid {notice.pid}",
        why=notice.describe(),
    )  # fmt: skip
