"""The broker's memory: watched while it works, and not at all while it sleeps.

ZeroMQ gathers a message of many frames before anybody sees it, without a bound (measured: 17 to 591 MiB in 1.1 s). So
the process is interrupted whenever it has used some CPU (ITIMER_PROF counts all threads, also ZeroMQ's), and looks at
its resident memory then. An idle broker is never interrupted.

While the memory grows, it looks every millisecond. When it has grown, it looks for whoever sends without ever finishing
a message: a connection that had unread bytes at several looks, while the broker read whatever messages there were and
none came from it. If the memory has grown meanwhile by more than frames of a lawful size explain, the one with the most
such looks is cut off; ZeroMQ drops what it had gathered. If there is nobody like that the growth is taken for granted,
until the limit. Behind that stands a limit of the address space, which makes the next allocation fail: the last line,
for what grows faster than it is looked at.
"""

import ctypes
import os
import resource
import select
import signal
import time
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Final, Protocol

from partyctl_broker.errors import MemoryExceeded
from partyctl_broker.wire import FRAME_MAX

CPU_SLICE: Final = 0.004
"""Seconds of CPU between two looks, a tick of the kernel; the next one comes after 4 to 12 ms (measured), in which a
message of large frames grows by up to 22 MiB."""
MEMORY_MAX: Final = 512 * 1024 * 1024
"""Bytes of resident memory that a broker may have unless told otherwise."""
CLOSE_SLICE: Final = 0.001
"""Seconds between two looks while the memory grows."""
STEP: Final = 1024 * 1024
"""Bytes of growth between two looks after which the next comes so soon."""
GROWTH: Final = 6 * 1024 * 1024
"""Bytes that the memory may grow before somebody is looked for."""
LOOKS: Final = 4
"""Looks at which somebody must have unread bytes before it is cut off."""
IDLE_LOOKS: Final = 32
"""Looks in a row at which nobody had unread bytes, after which nobody is guilty."""
INNOCENT: Final = -1
"""Instead of a descriptor: nobody is guilty."""
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class Watched(Protocol):
    """What the guard has to know about connections. Called between any two steps of the main thread."""

    def descriptors(self) -> Iterable[int]:
        """The descriptors of all connections."""
        ...

    def has_read(self) -> bool:
        """Whether all messages that were there have been read since this was last asked and true."""
        ...

    def heard(self) -> set[int]:
        """The descriptors of those that are new, or that a message came from, since this was last asked."""
        ...

    def passed(self) -> tuple[int, int]:
        """Bytes of large letters that went their way since this was last asked, and how many connections sent huge ones
        of late."""
        ...

    def cut(self, descriptor: int) -> None:
        """End a connection."""
        ...


class Search:
    """Looks for the connection that sends and never finishes; pure."""

    def __init__(self) -> None:
        self._looks: dict[int, int] = {}
        self._began: dict[int, int] = {}
        self._growth = 0
        self._idle = 0

    def look(self, growth: int, unread: set[int], heard: set[int], passed: int = 0, senders: int = 0) -> int | None:
        """One look; the descriptor of who is guilty, INNOCENT if nobody is, None if that is not known yet.

        Args:
            growth: bytes that the memory has grown.
            unread: descriptors with bytes that ZeroMQ has not read yet.
            heard: descriptors that a message came from since the last look.
            passed: bytes of large letters that went their way since then; each may be there twice for a while.
            senders: how many connections sent huge letters of late; each may have two more that are not read yet.
        """
        excused = max(0, min(growth - self._growth, 2 * passed))
        self._growth = growth
        for descriptor in heard:
            self._looks.pop(descriptor, None)
            self._began.pop(descriptor, None)
        for descriptor in unread:
            self._looks[descriptor] = self._looks.get(descriptor, 0) + 1
        for descriptor in self._looks:
            self._began[descriptor] = min(growth, self._began.get(descriptor, growth) + excused)
        self._idle = 0 if self._looks else self._idle + 1
        if not self._looks:
            return INNOCENT if self._idle >= IDLE_LOOKS else None
        worst = max(self._looks, key=lambda descriptor: self._looks[descriptor])
        # Each may be in the midst of a frame, and one frame on its way through is there twice.
        lawful = FRAME_MAX * (len(self._looks) + 1 + 2 * senders)
        if self._looks[worst] < LOOKS or growth - self._began[worst] <= lawful:
            return None
        del self._looks[worst], self._began[worst]
        return worst


