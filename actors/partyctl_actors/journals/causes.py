"""Why a disk did not do what it was asked, and what a person can do about it: from the error alone, or, where SQLite
only says that a file "cannot be opened", by looking at the file and its directory.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from errno import EACCES, EDQUOT, EMFILE, ENFILE, ENOSPC, EPERM, EROFS
from pathlib import Path
from typing import NamedTuple


class Cause(NamedTuple):
    """What kept a file from being used.

    Attributes:
        why: in words; "" if the error's own are all there is.
        fix: what a person can do.
        is_machine: whether it is the machine's doing: nothing is known against the file itself.
    """

    why: str
    fix: str
    is_machine: bool = True


FULL = Cause("the disk is full", "Free the disk")
READ_ONLY = Cause("the disk is read-only", "Make it writable, or copy the directory to a disk that is")
DENIED = Cause("permission denied", "Give yourself the right to read and write the file and its directory")
BUSY = Cause("another process has the file to itself", "Wait for it, or end it if it is stopped")
CROWDED = Cause("too many files are open", "Raise the limit of open files (ulimit -n)")
FAILING = Cause("", "See to the disk")
UNKNOWN = Cause("", "See to the disk", is_machine=False)

_ERRNO: Mapping[int | None, Cause] = {
    ENOSPC: FULL,
    EDQUOT: FULL,
    EROFS: READ_ONLY,
    EACCES: DENIED,
    EPERM: DENIED,
    EMFILE: CROWDED,
    ENFILE: CROWDED,
}
_SQLITE: Mapping[int, Cause] = {
    3: DENIED,
    5: BUSY,
    6: BUSY,
    7: FAILING,  # no memory
    8: READ_ONLY,
    10: FAILING,  # an error of the disk
    13: FULL,
    14: FAILING,  # cannot open
    15: BUSY,
    23: DENIED,
}
"""By the primary result code (sqlite.org/rescode.html)."""


def cause_of(error: Exception, file: Path) -> Cause:
    """What an error of the operating system or of SQLite on `file` comes from."""
    if isinstance(error, TimeoutError):
        return BUSY
    if isinstance(error, OSError):
        return _ERRNO.get(error.errno, FAILING)
    code = _sqlite_code(error)
    found = _SQLITE.get(code, UNKNOWN)
    if found in (READ_ONLY, FAILING, DENIED):
        # SQLite says "read-only" of a file without write permission, and "cannot open" of nearly everything.
        return _looked_at(file) or found
    return found


def words(error: Exception) -> str:
    """What an error says, as a part of a sentence."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__}: {error}"


def _sqlite_code(error: Exception) -> int:
    """The primary result code that an error of `sqlite3` or of `apsw` carries; 0 if it carries none."""
    for name in ("sqlite_errorcode", "result"):
        code = getattr(error, name, None)
        if isinstance(code, int):
            return code & 0xFF
    return 0


def _looked_at(file: Path) -> Cause | None:
    directory = file.parent
    try:
        disk = os.statvfs(directory)
        is_denied = not os.access(directory, os.W_OK | os.X_OK) or (
            os.path.lexists(file) and not os.access(file, os.R_OK | os.W_OK)
        )
    except OSError as error:
        return _ERRNO.get(error.errno)
    if disk.f_flag & os.ST_RDONLY:
        return READ_ONLY
    if is_denied:
        return DENIED
    return FULL if not disk.f_bavail else None
