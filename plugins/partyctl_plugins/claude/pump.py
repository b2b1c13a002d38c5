"""The thread that owns the pipes of one CLI process.

Rules:

- Only the pump touches the pipes. A writer queues bytes and goes on; a process that takes none of them for
  `write_timeout` seconds is reported as broken, and so is one that closes a pipe and does not end.
- stdout and stderr are drained, turn or no turn. Of stderr the last 16 KiB are kept. While somebody reads, frames wait
  in a bounded inbox; when it is full stdout is left alone, and the full pipe holds the CLI back.
- With nobody reading, frames are dropped; requests of the CLI are answered all the same.
- Death is seen on the pidfd, not by end of file: a grandchild may hold the pipes open for hours.
- `Ended` is the last item, after everything the process wrote.
"""

import os
import selectors
import subprocess
import threading
from collections import deque
from collections.abc import Callable
from typing import IO

from partyctl_base.clock import Clock
from partyctl_plugins.claude.frames import Frame, FrameReader, LineTooLong, Noise
from partyctl_plugins.claude.inbox import Broken, Ended, Inbox

STDERR_KEPT = 16 * 1024
READ_SIZE = 64 * 1024
LAST_BYTES = 4 * 1024 * 1024
"""How much is read from each pipe of a dead process: more than a pipe holds, and no grandchild goes on for ever."""


