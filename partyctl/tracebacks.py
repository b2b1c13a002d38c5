"""The whole traceback of a run that `partyctl run` conducted itself and that failed in code of the user's own.

One file per run in the party's state directory, with secrets masked, until the run goes on or is deleted; a node's are
lines of the party's logs. Nothing here raises: what went wrong with the run is what is to be told.
"""

import contextlib
import hashlib
import os
import traceback
from pathlib import Path
from typing import Final

from partyctl.masking import masked
from partyctl_base.errors import PartyError
from partyctl_base.paths import state_directory

LONGEST: Final = 256 * 1024
"""Characters kept of one; its end says most."""

KEPT: Final = 200
"""Files kept at most, the newest: a run with a journal of its own is deleted where nobody knows of these."""


def keep(party: str, run: str, error: BaseException) -> Path | None:
    """Keep the traceback of `error`, which ended the run; None if it cannot be kept."""
    text = masked("".join(traceback.format_exception(error)))[-LONGEST:]
    with contextlib.suppress(OSError, PartyError):
        path = _path(party, run)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        for old in sorted(path.parent.iterdir(), key=lambda each: each.stat().st_mtime)[:-KEPT]:
            old.unlink(missing_ok=True)
        return path
    return None


def kept(party: str, run: str) -> str:
    """The traceback with which the run ended; "" if none was kept."""
    with contextlib.suppress(OSError, PartyError):
        return _path(party, run).read_text(encoding="utf-8", errors="replace")
    return ""


def forget(party: str, run: str) -> None:
    """The run goes on, or is deleted."""
    with contextlib.suppress(OSError, PartyError):
        _path(party, run).unlink(missing_ok=True)


def _path(party: str, run: str) -> Path:
    # The id of a run may be longer than the name of a file can be.
    name = hashlib.sha256(run.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return state_directory(party) / "tracebacks" / f"{name}.txt"
