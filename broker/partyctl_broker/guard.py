"""The broker's memory: watched while it works, and not at all while it sleeps.

ZeroMQ gathers a message of many frames before anybody sees it, without a bound (measured: 17 to 591 MiB in 1.1 s). So
the process is interrupted whenever it has used some CPU (ITIMER_PROF counts all threads, also ZeroMQ's), and looks at
its resident memory then. An idle broker is never interrupted.

When the memory has grown, it looks for whoever sends without ever finishing a message: connections with unread bytes
at some look, of which no message came since. If the memory has grown by more than frames of a lawful size explain, they
are cut off; ZeroMQ drops what it had gathered. One cut off wrongly comes back and sends again. If there is nobody like
that the growth is taken for granted, until the limit. Behind that stands a limit of
the address space, which makes the next allocation fail: the last line, for what grows faster than it is looked at.
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
"""Seconds of CPU between two looks, a tick of the kernel. At the fastest growth measured that is 2 MiB."""
MEMORY_MAX: Final = 512 * 1024 * 1024
"""Bytes of resident memory that a broker may have unless told otherwise."""
GROWTH: Final = 6 * 1024 * 1024
"""Bytes that the memory may grow before somebody is looked for."""
LOOKS: Final = 2
"""Looks before somebody is cut off."""
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class Watched(Protocol):
    """What the guard has to know about connections. Called between any two steps of the main thread."""

    def descriptors(self) -> Iterable[int]:
        """The descriptors of all connections."""
        ...

    def heard(self) -> set[int]:
        """The descriptors of those that a message came from since this was last asked."""
        ...

    def cut(self, descriptor: int) -> None:
        """End a connection."""
        ...


class Search:
    """Looks for connections that send and never finish; pure."""

    def __init__(self) -> None:
        self._suspects: set[int] = set()
        self._looks = 0

    def look(self, growth: int, unread: set[int], heard: set[int]) -> set[int] | None:
        """One look; who is guilty, perhaps nobody; None if that is not known yet.

        Args:
            growth: bytes that the memory has grown.
            unread: descriptors with bytes that ZeroMQ has not read yet.
            heard: descriptors that a message came from since the last look.
        """
        self._suspects = (self._suspects - heard) | unread
        self._looks += 1
        if self._suspects and (self._looks < LOOKS or growth <= GROWTH + FRAME_MAX * len(self._suspects)):
            return None
        guilty, self._suspects, self._looks = self._suspects, set(), 0
        return guilty


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
        self._granted = self._resident()
        self._search = Search()

    def look(self) -> None:
        """Raises MemoryExceeded over the limit."""
        resident = self._resident()
        if resident > self._limit:
            raise MemoryExceeded(resident, self._limit)
        if resident <= self._granted + GROWTH:
            return
        unread = self._unread(self._watched.descriptors())
        guilty = self._search.look(resident - self._granted, unread, self._watched.heard())
        for descriptor in guilty or ():
            self._watched.cut(descriptor)
        if guilty is not None and not guilty:
            self._granted = resident

    def start(self) -> None:
        """Look from now on; the signal is SIGPROF. Call it on the main thread, which gets what `look` raises."""
        _limit_address_space(2 * self._limit)
        signal.signal(signal.SIGPROF, self._interrupted)
        signal.setitimer(signal.ITIMER_PROF, CPU_SLICE)

    def _interrupted(self, _number: int, _frame: FrameType | None) -> None:
        # The timer goes off once and is set anew, so that a look is never interrupted by the next one; and a look that
        # takes long, among thousands of connections, is followed by a longer rest.
        started = time.thread_time()
        self.look()
        signal.setitimer(signal.ITIMER_PROF, CPU_SLICE + 2 * (time.thread_time() - started))

    def stop(self) -> None:
        """Look no more."""
        signal.setitimer(signal.ITIMER_PROF, 0)


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
