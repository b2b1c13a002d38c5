"""Kills whole process trees: no descendant outlives the process it was started for.

A tree is stopped before it is killed. A stopped process cannot fork, so a walk over a stopped tree that finds
nobody new has found everybody. `setsid`, a double fork and an ignored SIGTERM do not matter: whoever lost its
parent hangs below the nearest subreaper, which is the worker, then the launcher, then the host.

Every signal goes through a pidfd to a process whose parent or start time was checked behind that pidfd, so a pid
that was given to somebody else meanwhile is never hit.
"""

import contextlib
import os
import signal
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from partyctl_base import process
from partyctl_base.clock import Clock, StopSignal, SystemClock
from partyctl_confinement import records

_ROUNDS: Final = 50
"""Walks over one tree before it is killed as far as it is known; a tree of processes that stop needs two or three."""

_PAUSE: Final = 0.002
"""Seconds between two looks at processes that are about to die."""


class Processes(Protocol):
    """The process table, as far as killing a tree needs it."""

    def children(self, pid: int) -> list[int]:
        """The pids whose parent is `pid` now, zombies included."""
        ...

    def signal(self, pid: int, number: int, *, parent: int | None = None, started: int | None = None) -> int | None:
        """Signal `pid` if it still has that parent and that start time (None: not checked).

        Returns:
            Its start time in ticks since boot; None if it is gone, is somebody else now, or may not be signalled.
        """
        ...


class LinuxProcesses:
    """The kernel's own table."""

    def children(self, pid: int) -> list[int]:
        return process.children(pid)

    def signal(self, pid: int, number: int, *, parent: int | None = None, started: int | None = None) -> int | None:
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            return None
        try:
            found = parent_and_start(pid)
            if found is None or parent not in (None, found[0]) or started not in (None, found[1]):
                return None
            signal.pidfd_send_signal(pidfd, number)
        except OSError:
            return None
        finally:
            os.close(pidfd)
        return found[1]


