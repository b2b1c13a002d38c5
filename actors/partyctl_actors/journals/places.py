"""Where records are: made for their owner alone, and refused where others could change, or read, what is there."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from partyctl_actors.errors import JournalError
from partyctl_actors.journals import refusals


def directory_of(path: str | os.PathLike[str], journal: str, *, make: bool = True) -> Path:
    """The directory at `path`, made if missing, 0700.

    One that is there is left as it is: it may be anybody's, such as /tmp, so nothing is tightened.

    Args:
        path: where; "" is refused, because it would be wherever the process happens to be.
        journal: the name of what keeps records there, for the refusal.
        make: whether it is made; without, a missing one holds no records.

    Raises:
        JournalError: it cannot be made, is a file, or others can write in it.
    """
    if not os.fspath(path):
        raise JournalError("A journal needs a directory", why='"" is none', fix='Name one; "." is the current one')
    directory = Path(path)
    try:
        if make:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        elif not directory.exists():
            return directory
        status = directory.stat()
    except (OSError, ValueError) as error:
        raise refusals.unmade(directory, error, f"Give {journal} a directory that it can make or write in") from error
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o022:
        raise refusals.shared(
            directory,
            f"its mode is {mode:o}, so others can write in it",
            f"Close it, with chmod go-w {directory}, or give {journal} another directory",
        )
    return directory


def check_private(file: Path) -> None:
    """See that nobody else can read a file or write in it; one that is missing is nobody's.

    Raises:
        JournalError: others can, for neither the file nor its directory keeps them out.
        OSError: it cannot be looked at.
    """
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
    except FileNotFoundError:
        return
    if mode & 0o066 and stat.S_IMODE(file.parent.stat().st_mode) & 0o011:
        raise refusals.open_to_others(file, mode)
