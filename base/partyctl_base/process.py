"""What Linux says about processes, and the few process attributes Python has no call for.

A pid alone names nobody for long; a pid with its start time and the boot's id does.
"""

import ctypes
import os
import signal
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38

_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}, {value}): {os.strerror(number)}")


def set_child_subreaper() -> None:
    """Orphans among the descendants of the calling process become its children, not those of init."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_parent_death_signal(number: signal.Signals, parent: int) -> None:
    """Have the kernel send `number` to this process when the thread that made it ends.

    Raises:
        ProcessLookupError: `parent` had already died before the signal was armed.
    """
    _prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        raise ProcessLookupError(f"the parent {parent} is gone")


def set_no_new_privileges() -> None:
    """No program this process or its descendants execute can gain privileges (setuid, file capabilities)."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def boot_id() -> str:
    """The id of this boot of the kernel."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _stat_fields(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command name may hold spaces and brackets; the fields after its last bracket do not.
    return text[text.rindex(")") + 2 :].split()


def start_time(pid: int) -> int | None:
    """When `pid` started, in clock ticks since boot; None if there is no such process."""
    fields = _stat_fields(pid)
    return int(fields[19]) if fields else None


def is_alive(pid: int) -> bool:
    """Whether `pid` exists and is not a zombie."""
    fields = _stat_fields(pid)
    return fields is not None and fields[0] not in "ZX"


def children(pid: int) -> list[int]:
    """The pids whose parent is `pid` now, zombies included."""
    found: list[int] = []
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return found
    for task in tasks:
        try:
            listed = Path(f"/proc/{pid}/task/{task}/children").read_text(encoding="ascii")
        except (FileNotFoundError, ProcessLookupError):
            continue
        found.extend(int(word) for word in listed.split())
    return found


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process for all time: its pid, its start time in ticks since boot, and the boot."""

    pid: int
    started: int
    boot: str

    @staticmethod
    def of(pid: int) -> "ProcessIdentity | None":
        """The identity of `pid` now; None if there is no such process."""
        started = start_time(pid)
        return None if started is None else ProcessIdentity(pid, started, boot_id())

    def is_alive(self) -> bool:
        """Whether this very process still runs (a zombie does not)."""
        return self.boot == boot_id() and start_time(self.pid) == self.started and is_alive(self.pid)
