"""The broker's memory: watched while it works, and not at all while it sleeps.

ZeroMQ gathers a message of many frames before anybody sees it, without a bound (measured: 17 to 591 MiB in 1.1 s). So
the process is interrupted whenever it has used some CPU (ITIMER_PROF counts all threads, also ZeroMQ's), and looks at
its resident memory then. An idle broker is never interrupted. Behind that stands a limit of the address space, which
makes the next allocation fail: the last line, for what grows faster than it is looked at.
"""

import os
import resource
import signal
from typing import Final

from partyctl_broker.errors import MemoryExceeded

CPU_SLICE: Final = 0.01
"""Seconds of CPU between two looks. At the fastest growth measured that is 6 MiB."""
MEMORY_MAX: Final = 512 * 1024 * 1024
"""Bytes of resident memory that a broker may have unless told otherwise."""
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class Guard:
    """Looks at the memory of this process.

    Args:
        limit: bytes of resident memory that it may have.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        self.peak = 0
        """The most that was seen, in bytes."""

    def resident(self) -> int:
        """Bytes of resident memory."""
        return int(os.pread(self._statm, 128, 0).split()[1]) * _PAGE

    def look(self) -> None:
        """Raises MemoryExceeded over the limit."""
        resident = self.resident()
        self.peak = max(self.peak, resident)
        if resident > self._limit:
            raise MemoryExceeded(resident, self._limit)

    def start(self) -> None:
        """Look from now on; the signal is SIGPROF. Call it on the main thread, which gets what `look` raises."""
        _limit_address_space(2 * self._limit)
        signal.signal(signal.SIGPROF, lambda _number, _frame: self.look())
        signal.setitimer(signal.ITIMER_PROF, CPU_SLICE, CPU_SLICE)

    def stop(self) -> None:
        """Look no more."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        os.close(self._statm)


def _limit_address_space(room: int) -> None:
    """What is mapped now (libraries, stacks) and `room` bytes more."""
    with open("/proc/self/statm") as file:
        mapped = int(file.read().split()[0]) * _PAGE
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = mapped + room
    resource.setrlimit(resource.RLIMIT_AS, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
