"""How a run ended, as data, and the error that says so to its caller."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from partyctl_actors import errors
from partyctl_actors.errors import (
    AllowanceExceeded,
    Cancelled,
    ConformanceError,
    ContentError,
    DeadlineExceeded,
    JournalError,
    ModelUnavailable,
    ProtocolMismatch,
    SelectionError,
    SessionError,
)
from partyctl_actors.runs.allowance import Excess
from partyctl_actors.runs.messages import Failed
from partyctl_base.errors import PartyError


class Ending(Enum):
    """Why a run ended."""

    COMPLETE = "the protocol is complete"
    ALLOWANCE = "a limit of the allowance was reached"
    ILLEGAL = "a role said what was not on offer"
    CONTENT = "the fields of a message did not fit"
    DEADLINE = "a role did not speak in time"
    FAILED = "a role failed"
    LOST = "a role is gone"
    ABSENT = "a role never joined"
    MISMATCH = "a role follows another protocol"
    JOURNAL = "the record could not be kept or followed"
    CANCELLED = "the run was cancelled"


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a run ended.

    Attributes:
        ending: the kind of end.
        turn: the turn in which it ended, 0 before the first.
        role: who is to blame, None if nobody in particular is.
        why: the cause in words.
        excess: the limit that was reached, for ALLOWANCE.
        failure: what the role reported, for FAILED.
        unanswered: roles that did not confirm that they stopped.
    """

    ending: Ending
    turn: int
    role: str | None = None
    why: str = ""
    excess: Excess | None = None
    failure: Failed | None = None
    unanswered: tuple[str, ...] = ()


# Ending -> class, what happened ({role} is the one to blame), and what to do.
_ERRORS: dict[Ending, tuple[type[PartyError], str, str]] = {
    Ending.ILLEGAL: (SelectionError, "{role} said what was not on offer", ""),
    Ending.CONTENT: (ContentError, "{role} sent a message whose fields do not fit", ""),
    Ending.DEADLINE: (DeadlineExceeded, "{role} did not speak in time", "Give the step a longer within="),
    Ending.LOST: (SessionError, "{role} is gone", "See what became of its process, then run again"),
    Ending.ABSENT: (SessionError, "{role} did not join the run", "See whether its process started"),
    Ending.MISMATCH: (
        ProtocolMismatch,
        "{role} follows another protocol than this run",
        "Start it from the same source",
    ),
    Ending.JOURNAL: (JournalError, "The record of the run cannot be kept or followed", ""),
    Ending.CANCELLED: (Cancelled, "The run was cancelled", ""),
}
_PLAIN = (PartyError.__init__, ConformanceError.__init__, ContentError.__init__, ModelUnavailable.__init__)
# Errors that take what, where, why and fix, and so can be made again from a role's report.
_REMADE: dict[str, type[PartyError]] = {
    kind.__name__: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, PartyError) and kind.__init__ in _PLAIN
}


class RoleFailed(SessionError):
    """A role that runs in another process failed.

    Args:
        role: its name.
        error: the name of the exception's class over there.
        text: what the exception said.
    """

    whose = "peer"

    def __init__(self, role: str, error: str, text: str, *, where: str = "") -> None:
        super().__init__(f"{role} failed", where=where, why=f"{error}: {text}" if text else error)
        self.role = role
        self.error = error
        self.text = text


def error_of(verdict: Verdict, run_id: str) -> PartyError | None:
    """The error that a verdict is for the run's caller; None for a complete run."""
    place = f"run {run_id}, step {verdict.turn}" if verdict.turn else f"run {run_id}"
    error: PartyError
    if verdict.ending is Ending.COMPLETE:
        return None
    if verdict.ending is Ending.ALLOWANCE:
        assert verdict.excess is not None
        error = AllowanceExceeded(*verdict.excess, where=place)
    elif verdict.ending is Ending.FAILED:
        assert verdict.failure is not None
        error = reported(verdict.failure, verdict.role or "a role", place)
    else:
        kind, what, fix = _ERRORS[verdict.ending]
        error = kind(what.format(role=verdict.role or "The link to the roles"), where=place, why=verdict.why, fix=fix)
    if verdict.unanswered:
        error.add_note(f"did not confirm that they stopped: {', '.join(verdict.unanswered)}")
    return error


def reported(failure: Failed, role: str, place: str) -> PartyError:
    """The error that a role in another process reported: of its own class if that is one of ours, else `RoleFailed`."""
    place += f", at {failure.at}" if failure.at else ""
    remade = _REMADE.get(failure.error)
    if remade is None or not failure.what:
        return RoleFailed(role, failure.error, failure.text, where=place)
    error = remade(failure.what, where=failure.where, why=failure.why, fix=failure.fix)
    error.add_note(f"raised by {role}, {place}")
    return error
