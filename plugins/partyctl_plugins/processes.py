"""Commands, and where they are run: the port through which a transport reaches one, and this machine behind it.

Rules of `HostProcess`:

- Nobody reads ahead: output that is not asked for stays in the pipe, and the full pipe holds the command back. Only a
  write that waits for room takes output in meanwhile, up to `KEPT_MAX`, so that a command that answers while it reads
  is not waited for in a circle.
- The end of a command is seen on its pidfd, not at the end of its output, which a child of it may hold open for hours.
- A command that leaves its input unread makes `write` give up; `close_stdin`, `terminate` and `kill` wait for nobody.
"""

import codecs
import contextlib
import os
import select
import shutil
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Protocol, TypeAlias

from partyctl_confinement.reaper import kill_tree
from partyctl_plugins.enclosure import Confinement
from partyctl_plugins.errors import ProcessClosedError, TurnFailedError

KEPT_MAX = 8 * 1024 * 1024
"""How much output a write that waits takes in, in characters."""

READ_SIZE = 64 * 1024
LAST_BYTES = 4 * 1024 * 1024
"""How much is read from each pipe of a dead command, in bytes at most: more than a pipe holds, yet an end, though a
grandchild may write for ever."""

LINE_MAX = 1024 * 1024
"""A line longer than this many characters comes in pieces."""

POLL_MAX_MS = 2**31 - 1
"""The longest wait that the kernel takes, 25 days; a longer one ends then."""

SLICE_S = 0.1
"""How soon a write that waits notices that the input was closed, in seconds."""


@dataclass(frozen=True, slots=True)
class StdoutText:
    """A line of standard output with its end of line, or what is left when the command ends."""

    text: str


@dataclass(frozen=True, slots=True)
class StderrText:
    """The same of standard error."""

    text: str


@dataclass(frozen=True, slots=True)
class ProcessExited:
    """The command ended, by this status; minus the signal's number if one ended it."""

    code: int


Output: TypeAlias = StdoutText | StderrText | ProcessExited


class Process(Protocol):
    """A command that runs. `next_output` belongs to one thread, the rest may be called from any."""

    def write(self, text: str) -> None:
        """Write to its standard input.

        Raises:
            ProcessClosedError: it has ended, its input is closed, or it leaves its input unread.
        """

    def close_stdin(self) -> None:
        """End its standard input. May come twice."""

    def next_output(self, timeout: float | None = None) -> Output | None:
        """What comes next, waiting at most `timeout` seconds (None: without limit); None if nothing came.

        After everything else comes `ProcessExited`, again and again.
        """

    def wait(self, timeout: float | None = None) -> int | None:
        """Its status once it has ended, waiting at most `timeout` seconds; None if it still runs."""

    def terminate(self) -> None:
        """Ask it to end. Nothing happens if it has."""

    def kill(self) -> None:
        """Kill it and everything it started. May come twice."""

    def close(self) -> None:
        """Kill it if it runs, and let go of its pipes. May come twice."""


class Executor(Protocol):
    """Where commands run."""

    def find_binary(self, name: str) -> str | None:
        """The path of a command where commands run, None if there is none."""

    def spawn(self, argv: Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None) -> Process:
        """Start a command.

        Args:
            argv: the command and its arguments.
            cwd: absolute directory to start it in; None for the executor's own.
            env: its whole environment; None for the executor's own.

        Raises:
            TurnFailedError: it could not be started.
        """


class HostExecutor:
    """This machine.

    Args:
        write_timeout: seconds a command may leave its input unread.
    """

    def __init__(self, *, write_timeout: float = 10.0) -> None:
        self._write_timeout = write_timeout

    def find_binary(self, name: str) -> str | None:
        return shutil.which(name)

    def spawn(
        self, argv: Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None
    ) -> "HostProcess":
        """Start a command; see `Executor.spawn`."""
        try:
            return HostProcess(argv, cwd=cwd, env=env, write_timeout=self._write_timeout)
        except (OSError, ValueError) as error:
            place = cwd if cwd is not None and not os.path.isdir(cwd) else argv[0]
            raise TurnFailedError(
                f"the command {argv[0]!r} could not be started", where=place, why=getattr(error, "strerror", str(error))
            ) from error


def confine(executor: Executor, confinement: Confinement) -> Executor:
    """An executor that runs every command inside a confinement.

    Args:
        executor: what starts the commands.
        confinement: where they run; its environment wins over that of a command.
    """
    return _Confined(executor, confinement)


class _Confined:
    def __init__(self, executor: Executor, confinement: Confinement) -> None:
        self._executor = executor
        self._confinement = confinement

    def find_binary(self, name: str) -> str | None:
        return name  # what is found outside says nothing about the inside

    def spawn(self, argv: Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None) -> Process:
        inside = {**(env or {}), **self._confinement.env}
        return self._executor.spawn(self._confinement.wrap(argv, cwd), env=inside)


