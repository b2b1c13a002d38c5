"""Spawn records: one small file per living worker, so that a party that was killed whole is reaped at its next start.

A record is one line: a mark, the pid, the start time in ticks since boot, the boot's id. It is written before the
worker's main begins, whole by a rename, and without fsync: see docs/decisions/0009.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

from partyctl_base.process import ProcessIdentity

_MARK: Final = "partyctl-spawn-1"
_SUFFIX: Final = ".spawn"
_LONGEST: Final = 256


def encode(record: ProcessIdentity) -> str:
    """The record as text."""
    return f"{_MARK} {record.pid} {record.started} {record.boot}\n"


def decode(text: str) -> ProcessIdentity | None:
    """The record in `text`; None if it is torn or something else."""
    words = text.split(" ")
    if len(words) != 4 or words[0] != _MARK or not text.endswith("\n"):
        return None
    if not all(word.isascii() and word.isdigit() for word in words[1:3]) or not int(words[1]) > 1:
        return None
    return ProcessIdentity(int(words[1]), int(words[2]), words[3].strip())


def write(directory: Path, record: ProcessIdentity) -> None:
    """Put the record into `directory`, whole or not at all. Raises OSError if that cannot be done."""
    # No `Path` arithmetic: this is between a worker's fork and its main, and took half as long again with it.
    draft = f"{directory}/.{record.pid}{_SUFFIX}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, encode(record).encode("ascii"))
    finally:
        os.close(descriptor)
    os.rename(draft, f"{directory}/{record.pid}{_SUFFIX}")


def remove(directory: Path, pid: int) -> None:
    """Take the record of `pid` away, if there is one. One that cannot be removed is stale, and found to be so later."""
    with contextlib.suppress(OSError):
        os.unlink(f"{directory}/{pid}{_SUFFIX}")


def read_all(directory: Path) -> tuple[list[ProcessIdentity], tuple[str, ...]]:
    """The records in `directory`, and the names of files that claim to be records and are none."""
    found: list[ProcessIdentity] = []
    foreign: list[str] = []
    for path in sorted(directory.glob(f"*{_SUFFIX}")):
        if path.name.startswith("."):
            path.unlink(missing_ok=True)  # the draft of a launcher that was killed in between
            continue
        text = _read(path)
        if text is not None and not text.strip("\0"):
            path.unlink(missing_ok=True)  # what a power cut leaves of a file; no process survived that
            continue
        record = decode(text or "")
        if record is None or path.name != f"{record.pid}{_SUFFIX}":
            foreign.append(path.name)
        else:
            found.append(record)
    return found, tuple(foreign)


def _read(path: Path) -> str | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(descriptor, _LONGEST).decode("ascii", "replace")
    except OSError:
        return None
    finally:
        os.close(descriptor)
