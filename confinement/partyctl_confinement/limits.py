"""The limits a worker runs under: their names, what may be asked for, and how they are set. Pure but for `apply`.

A limit that cannot be enforced is a refusal that names it, never a warning. A worker cannot raise a limit again: the
soft and the hard one are the same, but for cpu_seconds, whose soft one tells by SIGXCPU and whose hard one kills.
"""

import os
import resource
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

MIB: Final = 1024 * 1024

CPU_GRACE: Final = 2
"""Seconds of processor time from SIGXCPU to SIGKILL, for a worker that ignores the first."""

_ROOM: Final = 2 * MIB
"""Bytes of address space a worker needs on top of what its launcher has, to come to its main."""

_OVERRIDES: Final = 1 << 21 | 1 << 24
"""CAP_SYS_ADMIN and CAP_SYS_RESOURCE: who has one is not held by nproc (`copy_process` in the kernel)."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One limit: the kernel's number for it, its unit, and the least that a worker can start with."""

    number: int
    unit: str
    least: int


KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "nofile": Kind(resource.RLIMIT_NOFILE, "open files", 16),
        "file_size_max": Kind(resource.RLIMIT_FSIZE, "bytes", 0),
        "core": Kind(resource.RLIMIT_CORE, "bytes", 0),
        "cpu_seconds": Kind(resource.RLIMIT_CPU, "seconds", 1),
        "address_space": Kind(resource.RLIMIT_AS, "bytes", 16 * MIB),
        "nproc": Kind(resource.RLIMIT_NPROC, "processes of its user", 1),
    }
)
"""Every limit by its name."""

DEFAULTS: Final[Mapping[str, int]] = MappingProxyType({"core": 0})
"""What a worker is held to unless its request says otherwise: a core file holds whatever it knew."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What the launcher can enforce on its children.

    Attributes:
        hard: its own hard limits by name; -1: none.
        holds_nproc: whether the kernel enforces nproc on its user.
        address_space: bytes of address space that the launcher itself has, and so each fork of it.
    """

    hard: Mapping[str, int]
    holds_nproc: bool
    address_space: int

    @staticmethod
    def of_this_process() -> "Machine":
        """What holds for the children of the calling process now."""
        status = _status()
        hard = {name: resource.getrlimit(kind.number)[1] for name, kind in KINDS.items()}
        holds = os.getuid() != 0 and not int(status["CapEff"], 16) & _OVERRIDES
        return Machine(hard, holds, int(status["VmSize"].split()[0]) * 1024)


def fault(limits: Mapping[str, int]) -> str:
    """Why no machine could enforce `limits`; empty if one could."""
    for name, value in limits.items():
        kind = KINDS.get(name)
        if kind is None:
            import difflib  # only for a mistake: every worker would carry it

            near = difflib.get_close_matches(name, KINDS, 1)
            meant = f"; {near[0]} is the nearest" if near else ""
            return f"there is no limit {name!r}{meant}; the limits are {', '.join(KINDS)}"
        if type(value) is not int or not kind.least <= value < 1 << 62:
            return f"the limit {name} is no number of {kind.unit} from {kind.least} on"
    return ""


def impossible(limits: Mapping[str, int], machine: Machine, *, fork: bool) -> str:
    """Why this machine cannot enforce `limits`; empty if it can.

    Args:
        limits: by name; `fault` found nothing.
        machine: what the launcher can enforce.
        fork: whether the worker starts as a copy of the launcher.
    """
    for name, value in limits.items():
        hard = machine.hard.get(name, -1)
        if hard != -1 and (value + CPU_GRACE if name == "cpu_seconds" else value) > hard:
            return f"the limit {name} = {value} is over the machine's own, {hard} {KINDS[name].unit}"
    if "nproc" in limits and not machine.holds_nproc:
        return "the limit nproc is not enforced here: the kernel exempts root and its capabilities; run as a user"
    least = machine.address_space + _ROOM
    if fork and limits.get("address_space", least) < least:
        return (
            f"the limit address_space = {in_words('address_space', limits['address_space'])} is less than the "
            f"{least // MIB} MiB a forked worker starts with; ask for more, or for mode exec"
        )
    return ""


def effective(limits: Mapping[str, int]) -> dict[str, int]:
    """The limits of a request with the defaults beneath."""
    return {**DEFAULTS, **limits}


def in_words(name: str, value: int) -> str:
    """A limit's value with its unit, for people."""
    unit = KINDS[name].unit
    return f"{value // MIB} MiB" if unit == "bytes" and value >= MIB and value % MIB == 0 else f"{value} {unit}"


def apply(limits: Iterable[tuple[str, int]]) -> None:
    """Hold the calling process, and whatever it starts, to the limits. Raises OSError or ValueError if one fails."""
    for name, value in limits:
        grace = CPU_GRACE if name == "cpu_seconds" else 0
        resource.setrlimit(KINDS[name].number, (value, value + grace))


def _status() -> dict[str, str]:
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
