"""The process that runs one transport. It opens a conversation, runs turns, reports; it decides nothing.

The main thread obeys commands one after another, and runs all of the plugin's code but `interrupt` and `steer`. A
reader thread takes the channel meanwhile; it runs nothing of the plugin's, so that no plugin can keep it from seeing an
interrupt, a close or the end of the channel. The end of the channel ends the process at once, whatever it is doing:
there is nobody left to report to, and its children are the launcher's to end.

A channel that takes no more reports and has not ended is another thing: the supervisor is gone, and the launcher
keeps the worker for the next one. The turn goes on, and the newest of its events are kept. Its outcome is kept, as
every outcome is until a supervisor has made it durable. Both are told to whoever attaches.

Everything our own side needs is imported with this module, so that the launcher loads it once for all workers. The
plugin is not.
"""

import contextlib
import errno
import importlib.metadata
import json
import os
import pathlib
import queue
import selectors
import shutil
import signal
import subprocess
import sys
import threading
import tomllib
import traceback
import uuid
from typing import NoReturn

from partyctl_base import clock, ids, process
from partyctl_base.channel import Channel, ChannelClosed, ChannelFault
from partyctl_confinement.orphans import Orphans
from partyctl_plugins import manager
from partyctl_plugins.backlog import Backlog
from partyctl_plugins.checks import name_of
from partyctl_plugins.contract import AgentEvent, Conversation, Transport, TurnResult
from partyctl_plugins.errors import (
    AgentSessionError,
    PluginLoadError,
    ProviderCapabilityError,
    RecordError,
    SessionStateError,
)
from partyctl_plugins.events import TurnInterrupted
from partyctl_plugins.failures import describe
from partyctl_plugins.manager import ProviderEntry
from partyctl_plugins.profile import ProviderProfile
from partyctl_plugins.records import (
    Ack,
    Attach,
    Attached,
    Close,
    Closed,
    Command,
    Event,
    Failed,
    Interrupt,
    Load,
    Loaded,
    Open,
    Opened,
    Phase,
    Ready,
    Report,
    Result,
    Steer,
    Steered,
    Turn,
    decode_command,
    encode_report,
)
from partyctl_plugins.schema_places import SchemaPlace
from partyctl_plugins.steering import Steering

PRELOADED = (
    importlib.metadata,
    json,
    pathlib,
    selectors,
    shutil,
    signal,
    subprocess,
    tomllib,
    uuid,
    clock,
    ids,
    process,
)
"""What most plugins import, imported here so that all workers share one copy (measured: else 5 MiB for each)."""

EXIT_ORPHANED = 0
EXIT_BAD_RECORD = 70
"""Also of a worker whose channel the plugin closed, and of a fork of one that the plugin lets come back."""

NOT_OURS = (errno.EBADF, errno.ENOTSOCK)
"""What the channel's descriptor says when the plugin closed it, or something else was opened in its place."""

INTERRUPT_AGAIN_S = 0.25
"""Seconds until a turn gets its interrupt once more: one that had not come to listen yet missed the first."""

INTERRUPT_LIMIT_S = 10.0
"""Seconds the next turn waits for a plugin's `interrupt` or `steer` to return: one that comes later would hit it."""