class Pump(threading.Thread):
    """Moves bytes between one process and its owner until the process is dead.

    Args:
        popen: the process, with three pipes, which the pump takes over.
        clock: where time comes from.
        answer: the answer to a frame of the CLI, None for none; called on this thread.
        max_line: ceiling of one line of stdout, in bytes.
        write_timeout: seconds the process may leave its input unread.
    """

    def __init__(
        self,
        popen: "subprocess.Popen[bytes]",
        *,
        clock: Clock,
        answer: Callable[[Frame], bytes | None],
        max_line: int,
        write_timeout: float,
    ) -> None:
        super().__init__(name=f"claude-{popen.pid}", daemon=True)
        assert popen.stdin is not None
        assert popen.stdout is not None
        assert popen.stderr is not None
        self.inbox = Inbox(clock)
        self.ended = threading.Event()
        self._popen = popen
        self._clock = clock
        self._answer = answer
        self._write_timeout = write_timeout
        self._reader: FrameReader | None = FrameReader(max_line)
        self._unread = 0  # bytes since the last whole frame
        self._lock = threading.Lock()  # guards what other threads reach: outbox, closing, broken, stderr, wake
        self._outbox: deque[memoryview] = deque()
        self._closing = False
        self._broken = ""
        self._stderr = bytearray()
        self._limits: dict[str, float] = {}  # what is waited for -> when the wait is given up
        self._in, self._out, self._err = popen.stdin, popen.stdout, popen.stderr
        for pipe in (self._in, self._out, self._err):
            os.set_blocking(pipe.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._pidfd = os.pidfd_open(popen.pid)
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    # -- from any thread ---------------------------------------------------
    @property
    def broken(self) -> str:
        """Why the process cannot be talked to, or ""."""
        with self._lock:
            return self._broken

    @property
    def stderr(self) -> str:
        """The last of what the process complained."""
        with self._lock:
            return self._stderr.decode("utf-8", "replace")

    def write(self, data: bytes) -> None:
        """Queue bytes for the input of the process; returns at once."""
        with self._lock:
            if not self._closing and not self._broken:
                self._outbox.append(memoryview(data))
                self._wake_up()

    def close_input(self) -> None:
        """End of input; what was queued and not written is dropped."""
        with self._lock:
            self._closing = True
            self._outbox.clear()
            self._wake_up()

    def look(self) -> None:
        """Have the pump look at its inbox again: there may be room now."""
        with self._lock:
            self._wake_up()

    def _wake_up(self) -> None:
        if self._wake >= 0:
            os.eventfd_write(self._wake, 1)

    # -- on the pump's thread ----------------------------------------------
    def run(self) -> None:
        self._selector.register(self._pidfd, selectors.EVENT_READ, None)
        self._selector.register(self._wake, selectors.EVENT_READ, lambda: os.eventfd_read(self._wake))
        self._selector.register(self._err, selectors.EVENT_READ, self._read_stderr)
        dead = False
        while not dead:
            self._choose()
            for key, _ in self._selector.select(self._patience()):
                if key.data is None:
                    dead = True
                else:
                    key.data()
            self._give_up()
        self._finish()

    def _choose(self) -> None:
        """Watch the pipes that there is something to do with."""
        with self._lock:
            if self._closing and not self._in.closed:
                self._forget(self._in)
            writing = bool(self._outbox) and not self._in.closed
        reading = not self._out.closed and not self.inbox.full
        self._watch(self._in, writing, selectors.EVENT_WRITE, self._write_some)
        self._watch(self._out, reading, selectors.EVENT_READ, self._read_stdout)
        if writing:
            self._limits.setdefault(_UNREAD, self._clock.monotonic() + self._write_timeout)
        else:
            self._limits.pop(_UNREAD, None)

    def _watch(self, pipe: IO[bytes], wanted: bool, event: int, action: Callable[[], object]) -> None:
        watched = not pipe.closed and pipe in self._selector.get_map()
        if wanted and not watched:
            self._selector.register(pipe, event, action)
        elif watched and not wanted:
            self._selector.unregister(pipe)

    def _forget(self, pipe: IO[bytes]) -> None:
        if pipe in self._selector.get_map():
            self._selector.unregister(pipe)
        pipe.close()

    def _patience(self) -> float | None:
        if not self._limits:
            return None
        return max(0.0, min(self._limits.values()) - self._clock.monotonic())

    def _give_up(self) -> None:
        now = self._clock.monotonic()
        for what in [what for what, limit in self._limits.items() if limit <= now]:
            del self._limits[what]
            self._break(f"{what} for {self._write_timeout:g} s")

    def _break(self, why: str) -> None:
        with self._lock:
            if self._broken:
                return
            self._broken = why
            self._outbox.clear()
        self.inbox.put(Broken(why))

    def _write_some(self) -> None:
        with self._lock:
            if not self._outbox or self._in.closed:
                return
            try:
                count = os.write(self._in.fileno(), self._outbox[0][:READ_SIZE])
            except BlockingIOError:
                return
            except OSError:  # it closed its input, most often because it is about to be dead
                self._forget(self._in)
                self._outbox.clear()
                self._limits[_CLOSED_INPUT] = self._clock.monotonic() + self._write_timeout
                return
            self._outbox[0] = self._outbox[0][count:]
            if not self._outbox[0]:
                self._outbox.popleft()
        self._limits.pop(_UNREAD, None)

    def _read_stdout(self) -> bool:
        data = self._read(self._out)
        if data is None:
            self._limits[_CLOSED_OUTPUT] = self._clock.monotonic() + self._write_timeout
        elif data:
            self._take(data)
        return bool(data)

    def _read_stderr(self) -> bool:
        data = self._read(self._err)
        if data:
            with self._lock:
                self._stderr += data
                del self._stderr[:-STDERR_KEPT]
        return bool(data)

    def _read(self, pipe: IO[bytes]) -> bytes | None:
        """What there is; None at end of file, when the pipe is forgotten."""
        try:
            data = os.read(pipe.fileno(), READ_SIZE)
        except BlockingIOError:
            return b""
        if not data:
            self._forget(pipe)
            return None
        return data

    def _take(self, data: bytes) -> None:
        if self._reader is None:
            return
        self._unread += len(data)
        try:
            found = self._reader.feed(data)
        except LineTooLong as error:
            self._reader = None
            self._break(f"it wrote {error}")
            return
        for item in found:
            self._hand_on(item)

    def _hand_on(self, item: Frame | Noise) -> None:
        reply = None if isinstance(item, Noise) else self._answer(item)
        if reply is not None:
            self.write(reply)
        self.inbox.put(item, self._unread)
        self._unread = 0

    def _finish(self) -> None:
        for pipe, read in ((self._out, self._read_stdout), (self._err, self._read_stderr)):
            for _ in range(LAST_BYTES // READ_SIZE):
                if pipe.closed or not read():
                    break
        for item in self._reader.finish() if self._reader else ():
            self.inbox.put(item)
        returncode = self._popen.wait()  # it is dead: this only collects the status
        with self._lock:
            os.close(self._wake)
            self._wake = -1
        self._selector.close()
        os.close(self._pidfd)
        for pipe in (self._in, self._out, self._err):
            pipe.close()
        self.ended.set()
        self.inbox.put(Ended(returncode))


_UNREAD = "it left its input unread"
_CLOSED_INPUT = "it has closed its input and not ended"
_CLOSED_OUTPUT = "it has closed its output and not ended"
