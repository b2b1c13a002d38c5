"""Agent sessions for tests: over a transport that plays a script, or over workers of a launcher of the test's own."""

import asyncio
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from partyctl_actors.supervision.agent_session import AgentSession
from partyctl_actors.supervision.engine import Engine
from partyctl_actors.supervision.hired import HiredEngine
from partyctl_actors.supervision.local import LocalEngine
from partyctl_actors.supervision.plan import SupervisorLimits, WorkerPlan
from partyctl_actors.supervision.policy_commands import Decided, Rule
from partyctl_actors.supervision.session_parts import SessionParts
from partyctl_actors.supervision.spending import Used
from partyctl_actors.supervision.turn_log import MemoryTurnLog, TurnLog
from partyctl_base.aio import AsyncChannel
from partyctl_base.clock import Clock, StopSignal, SystemClock
from partyctl_confinement.client import LauncherClient
from partyctl_confinement.control import LauncherProcess
from partyctl_confinement.environment import LAUNCHER_ALLOW, scrubbed
from partyctl_plugins.contract import (
    AgentEvent,
    ApprovalPolicy,
    CheckpointStore,
    ConversationSpec,
    EventHandler,
    IdAllocator,
    NativePermissions,
    RetryPolicy,
    Transport,
    TransportKind,
    Turn,
    TurnRequest,
    TurnTicket,
)
from partyctl_plugins.manager import ProviderEntry, resolve
from partyctl_plugins.testing import FakeClock, FakeTransport, RecordingEventHandler, SequentialIds
from partyctl_plugins.testing.transport import ScriptItem

GO = TurnRequest("go")
PLUGINS = Path(__file__).parent.parent / "plugins"
FAKE_CLI = Path(__file__).parent / "claude_cli.py"


class Told:
    """An agent session, and what became of it.

    Attributes:
        session: the session.
        clock: its clock; one that waits for nothing unless another was given.
        handler: told its events.
        decided: what the policy decided, in order.
        used: what each attempt used, in order.
    """

    def __init__(
        self, engine: Engine, *, clock: Clock | None = None, handlers: Sequence[EventHandler] = (),
        store: CheckpointStore | None = None, retry: RetryPolicy | None = None, idle: float | None = None,
        resume_id: str | None = None, limits: SupervisorLimits | None = None, log: TurnLog | None = None,
        cwd: str = "/work/repo", ids: IdAllocator | None = None, approvals: ApprovalPolicy = ApprovalPolicy.DENY,
    ) -> None:  # fmt: skip
        self.clock = clock or FakeClock()
        self.handler = RecordingEventHandler()
        self.decided: list[Decided] = []
        self.used: list[Used] = []
        spec = ConversationSpec(cwd, NativePermissions.bypass(), approvals)
        self.session = AgentSession(
            SessionParts(
                engine, spec, self.clock, ids or SequentialIds(), retry or RetryPolicy(), [self.handler, *handlers],
                store, None if store is None else "key", idle, resume_id,
                limits=limits or SupervisorLimits(), log=log, on_decided=self.decided.append,
                on_used=self.used.append,
            )
        )  # fmt: skip

    def run(self, prompt: str = "go", *, deadline: float | None = None, **prepare: object) -> Turn:
        """Prepare a turn and run it."""
        ticket = self.session.prepare_turn(TurnRequest(prompt), **prepare)  # type: ignore[arg-type]
        return self.session.run(ticket, deadline=deadline)

    @property
    def rules(self) -> list[Rule]:
        """The rules that were applied."""
        return [each.rule for each in self.decided]


def local(script: Iterable[ScriptItem] | Transport = (), **more: object) -> tuple[Told, FakeTransport]:
    """A session over a `FakeTransport` with this script, or over another transport."""
    transport = script if hasattr(script, "open") else FakeTransport(script)
    limits = more.get("limits") or SupervisorLimits()
    assert isinstance(limits, SupervisorLimits)
    return Told(LocalEngine(transport, limits), **more), transport  # type: ignore[arg-type, return-value]