LINUX: Final = LinuxProcesses()


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep did: the pids it killed, and those that were still there when its time was up."""

    killed: tuple[int, ...]
    left: tuple[int, ...]


def kill_tree(
    pid: int,
    *,
    parent: int | None = None,
    started: int | None = None,
    processes: Processes = LINUX,
    hurry: Callable[[], bool] = lambda: False,
) -> tuple[int, ...]:
    """Stop `pid` and all its descendants, then kill them. Does not wait for their deaths.

    Args:
        pid: the root of the tree.
        parent: the parent the root must have; None: not checked.
        started: the start time the root must have, in ticks since boot; None: not checked.
        processes: the process table.
        hurry: once it is true, only those are killed who are stopped by then. A tree that forks as fast as it is
            stopped would hold up the caller; the rest of it becomes the nearest subreaper's, for a later call.

    Returns:
        The pids that were killed, the root first; empty if the root is gone or is somebody else now.
    """
    root = processes.signal(pid, signal.SIGSTOP, parent=parent, started=started)
    if root is None:
        return ()
    stopped = {pid: root}
    for _ in range(_ROUNDS):
        if not _stop_descendants(pid, stopped, processes, hurry):
            break
    for member, member_started in stopped.items():
        processes.signal(member, signal.SIGKILL, started=member_started)
    return tuple(stopped)


def _stop_descendants(root: int, stopped: dict[int, int], processes: Processes, hurry: Callable[[], bool]) -> bool:
    """One walk; whether it met anybody who had not been stopped before, so that another is worth while."""
    met = False
    waiting = [root]
    seen: set[int] = set()
    while waiting:
        if hurry():
            return False
        parent = waiting.pop()
        seen.add(parent)
        for child in processes.children(parent):
            if child in seen:
                continue
            if child not in stopped:
                met = True
                started = processes.signal(child, signal.SIGSTOP, parent=parent)
                if started is None:  # gone, or it has another parent now and the next walk meets it there
                    continue
                stopped[child] = started
            waiting.append(child)
    return met


def sweep(
    pid: int,
    *,
    started: int | None = None,
    timeout: float = 3.0,
    processes: Processes = LINUX,
    clock: Clock | None = None,
) -> Swept:
    """Kill the tree of `pid` and wait until none of it runs. Reaps those that are children of the calling process.

    Args:
        pid: the root of the tree.
        started: the start time the root must have, in ticks since boot; None: not checked.
        timeout: seconds after which it gives up.
        processes: the process table.
        clock: where time comes from; None: the machine's clock.
    """
    clock = clock or SystemClock()
    deadline = clock.monotonic() + timeout
    killed = kill_tree(pid, started=started, processes=processes)
    left = killed
    while left:
        for member in left:
            reap(member)
        left = tuple(member for member in left if process.is_alive(member))
        if left and clock.monotonic() >= deadline:
            break
        if left:
            clock.wait(_PAUSE, StopSignal())
    return Swept(killed, left)


def sweep_children(
    known: Collection[int], *, timeout: float = 3.0, processes: Processes = LINUX, clock: Clock | None = None
) -> Swept:
    """Kill and reap every child of the calling process that is not known, with its whole tree, until there is none.

    For a child subreaper whose child died: what the dead one left behind is the caller's now. It must be called
    where no other thread starts a child meanwhile, for a child that is not yet known is killed.

    Args:
        known: the pids of the children to leave alone, asked anew in each round.
        timeout: seconds after which it gives up.
        processes: the process table.
        clock: where time comes from; None: the machine's clock.
    """
    clock = clock or SystemClock()
    deadline = clock.monotonic() + timeout
    me = os.getpid()
    killed: dict[int, None] = {}
    clean = 0
    while True:
        strangers = [child for child in processes.children(me) if child not in known]
        # The kernel may skip a child in its list while another one exits, so one empty list proves nothing.
        clean = 0 if strangers else clean + 1
        if clean == 2 or (strangers and clock.monotonic() >= deadline):
            return Swept(tuple(killed), tuple(strangers))
        for stranger in strangers:
            members = kill_tree(stranger, parent=me, processes=processes, hurry=lambda: clock.monotonic() >= deadline)
            killed.update(dict.fromkeys(members))
        reaped = [stranger for stranger in strangers if reap(stranger)]
        if strangers and not reaped:
            clock.wait(_PAUSE, StopSignal())


def reap(pid: int) -> bool:
    """Take the exit status of `pid` if it is a dead child of the calling process; whether it was."""
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    return False


@dataclass(frozen=True, slots=True)
class Reaped:
    """What became of a directory of spawn records.

    Attributes:
        killed: the pids that were killed, descendants included.
        left: those of them that still ran when the time was up; their records stay.
        stale: the pids whose process had ended, or whose pid is somebody else's now.
        foreign: the names of files that are no spawn records; they stay.
    """

    killed: tuple[int, ...]
    left: tuple[int, ...]
    stale: tuple[int, ...]
    foreign: tuple[str, ...]


def reap_records(directory: Path, *, timeout: float = 3.0) -> Reaped:
    """Kill what an earlier party left running, by its spawn records, and remove the records.

    A recorded process is touched only if it is still the same: same pid, same start time, same boot.

    Args:
        directory: where the launcher keeps its records; it need not exist.
        timeout: seconds per record to wait for the death of its tree.
    """
    found, foreign = records.read_all(directory)
    boot = process.boot_id()
    killed: list[int] = []
    left: list[int] = []
    stale: list[int] = []
    for record in found:
        # A zombie that nobody reaped is the same process and gets its kill, for its threads may outlive its first one.
        same = record.boot == boot and process.start_time(record.pid) == record.started
        alive = same and record.is_alive()
        swept = sweep(record.pid, started=record.started, timeout=timeout) if same else Swept((), ())
        if alive:
            killed.extend(swept.killed)
        else:
            stale.append(record.pid)
        left.extend(swept.left)
        if not swept.left:
            records.remove(directory, record.pid)
    return Reaped(tuple(killed), tuple(left), tuple(stale), foreign)


def parent_and_start(pid: int) -> tuple[int, int] | None:
    """The parent of `pid` and when it started, in clock ticks since boot; None if there is no such process."""
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        return None
    try:
        text = os.read(descriptor, 1024)
    finally:
        os.close(descriptor)
    fields = text[text.rindex(b")") + 2 :].split()
    return int(fields[1]), int(fields[19])
