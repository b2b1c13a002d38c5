"""An exception as a role reports it to its conductor."""

from __future__ import annotations

from partyctl_actors.runs.messages import Failed
from partyctl_base.errors import PartyError

# A report must fit into a letter whatever the exception holds.
_LONGEST = 20_000


def report(error: BaseException, turn: int) -> Failed:
    """What a conductor in another process gets to know of `error`."""
    name = type(error).__name__
    text = _text(error)
    if not isinstance(error, PartyError):
        return Failed(turn, name, text, "", "", "", "")
    parts = (str(part)[:_LONGEST] for part in (error.what, error.where, error.why, error.fix))
    return Failed(turn, name, text, *parts)


def _text(error: BaseException) -> str:
    try:
        return str(error)[:_LONGEST]
    # The exception is somebody else's, and so is its __str__.
    except Exception:
        return "(its text cannot be read)"