def main(channel: Channel) -> int:
    """Serve one supervisor until it closes; the exit status of the process.

    Args:
        channel: this end of the pair; the other end is the supervisor's.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError, OSError):
            stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # what a dying plugin printed last
    return _Worker(channel).run()


class _Running:
    """The turn that is running now."""

    def __init__(self, turn_id: str, conversation: Conversation) -> None:
        self.turn_id = turn_id
        self.conversation = conversation
        self.over = threading.Event()
        self.emitting = threading.Lock()
        self.interrupt: threading.Thread | None = None


class _Worker:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._pid = os.getpid()
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        # Held while something is reported, with what the report changes here: whoever attaches in between finds either
        # both or none. Taken before the lock.
        self._reporting = threading.RLock()
        self._attached = True
        self._kept: tuple[str, bytes] | None = None
        self._backlog = Backlog()
        self._place = SchemaPlace()
        self._asked: list[str] = []
        self._preparing: Phase | None = None
        self._profile: ProviderProfile | None = None
        self._lock = threading.Lock()
        # Guarded by the lock: turns read but not begun, those of them that were interrupted, and the running one.
        self._waiting: set[str] = set()
        self._cancelled: set[str] = set()
        self._running: _Running | None = None
        self._steering = Steering(self._conversation_of, self._steered)
        # The main thread's own.
        self._entry: ProviderEntry | None = None
        self._transport: Transport | None = None
        self._conversation: Conversation | None = None
        self._known: str | None = None
        self._last_interrupt: threading.Thread | None = None
        self._orphans = Orphans()

    def run(self) -> int:
        self._send(Ready(os.getpid()))
        threading.Thread(target=self._read, name="reader", daemon=True).start()
        while True:
            command = self._commands.get()
            if isinstance(command, Load):
                self._load(command)
            elif isinstance(command, Open):
                self._open(command)
            elif isinstance(command, Turn):
                self._turn(command)
            elif isinstance(command, Close):
                self._close()
                return 0

    # The reader thread.

    def _read(self) -> None:
        while True:
            try:
                received = self._channel.receive()
                if received is None:
                    os._exit(EXIT_ORPHANED)
                if received.moved:
                    self._move(received.fds[0])
                else:
                    self._take(decode_command(received.data))
            except (RecordError, ChannelFault) as error:
                _give_up(error)

    def _take(self, command: Command) -> None:
        if isinstance(command, Interrupt):
            self._interrupt(command.turn_id)
            return
        if isinstance(command, Steer):
            self._steering.take(command)
            return
        if isinstance(command, Ack | Attach):
            self._acknowledge(command.turn_id) if isinstance(command, Ack) else self._attach()
            return
        if not isinstance(command, Close):  # which must get through however long a report takes
            with self._reporting:
                if isinstance(command, Turn):
                    self._asked.append(command.turn_id)
                    self._kept = None
                    self._backlog.clear()
                else:
                    self._preparing = Phase.LOAD if isinstance(command, Load) else Phase.OPEN
        with self._lock:
            if isinstance(command, Turn):
                self._waiting.add(command.turn_id)
            elif isinstance(command, Close):
                self._cancelled |= self._waiting
                self._interrupt_running()
        self._commands.put(command)

    def _acknowledge(self, turn_id: str) -> None:
        with self._reporting:
            if self._kept is not None and self._kept[0] == turn_id:
                self._kept = None

    def _move(self, fd: int) -> None:
        """Go on at another channel, once its supervisor has attached."""
        with self._reporting:
            self._attached = False
            previous, self._channel = self._channel, Channel.from_fd(fd)
        previous.close()

    def _attach(self) -> None:
        with self._reporting:
            self._attached = True
            turn_id = self._asked[0] if self._asked else ""
            phase = Phase.TURN if turn_id else self._preparing
            kept = None if self._kept is None else self._kept[0]
            known = self._conversation_id()
            events, dropped = self._backlog.take()
            self._send(Attached(phase, turn_id, self._conversation is not None, known, kept, self._profile, dropped))
            for event in events:
                self._say_event(event)
            if self._kept is not None:
                self._say(self._kept[1])

    def _interrupt(self, turn_id: str) -> None:
        with self._lock:
            if turn_id in self._waiting:
                self._cancelled.add(turn_id)
            elif self._running is not None and self._running.turn_id == turn_id:
                self._interrupt_running()

    def _interrupt_running(self) -> None:
        running = self._running
        if running is not None and running.interrupt is None:
            # On a thread of its own: a plugin's interrupt may block, and the reader must not.
            running.interrupt = threading.Thread(target=_interrupt, args=(running,), name="interrupt", daemon=True)
            running.interrupt.start()

    # The steering thread.

    def _conversation_of(self, turn_id: str) -> Conversation | None:
        with self._lock:
            running = self._running
        return running.conversation if running is not None and running.turn_id == turn_id else None

    def _steered(self, message: Steer, refusal: BaseException | None) -> None:
        error = None if refusal is None else describe(refusal, self._entry, "steer")
        self._send(Steered(message.steer_id, error))

    # The main thread.

    def _load(self, command: Load) -> None:
        self._entry = command.plugin
        try:
            if self._transport is not None:
                raise SessionStateError("a worker loads one plugin, and this one has", where=command.plugin.name)
            os.environ.clear()
            os.environ.update(command.env)
            _enter(command.cwd)
            plugins = manager.load(command.plugin)
            transport = plugins.hook.partyctl_transport(kind=command.kind, options=dict(command.options))
            if transport is None:
                raise ProviderCapabilityError(
                    f"provider {command.plugin.name!r} cannot be reached by {command.kind.value}",
                    fix="Choose another transport",
                )
            profile = _profile(transport, command.plugin)
            self._stay()
            with self._reporting:
                self._send(Loaded(profile))
                self._transport, self._profile, self._preparing = transport, profile, None
        except BaseException as error:
            self._failed(Phase.LOAD, error)

    def _open(self, command: Open) -> None:
        try:
            if self._transport is None or self._conversation is not None:
                raise SessionStateError("a worker opens one conversation, after its plugin is loaded")
            os.environ.update(command.env)
            conversation = self._transport.open(command.spec)
            self._stay()
            known = name_of(conversation)
            with self._reporting:
                self._send(Opened(known))
                self._conversation, self._known, self._preparing = conversation, known, None
        except BaseException as error:
            self._failed(Phase.OPEN, error)

    def _turn(self, command: Turn) -> None:
        try:
            running = self._begin(command.turn_id)
            result = self._interrupted(command.turn_id) if running is None else self._run(running, command)
            self._conclude(Result(command.turn_id, result, self._conversation_id()))
        except BaseException as error:
            self._failed(Phase.TURN, error, command.turn_id)
        with contextlib.suppress(OSError):  # no descriptor is left to look with: it looks again after the next turn
            self._orphans.reap()

    def _begin(self, turn_id: str) -> _Running | None:
        """Take the turn from those waiting; None if it was interrupted before it began."""
        if self._last_interrupt is not None:
            self._last_interrupt.join(INTERRUPT_LIMIT_S)
        settled = self._steering.settled(INTERRUPT_LIMIT_S)
        with self._lock:
            self._waiting.discard(turn_id)
            if turn_id in self._cancelled:
                self._cancelled.discard(turn_id)
                return None
            if self._last_interrupt is not None and self._last_interrupt.is_alive():
                raise TimeoutError(
                    f"interrupt, called in an earlier turn, did not return within {INTERRUPT_LIMIT_S:g} s"
                )
            if not settled:
                raise TimeoutError(f"steer, called in an earlier turn, did not return within {INTERRUPT_LIMIT_S:g} s")
            if self._conversation is None:
                raise SessionStateError("a turn needs a conversation, and none is open")
            self._running = _Running(turn_id, self._conversation)
            return self._running

    def _run(self, running: _Running, command: Turn) -> TurnResult:
        def emit(event: AgentEvent) -> None:
            with running.emitting:  # so that none of another thread's comes after the result
                if running.over.is_set():
                    raise SessionStateError("an event came after the end of its turn", where=type(event).__name__)
                self._say_event(encode_report(Event(command.turn_id, event)))

        try:
            result = running.conversation.turn(self._place.placed(command.request, self._profile), emit)
        finally:
            self._stay()
            with running.emitting:
                running.over.set()
            with self._lock:
                self._running = None
            self._last_interrupt = running.interrupt
        if not isinstance(result, TurnResult):
            raise TypeError(f"turn returned a {type(result).__name__}, not a TurnResult")
        return result

    def _interrupted(self, turn_id: str) -> TurnResult:
        self._say_event(encode_report(Event(turn_id, TurnInterrupted())))
        return TurnResult(session_id=self._conversation_id(), interrupted=True)

    def _close(self) -> None:
        try:
            if self._conversation is not None:
                self._conversation.close()
        except BaseException as error:
            self._failed(Phase.CLOSE, error)
        self._place.remove()
        self._send(Closed())

    # Both threads.

    def _stay(self) -> None:
        """End this process if it is a fork that the plugin let come back: a command has one answer."""
        if os.getpid() != self._pid:
            _give_up(SessionStateError(f"a fork of worker {self._pid} came back from the plugin, and was ended"))

    def _conversation_id(self) -> str | None:
        if self._conversation is not None:
            try:
                self._known = name_of(self._conversation)
            except BaseException:
                traceback.print_exc()  # what it said before stands
        return self._known

    def _failed(self, phase: Phase, error: BaseException, turn_id: str = "") -> None:
        self._stay()
        foreign = not isinstance(error, AgentSessionError) or isinstance(error, RecordError)
        culprit = error if foreign else error.__cause__ if isinstance(error, PluginLoadError) else None
        if culprit is not None:
            with contextlib.suppress(Exception):  # of a standard error that the plugin closed or replaced
                traceback.print_exception(culprit)
        if phase is Phase.LOAD and self._entry is not None and foreign:
            error = manager.load_error(self._entry, error)
        record = describe(error, self._entry, phase.value)
        failed = Failed(phase, record, turn_id, self._conversation_id())
        if phase is Phase.TURN:
            self._conclude(failed)
            return
        with self._reporting:
            self._preparing = None
            self._send(failed)

    def _conclude(self, outcome: Result | Failed) -> None:
        """Report how a turn ended, and keep that until it is acknowledged."""
        with self._reporting:
            data = encode_report(outcome)
            self._say(data)  # what cannot be sent is no outcome
            self._kept = outcome.turn_id, data
            with contextlib.suppress(ValueError):
                self._asked.remove(outcome.turn_id)

    def _send(self, report: Report) -> None:
        """Send a report; RecordError or ChannelFault if it cannot be sent, which is the plugin's doing.

        A supervisor that is gone hears nothing. If the launcher does not keep this worker, the reader sees the end of
        the channel, and ends it.
        """
        self._say(encode_report(report))

    def _say_event(self, data: bytes) -> None:
        with self._reporting:
            if not self._say(data):
                self._backlog.add(data)

    def _say(self, data: bytes) -> bool:
        """Send it; whether it was taken."""
        self._stay()
        with self._reporting:
            if not self._attached:
                self._channel.check_size(data)
                return False
            try:
                self._channel.send(data)
            except ChannelClosed as error:
                if isinstance(error.__cause__, OSError) and error.__cause__.errno in NOT_OURS:
                    _give_up(SessionStateError("the plugin closed a descriptor that is not its own: the worker's"))
                self._attached = False
            return self._attached


def _interrupt(running: _Running) -> None:
    try:
        running.conversation.interrupt()
        if not running.over.wait(INTERRUPT_AGAIN_S):
            running.conversation.interrupt()
    except BaseException:
        traceback.print_exc()


def _enter(cwd: str) -> None:
    try:
        os.chdir(cwd)
    except OSError as error:
        raise PluginLoadError(
            "the working directory cannot be entered",
            where=cwd,
            why=error.strerror or "",
            fix="Create it, or name another",
        ) from error


def _profile(transport: Transport, entry: ProviderEntry) -> ProviderProfile:
    profile = transport.profile
    if not isinstance(profile, ProviderProfile):
        raise TypeError(f"the transport of {entry.name!r} has a {type(profile).__name__} for a profile")
    return profile


def _give_up(error: Exception) -> NoReturn:
    """End the process: after a record that is none of ours nothing that follows can be trusted."""
    with contextlib.suppress(Exception):
        print(f"partyctl worker: {error}", file=sys.stderr, flush=True)
    os._exit(EXIT_BAD_RECORD)