class Guard:
    """Looks at the memory of this process.

    Args:
        limit: bytes of resident memory that it may have.
        watched: the connections.
        resident: tells the bytes of resident memory.
        unread: tells which of some descriptors have bytes to read.
    """

    def __init__(
        self,
        limit: int,
        watched: Watched,
        *,
        resident: Callable[[], int] | None = None,
        unread: Callable[[Iterable[int]], set[int]] | None = None,
    ) -> None:
        self._limit, self._watched = limit, watched
        self._resident = resident or Resident()
        self._unread = unread or readable
        self._granted = self._least = self._resident()
        self._search = Search()
        self._last = self._granted
        self.is_alert = False
        """Whether the next look should come soon."""

    def look(self) -> None:
        """Raises MemoryExceeded over the limit."""
        resident = self._resident()
        if resident > self._limit:
            raise MemoryExceeded(resident, self._limit)
        self._granted = min(self._granted, max(resident, self._least))
        has_grown = resident > self._granted + GROWTH
        self.is_alert = has_grown or resident > self._last + STEP
        self._last = resident
        if not has_grown:
            return
        if not self._watched.has_read():
            return  # who has not been listened to is not guilty of silence
        unread = self._unread(self._watched.descriptors())
        guilty = self._search.look(resident - self._granted, unread, self._watched.heard(), *self._watched.passed())
        if guilty == INNOCENT:
            self._granted = resident
        elif guilty is not None:
            self._watched.cut(guilty)

    def start(self) -> None:
        """Look from now on; the signals are SIGPROF and SIGALRM. Call it on the main thread, which gets what `look`
        raises."""
        _limit_address_space(2 * self._limit)
        for number in (signal.SIGPROF, signal.SIGALRM):
            signal.signal(number, self._interrupted)
        signal.setitimer(signal.ITIMER_PROF, CPU_SLICE)

    def _interrupted(self, _number: int, _frame: FrameType | None) -> None:
        # The timer goes off once and is set anew, so that a look is never interrupted by the next one; and a look that
        # takes long, among thousands of connections, is followed by a longer rest.
        started = time.thread_time()
        self.look()
        took = time.thread_time() - started
        if self.is_alert:
            signal.setitimer(signal.ITIMER_REAL, CLOSE_SLICE + 2 * took)
        else:
            signal.setitimer(signal.ITIMER_PROF, CPU_SLICE + 2 * took)

    def stop(self) -> None:
        """Look no more."""
        for timer in (signal.ITIMER_PROF, signal.ITIMER_REAL):
            signal.setitimer(timer, 0)


class Resident:
    """Tells the resident memory of this process; keeps the file open, which makes a look five times cheaper."""

    def __init__(self) -> None:
        self._statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)

    def __call__(self) -> int:
        return int(os.pread(self._statm, 128, 0).split()[1]) * _PAGE


def readable(descriptors: Iterable[int]) -> set[int]:
    """Which of the descriptors have bytes to read. One that is closed by now has none."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, events in poll.poll(0) if events & select.POLLIN}


def return_memory() -> None:
    """Give the system back what was freed: after a flood the allocator would keep most of it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _limit_address_space(room: int) -> None:
    """What is mapped now (libraries, stacks) and `room` bytes more."""
    with open("/proc/self/statm") as file:
        mapped = int(file.read().split()[0]) * _PAGE
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = mapped + room
    resource.setrlimit(resource.RLIMIT_AS, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
