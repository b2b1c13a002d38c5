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
_NEEDED = frozenset(("click", "msgpack", "pluggy", "psutil", "pydantic", "pydantic_core", "rich", "zmq"))
"""The packages that we call ourselves."""

_PACKAGES = (*(f"{sysconfig.get_path(name)}/" for name in ("purelib", "platlib")), "/site-packages/", "/dist-packages/")
_PYTHON = tuple(f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib", "scripts"))


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

    The user's own is what is neither ours, nor Python's, nor an installed package's. If there is none, it is the
    installed package that we called: a participant may come from one.
    """
    return own_line(reversed(list(traceback.walk_tb(error.__traceback__))))


def own_line(frames: Iterable[tuple[FrameType, int]]) -> str:
    """The first of these lines, innermost first, that is the user's own code, as `line_of` says it."""
    called: list[tuple[str, str]] = []
    for frame, line in frames:
        file, names = frame.f_code.co_filename, frame.f_globals
        package = str(names.get("__package__") or names.get("__name__", "")).partition(".")[0]
        is_installed = any(mark in file for mark in _PACKAGES)
        if package in _OURS | _NEEDED or file.startswith("<") or (file.startswith(_PYTHON) and not is_installed):
            continue
        at = f"{file[-_PATH_LONGEST:]}:{line}, in {frame.f_code.co_name}"
        if not is_installed:
            return at
        called.append((package, at))
    return next((at for package, at in called if package == called[-1][0]), "")
