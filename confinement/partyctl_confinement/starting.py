"""Which workers were forked and have not come to their main yet.

Too many at once keep the launcher itself from the processor: its answers would wait for all of theirs.
"""

import contextlib
import os
import struct
from typing import Final

STARTING_MAX: Final = 8
"""Workers that may be on their way to their main at once."""

START_MAX: Final = 1.0
"""Seconds after which one is not waited for any more: its module may take as long as it likes to import."""

_PID: Final = struct.Struct("=i")


class Starting:
    """Hears, on one pipe for all workers, who came to its main. It must be watched only by whoever waits for room.

    Attributes:
        writing: the end that each worker gets, and writes its pid to.
    """

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._until: dict[int, float] = {}

    def fileno(self) -> int:
        return self._reading

    def has_room(self, now: float) -> bool:
        """Whether another worker may be forked, at `now` in monotonic seconds."""
        self._hear()
        late = [pid for pid, until in self._until.items() if until <= now]
        for pid in late:
            del self._until[pid]
        return len(self._until) < STARTING_MAX

    def add(self, pid: int, now: float) -> None:
        """A worker was forked."""
        self._until[pid] = now + START_MAX

    def forget(self, pid: int) -> None:
        """A worker came to its main, or died before."""
        self._until.pop(pid, None)

    def _hear(self) -> None:
        """Take what the workers wrote. A pid that nobody waits for means nothing."""
        with contextlib.suppress(BlockingIOError):
            heard = os.read(self._reading, 1024 * _PID.size)
            for (pid,) in _PID.iter_unpack(heard[: len(heard) - len(heard) % _PID.size]):
                self.forget(pid)
