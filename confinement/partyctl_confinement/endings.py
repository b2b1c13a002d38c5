"""What the end of a worker says about the limit it hit, as far as the kernel tells. Pure.

The kernel tells two limits by their signal. That memory ran out it never says to the parent: what is left are a
MemoryError, a counter of out-of-memory kills that went up, and a SIGKILL that nobody here sent.
"""

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from partyctl_confinement.limits import CPU_GRACE, MIB, in_words
from partyctl_confinement.mains import OUT_OF_MEMORY

MEMORY: Final = "memory"
"""The limit's name when memory ran out under no limit of the worker's own."""

_TOLD: Final = {signal.SIGXCPU: "cpu_seconds", signal.SIGXFSZ: "file_size_max"}
_WITHOUT_MEMORY: Final = (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS)
"""How programs end to whom the kernel refuses memory: execve kills, stacks fault, runtimes abort."""


@dataclass(frozen=True, slots=True)
class Ending:
    """A worker's end, as the launcher saw it.

    Attributes:
        wait_status: as `os.waitpid` gives it.
        asked: whether the launcher killed it.
        limits: what it was held to, by name.
        cpu: seconds of processor time that it and the children it waited for took.
        resident: the most memory it held, in bytes.
        oom_kills: out-of-memory kills counted while it lived; None if none could be counted.
        oom_source: who counted them.
        last_line: the last line it printed.
    """

    wait_status: int
    asked: bool = False
    limits: Mapping[str, int] = field(default_factory=dict)
    cpu: float = 0.0
    resident: int = 0
    oom_kills: int | None = 0
    oom_source: str = ""
    last_line: bytes = b""


@dataclass(frozen=True, slots=True)
class Hit:
    """The limit that was hit and what says so; both empty if nothing does."""

    limit: str = ""
    evidence: str = ""


NOTHING_HIT: Final = Hit()


def explain(end: Ending) -> Hit:
    """The limit that ended the worker."""
    if end.asked:
        return NOTHING_HIT
    code = os.waitstatus_to_exitcode(end.wait_status)
    if code >= 0:
        return _memory_error(end) if code == OUT_OF_MEMORY else NOTHING_HIT
    told = _TOLD.get(signal.Signals(-code)) if -code in _TOLD else None
    if told is not None:
        return Hit(told, f"over its limit {_of(told, end)}")
    if -code == signal.SIGKILL and end.cpu >= end.limits.get("cpu_seconds", 1 << 62) + CPU_GRACE - 1:
        return Hit("cpu_seconds", f"over its limit {_of('cpu_seconds', end)}: it took {end.cpu:.1f} s")
    return _memory_signal(end, -code) if -code in _WITHOUT_MEMORY else NOTHING_HIT


def _memory_error(end: Ending) -> Hit:
    """A main may return the same status by chance: something else must say so too."""
    if "address_space" in end.limits:
        return _possible("address_space", f"its main ended in a MemoryError under {_of('address_space', end)}", end)
    if end.last_line.startswith(b"MemoryError"):
        return _possible(MEMORY, "its main ended in a MemoryError", end)
    return NOTHING_HIT


def _memory_signal(end: Ending, number: int) -> Hit:
    if number == signal.SIGKILL and end.oom_kills:
        return _possible(MEMORY, f"{end.oom_source} counted {end.oom_kills} out-of-memory kills meanwhile", end)
    limit = end.limits.get("address_space")
    if limit is not None and (number == signal.SIGKILL or end.resident >= limit // 2):
        return _possible("address_space", f"it ran under {_of('address_space', end)}", end)
    if number == signal.SIGKILL and end.oom_kills is None:
        return _possible(MEMORY, "no counter of out-of-memory kills can be read here", end)
    return NOTHING_HIT


def _possible(limit: str, why: str, end: Ending) -> Hit:
    return Hit(limit, f"possible out of memory: {why}; it held at most {end.resident // MIB} MiB")


def _of(name: str, end: Ending) -> str:
    value = end.limits.get(name)
    return name if value is None else f"{name} = {in_words(name, value)}"
