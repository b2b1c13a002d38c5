"""host.log: what a host in the background writes to its standard output and error; two files of at most 4 MiB.

It takes the host's own few lines, and whatever a library or the interpreter says that nobody foresaw. So it is a
descriptor, not a book: the file is exchanged under the descriptors when it is full. Several hosts of one name may write
to it, for a moment: the ones that are refused.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

from partyctl_base.paths import PathError, state_directory

LOG_MAX: Final = 4 * 1024 * 1024
"""Bytes."""

_OUTPUTS: Final = (1, 2)


def log_path(party: str) -> Path:
    """Where it is. Raises PathError as `state_directory` does."""
    return state_directory(party) / "host.log"


def open_log(path: Path, *, longest: int = LOG_MAX) -> int:
    """A descriptor that appends to it. A file that is too long is put aside first, in place of the one before it.

    Raises:
        PathError: the file cannot be made.
    """
    with contextlib.suppress(OSError):
        if path.stat().st_size > longest:
            path.replace(path.with_name(path.name + ".1"))
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise PathError(
            "the host's log cannot be written",
            where=str(path),
            why=error.strerror or str(error),
            fix="Make room or make it writable, or set XDG_STATE_HOME to another directory",
        ) from error


def rotate(path: Path, *, longest: int = LOG_MAX, outputs: tuple[int, ...] = _OUTPUTS) -> bool:
    """Put the log aside if this process writes to it and it is too long; whether it did.

    Args:
        path: where the log is.
        longest: bytes.
        outputs: the descriptors of this process that may be the log's.
    """
    try:
        log = path.stat()
        ours = [fd for fd in outputs if os.path.samestat(os.fstat(fd), log)]
        if not ours or log.st_size <= longest:
            return False
        fresh = open_log(path, longest=longest)
    except (OSError, PathError):
        return False  # the terminal is gone, or the disk is full: what is there goes on as it is
    for fd in ours:
        os.dup2(fresh, fd)
    os.close(fresh)
    return True
