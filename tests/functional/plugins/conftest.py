"""A worker in a forked process, driven over its channel."""

import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeVar

import pytest

from partyctl_base.channel import Channel
from partyctl_plugins import worker
from partyctl_plugins.contract import ApprovalPolicy, ConversationSpec, NativePermissions, TransportKind, TurnRequest
from partyctl_plugins.manager import ProviderEntry, resolve
from partyctl_plugins.records import (
    Command,
    Event,
    Load,
    Loaded,
    Open,
    Opened,
    Ready,
    Report,
    Turn,
    decode_report,
    encode_command,
)

LIMIT_S = 20.0
"""No answer of a worker takes this long; a test that waits for it fails."""

R = TypeVar("R", bound=Report)


@dataclass(frozen=True)
class Ending:
    """How a worker's process ended."""

    status: int | None
    signal: int | None


class ForkedWorker:
    """A supervisor's view of one worker."""

    def __init__(self, directory: Path) -> None:
        self.cwd = directory
        self.events: list[object] = []
        self._log = directory / f"worker-{time.monotonic_ns()}.log"
        self.channel, theirs = Channel.pair()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            # From 3.12 on a fork warns when other threads run, as those of xdist do; none of them holds a lock we need.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            self._be_the_worker(theirs)
        theirs.close()
        self._pidfd = os.pidfd_open(self.pid)
        self._ending: Ending | None = None
        assert self.receive(Ready).pid == self.pid

    def _be_the_worker(self, channel: Channel) -> NoReturn:
        status = 99
        try:
            self.channel.close()
            log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, 1)
            os.dup2(log, 2)
            sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115  # for the rest of this process
            sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
            status = worker.main(channel)
        finally:
            os._exit(status)

    def send(self, command: Command) -> None:
        self.channel.send(encode_command(command), timeout=LIMIT_S)

    def next(self) -> Report | None:
        """The next report that is no event; None when the worker is gone. Events are put aside."""
        while True:
            received = self.channel.receive(timeout=LIMIT_S)
            if received is None:
                return None
            report = decode_report(received.data)
            if not isinstance(report, Event):
                return report
            self.events.append(report.event)

    def receive(self, kind: type[R]) -> R:
        """The next report, which has to be of this kind."""
        report = self.next()
        assert isinstance(report, kind), report
        return report

    def receive_event(self, kind: type) -> None:
        """Take reports until an event of this kind comes."""
        while True:
            received = self.channel.receive(timeout=LIMIT_S)
            assert received is not None, self.log()
            report = decode_report(received.data)
            assert isinstance(report, Event), report
            self.events.append(report.event)
            if isinstance(report.event, kind):
                return

    def load(self, plugin: ProviderEntry, **options: object) -> None:
        env = {"PATH": os.environ["PATH"], "PARTY": "yes"}
        self.send(Load(plugin, str(self.cwd), TransportKind.STREAM, env, options))

    def open(self, resume_id: str | None = None) -> None:
        permissions, approvals = NativePermissions.bypass(), ApprovalPolicy.DENY
        self.send(Open(ConversationSpec(str(self.cwd), permissions, approvals, resume_id=resume_id)))

    def play(self, *turns: list[dict[str, object]], resume_id: str | None = None) -> str | None:
        """Load the scripted provider with these turns and open a conversation; its id."""
        self.load(resolve("scripted"), script=[*turns])
        self.receive(Loaded)
        self.open(resume_id)
        return self.receive(Opened).conversation_id

    def turn(self, turn_id: str = "turn-1", prompt: str = "go", timeout: float | None = None) -> None:
        self.send(Turn(turn_id, TurnRequest(prompt, timeout=timeout)))

    def ending(self, limit: float = LIMIT_S) -> Ending:
        """Wait for the end of the process."""
        if self._ending is None:
            ready, _, _ = select.select([self._pidfd], [], [], limit)
            assert ready, f"the worker is still there: {self.log()}"
            _, status = os.waitpid(self.pid, 0)
            exited = os.WIFEXITED(status)
            self._ending = Ending(os.WEXITSTATUS(status) if exited else None, None if exited else os.WTERMSIG(status))
        return self._ending

    def log(self) -> str:
        """What the process wrote to standard output and error."""
        return self._log.read_text() if self._log.exists() else ""

    def dismiss(self) -> None:
        if self._ending is None:
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            self.ending()
        os.close(self._pidfd)
        self.channel.close()


@pytest.fixture
def hire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], ForkedWorker]]:
    monkeypatch.syspath_prepend(str(tmp_path))  # where a test may put its plugins
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    hired: list[ForkedWorker] = []

    def hire_one() -> ForkedWorker:
        hired.append(ForkedWorker(tmp_path))
        return hired[-1]

    yield hire_one
    for one in hired:
        one.dismiss()


@pytest.fixture
def forked(hire: Callable[[], ForkedWorker]) -> ForkedWorker:
    return hire()