class HostProcess:
    """A command on this machine, in a session of its own; made by `HostExecutor.spawn`."""

    def __init__(
        self, argv: Sequence[str], *, cwd: str | None, env: Mapping[str, str] | None, write_timeout: float
    ) -> None:
        pipe = subprocess.PIPE
        self._popen = subprocess.Popen(
            list(argv), cwd=cwd, env=None if env is None else dict(env), stdin=pipe, stdout=pipe, stderr=pipe,
            bufsize=0, start_new_session=True,
        )  # fmt: skip
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        assert self._popen.stderr is not None
        self._in = self._popen.stdin
        self._write_timeout = write_timeout
        self._closing = False
        self._writing = threading.Lock()
        self._reading = threading.Lock()  # guards everything below
        self._ready: deque[Output] = deque()
        self._kept = 0
        self._pidfd = os.pidfd_open(self._popen.pid)
        self._pipes: dict[IO[bytes], _Lines] = {
            self._popen.stdout: _Lines(StdoutText),
            self._popen.stderr: _Lines(StderrText),
        }
        for each in (self._in, *self._pipes):
            os.set_blocking(each.fileno(), False)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._popen.pid

    def write(self, text: str) -> None:
        view = memoryview(text.encode("utf-8", "surrogatepass"))
        deadline = time.monotonic() + self._write_timeout
        with self._writing:
            while view:
                if self._closing or self._popen.poll() is not None:
                    self._in.close()
                    raise ProcessClosedError("the command takes no input any more", where=f"pid {self.pid}")
                try:
                    view = view[os.write(self._in.fileno(), view[:READ_SIZE]) :]
                    deadline = time.monotonic() + self._write_timeout
                except BlockingIOError:
                    self._await_room(deadline)
                except OSError as error:
                    raise ProcessClosedError(
                        "the command has closed its input", where=f"pid {self.pid}", why=error.strerror or ""
                    ) from error

    def close_stdin(self) -> None:
        self._closing = True
        # A write that waits for room holds the lock, and closes the input when it sees the mark.
        if self._writing.acquire(blocking=False):
            try:
                self._in.close()
            finally:
                self._writing.release()

    def next_output(self, timeout: float | None = None) -> Output | None:
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._reading:
            while not self._ready:
                if self._pidfd < 0:
                    return ProcessExited(self._popen.wait())
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                if not self._step(left, writing=False):
                    return None
            said = self._ready.popleft()
            self._kept -= len(getattr(said, "text", ""))
            return said

    def wait(self, timeout: float | None = None) -> int | None:
        if self._popen.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                pidfd = os.pidfd_open(self.pid)
                try:
                    _ready([pidfd], [], timeout)
                finally:
                    os.close(pidfd)
        return self._popen.poll()

    def terminate(self) -> None:
        self._popen.terminate()

    def kill(self) -> None:
        if self._popen.poll() is None:
            kill_tree(self.pid, parent=os.getpid())

    def close(self) -> None:
        self.kill()
        self._popen.wait()
        self.close_stdin()
        with self._reading:
            self._let_go()

    def _await_room(self, deadline: float) -> None:
        """Wait until there may be room in the input, taking in output meanwhile if nobody else does."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise ProcessClosedError(
                "the command leaves its input unread", where=f"pid {self.pid}", why=f"for {self._write_timeout:g} s"
            )
        if self._reading.acquire(blocking=False):
            try:
                self._step(min(left, SLICE_S), writing=True)
            finally:
                self._reading.release()
        else:
            _ready([], [self._in.fileno()], min(left, SLICE_S))

    def _step(self, timeout: float | None, *, writing: bool) -> bool:
        """Wait for output, or for the end, or for room to write; False if nothing came in time."""
        pipes = {pipe.fileno(): pipe for pipe in self._pipes} if not writing or self._kept < KEPT_MAX else {}
        inputs = [self._in.fileno()] if writing else []
        ready = _ready([*pipes, *([self._pidfd] if self._pidfd >= 0 else [])], inputs, timeout)
        for fd in ready & pipes.keys():
            self._read(pipes[fd])
        if self._pidfd in ready:
            self._finish()
        return bool(ready)

    def _read(self, pipe: IO[bytes]) -> bool:
        try:
            data = os.read(pipe.fileno(), READ_SIZE)
        except BlockingIOError:
            return False
        lines = self._pipes[pipe]
        for output in lines.feed(data) if data else lines.finish():
            self._kept += len(output.text)
            self._ready.append(output)
        if not data:
            del self._pipes[pipe]
            pipe.close()
        return bool(data)

    def _finish(self) -> None:
        """It is dead: take what is left in its pipes."""
        for pipe in list(self._pipes):
            for _ in range(LAST_BYTES // READ_SIZE):
                if not self._read(pipe):
                    break
            if pipe in self._pipes:
                self._ready.extend(self._pipes[pipe].finish())
        self._let_go()

    def _let_go(self) -> None:
        for pipe in list(self._pipes):
            pipe.close()
        self._pipes.clear()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


def _ready(readers: Sequence[int], writers: Sequence[int], timeout: float | None) -> set[int]:
    """Those of the descriptors that something can be done with, after at most `timeout` seconds."""
    poll = select.poll()  # not `select`, which knows no descriptor above 1023
    for fd in readers:
        poll.register(fd, select.POLLIN)
    for fd in writers:
        poll.register(fd, select.POLLOUT)
    return {fd for fd, _ in poll.poll(None if timeout is None else min(timeout * 1000, POLL_MAX_MS))}


class _Lines:
    """Bytes of one pipe to lines of text; what is no UTF-8 is replaced."""

    def __init__(self, kind: "Callable[[str], StdoutText | StderrText]") -> None:
        self._kind = kind
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def feed(self, data: bytes) -> "list[StdoutText | StderrText]":
        # Only "\n" ends a line: answers hold every other mark that `splitlines` knows.
        *lines, self._rest = (self._rest + self._decoder.decode(data)).split("\n")
        found = [self._kind(line + "\n") for line in lines]
        if len(self._rest) >= LINE_MAX:
            found.append(self._kind(self._rest))
            self._rest = ""
        return found

    def finish(self) -> "list[StdoutText | StderrText]":
        rest, self._rest = self._rest + self._decoder.decode(b"", final=True), ""
        return [self._kind(rest)] if rest else []