def left_waiting(failing: ScriptItem) -> tuple[TurnTicket, MemoryTurnLog]:
    """What a process leaves that dies while a turn waits for its next attempt: the ticket, and the log."""

    class Killed(FakeClock):
        def wait(self, seconds: float, stop: StopSignal) -> bool:
            left.intend(ticket.turn_id, log.recover().intents[ticket.turn_id], log.recover().state)
            raise SystemExit

    log, left = MemoryTurnLog(), MemoryTurnLog()
    told, _ = local([failing], log=log, clock=Killed())
    ticket = told.session.prepare_turn(GO)
    with contextlib.suppress(SystemExit):
        told.session.run(ticket)
    return ticket, left


class WorkerGrounds:
    """Workers of a launcher of one's own, on a loop of one's own; see `Grounds`. `close` ends them."""

    def __init__(self) -> None:
        path = os.pathsep.join([str(PLUGINS), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
        environment = scrubbed(os.environ, LAUNCHER_ALLOW) | {"PYTHONPATH": path}
        self._environment = environment
        self.launcher = self._start()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self._client: LauncherClient | None = None
        self.pids: list[int] = []
        self.holders = 0

    def hold(self) -> asyncio.AbstractEventLoop:
        self.holders += 1
        return self.loop

    def release(self) -> None:
        self.holders -= 1

    async def client(self) -> LauncherClient:
        if self._client is None or self._client.is_over:
            self._client = LauncherClient(AsyncChannel(self.launcher.add_client("test")))
        return self._client

    def lose(self) -> None:
        """Kill the launcher, and start another."""
        lost, self.launcher = self.launcher, self._start()
        os.kill(lost.pid, 9)
        lost.stop()

    def session(
        self, *turns: list[dict[str, object]], provider: ProviderEntry | None = None,
        limits: SupervisorLimits | None = None, options: Mapping[str, object] | None = None, cwd: str = "/tmp",
        **more: object,
    ) -> Told:  # fmt: skip
        """A session over workers: of the scripted provider with these turns, or of another provider."""
        limits = limits or SupervisorLimits(hire=40, load=40)
        spec = ConversationSpec(cwd, NativePermissions.bypass(), ApprovalPolicy.DENY)
        plan = WorkerPlan(
            provider or resolve("scripted"), TransportKind.STREAM, spec,
            options={"script": [*turns]} if options is None else options, env={"PATH": os.environ["PATH"]},
        )  # fmt: skip
        engine = HiredEngine(self, plan, limits, SequentialIds(), lambda pid, confinement: self.pids.append(pid))
        return Told(engine, limits=limits, cwd=cwd, **{"clock": SystemClock(), **more})  # type: ignore[arg-type]

    def close(self) -> None:
        if self._client is not None:
            asyncio.run_coroutine_threadsafe(self._client.close(), self.loop).result(20)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()
        self.launcher.stop()

    def _start(self) -> LauncherProcess:
        return LauncherProcess.start(preload=["partyctl_plugins.worker"], environment=self._environment, timeout=40)


def start(work: object) -> threading.Thread:
    """`work` on another thread."""
    thread = threading.Thread(target=work, daemon=True)  # type: ignore[arg-type]
    thread.start()
    return thread


def claude(open_session: Callable[..., Told], directory: Path, words: str = "", **more: object) -> Told:
    """A session with the fake `claude` behind the real plugin; `words` as it takes them from its start."""
    binary = directory / "claude"
    if not binary.exists():
        binary.write_text(f'#!/bin/sh\nFAKE_CLAUDE="{words}" HOME={directory} exec {sys.executable} {FAKE_CLI} "$@"\n')
        binary.chmod(0o755)
    options = {"binary": str(binary), "interrupt_grace_s": 0.3, "close_grace_s": 0.3}
    return open_session(provider=resolve("claude"), options=options, **{"cwd": str(directory), **more})


def at_the_first_event(told: Told, act: Callable[[], object], kind: type[AgentEvent] = object) -> None:
    """Has `act` done on another thread, once something of the next turn, of this kind, was heard."""
    keep, heard = told.handler.on_event, threading.Event()

    def hear(event: AgentEvent) -> None:
        keep(event)
        if not heard.is_set() and isinstance(event, kind):
            heard.set()
            start(act)

    told.handler.on_event = hear  # type: ignore[method-assign]


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait for what somebody else does, at most 20 s."""
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)
