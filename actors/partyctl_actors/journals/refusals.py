"""Why a journal refuses, in the same words whatever it keeps its records in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from partyctl_actors.errors import JournalError, ProtocolMismatch
from partyctl_actors.journals.causes import Cause, cause_of, words


def check_protocol(run_id: str, recorded: str, protocol_id: str) -> None:
    """See that a record belongs to the protocol at hand.

    Raises:
        ProtocolMismatch: it does not.
    """
    if recorded != protocol_id:
        raise ProtocolMismatch(
            "The record of this run was made under another protocol",
            where=f"run {run_id}",
            why=f"protocol {recorded} then, {protocol_id} now",
            fix="Use a fresh id for a changed protocol",
        )


def held(run_id: str) -> JournalError:
    """Somebody writes the record already."""
    return JournalError(
        "The record of this run is being written by another run",
        where=f"run {run_id}",
        fix="Wait for that run to end, or use another id",
    )


def taken_over(run_id: str) -> JournalError:
    """Somebody else owns the record by now."""
    return JournalError(
        "The record of this run was taken over by another owner",
        where=f"run {run_id}",
        why="its epoch is a later one than ours; nothing was written and nothing delivered",
        fix="Let the new owner finish the run",
    )


def unknown(run_id: str, place: str) -> JournalError:
    """There is no such record."""
    return JournalError(
        "There is no record of this run",
        where=f"run {run_id}, {place}",
        fix="See which there are, with `partyctl runs list`, or with runs() of the journal",
    )


def misnamed(run_id: str) -> JournalError:
    """No run can have this id."""
    return JournalError(
        "This cannot be the id of a run", where=ascii(run_id), why="it is no text", fix="Give an id that is valid UTF-8"
    )


def exists(run_id: str) -> JournalError:
    """There is one already."""
    return JournalError("There is a record of this run already", where=f"run {run_id}", fix="Choose another id")


def closed(run_id: str) -> JournalError:
    """A writer goes on after its end, or after a failure that left the end of the record unknown."""
    return JournalError(
        "The record of this run is not open any more", where=f"run {run_id}", fix="Open it again; what it holds counts"
    )


def unkept(place: str, error: Exception, file: Path | None = None) -> JournalError:
    """A decision may or may not have been written to `file`."""
    cause = cause_of(error, file or Path(place))
    return JournalError(
        "A decision could not be recorded",
        where=place,
        why=_why(cause, error),
        fix=f"{cause.fix}, then run again with the same id: the record says how far the run came",
    )


def unkept_turn(place: str, error: Exception, file: Path) -> JournalError:
    """What an agent session is about to do, or has done, may or may not have been written to `file`."""
    cause = cause_of(error, file)
    return JournalError(
        "What an agent session does could not be recorded",
        where=place,
        why=_why(cause, error),
        fix=f"{cause.fix}, then ask again: the session's log says how far it came",
    )


def unusable(place: str, error: Exception, file: Path | None = None) -> JournalError:
    """Records can be neither read nor written there now, and nothing is known against them."""
    cause = cause_of(error, file or Path(place))
    return JournalError("Records cannot be used now", where=place, why=_why(cause, error), fix=cause.fix)


def undeleted(place: str, error: Exception, file: Path) -> JournalError:
    """A record is still there."""
    cause = cause_of(error, file)
    return JournalError("A record could not be deleted", where=place, why=_why(cause, error), fix=cause.fix)


def unread(place: str, error: Exception, file: Path | None = None) -> JournalError:
    """A record could not be read: the machine's doing, or it is damaged."""
    if cause_of(error, file or Path(place)).is_machine:
        return unusable(place, error, file)
    return damaged(place, words(error))


def damaged(
    place: str, why: str, fix: str = "Restore the file, or move it away and begin the run anew"
) -> JournalError:
    """What is there is not what was written."""
    return JournalError("A record is damaged", where=place, why=why, fix=fix)


def lost(file: Path, why: str, beside: Sequence[Path]) -> JournalError:
    """A database holds less than what was acknowledged, as the files beside it tell."""
    return damaged(
        str(file),
        why,
        f"Restore the file from a copy; or, while nothing uses it, remove {' and '.join(each.name for each in beside)} "
        "to go on with what is left: what is lost is asked for again",
    )


def gone(file: Path) -> JournalError:
    """A database was taken away from whoever has it open."""
    return JournalError(
        "Nothing can be recorded, because the file was removed or replaced while it was in use",
        where=str(file),
        fix="Bring the file back, or begin anew; whatever has it open, a party for example, is to be started again",
    )


def foreign(place: str, why: str) -> JournalError:
    """A file in our place is not ours."""
    return JournalError("This file is no record of ours", where=place, why=why, fix="Keep records in another directory")


def other_version(place: str, found: int, ours: int) -> JournalError:
    """A file is ours, of a version that is not read here."""
    return JournalError(
        "This file is of another version of partyctl",
        where=place,
        why=f"its version is {found}, and this partyctl reads {ours}",
        fix="Use the partyctl that wrote it, or move its directory away and begin anew",
    )


def unmade(directory: Path, error: Exception, fix: str) -> JournalError:
    """There is no directory for records."""
    why = _why(cause_of(error, directory), error)
    return JournalError("A journal's directory cannot be made", where=str(directory), why=why, fix=fix)


def shared(directory: Path, why: str, fix: str) -> JournalError:
    """Others could change records."""
    return JournalError("A journal's directory is open to others", where=str(directory), why=why, fix=fix)


def open_to_others(file: Path, mode: int) -> JournalError:
    """Others could read what somebody asked an agent, and what it answered."""
    return JournalError(
        "A file of records is open to others",
        where=str(file),
        why=f"its mode is {mode:o}, and it is for its owner alone",
        fix=f"See who has read or changed it, then close it, with chmod 600 {file}",
    )


def _why(cause: Cause, error: Exception) -> str:
    said = words(error)
    return f"{cause.why} ({said})" if cause.why and cause.why not in said.lower() else said
