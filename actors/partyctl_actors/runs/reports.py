"""An exception as a role reports it to its conductor."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterable
from types import FrameType

from partyctl_actors.runs.messages import Failed
from partyctl_base.errors import PartyError, text_of

# A report must fit into a letter whatever the exception holds.
_LONGEST = 20_000

_PATH_LONGEST = 1_000

_OURS = frozenset(
    ("partyctl", "partyctl_actors", "partyctl_base", "partyctl_broker", "partyctl_confinement", "partyctl_plugins")
)
_INSTALLED = tuple(f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def report(error: BaseException, turn: int) -> Failed:
    """What a conductor in another process gets to know of `error`."""
    name = type(error).__name__
    text = text_of(error)[:_LONGEST]
    if not isinstance(error, PartyError):
        return Failed(turn, name, text, "", "", "", "", line_of(error))
    what, where, why, fix = (str(part)[:_LONGEST] for part in (error.what, error.where, error.why, error.fix))
    return Failed(turn, name, text, what, where, why, fix, line_of(error))


def line_of(error: BaseException) -> str:
    """The last line of the user's own code that `error` came through, as "FILE:LINE, in NAME"; "" if through none.

    The user's own is what is neither ours, nor Python's, nor an installed package's.
    """
    return own_line(reversed(list(traceback.walk_tb(error.__traceback__))))


def own_line(frames: Iterable[tuple[FrameType, int]]) -> str:
    """The first of these lines that is the user's own code, as `line_of` says it."""
    for frame, line in frames:
        file = frame.f_code.co_filename
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in _OURS and not file.startswith(("<", *_INSTALLED)):
            return f"{file[-_PATH_LONGEST:]}:{line}, in {frame.f_code.co_name}"
    return ""
