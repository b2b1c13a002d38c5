"""Why a journal refuses, in the same words whatever it keeps its records in."""

from __future__ import annotations

from partyctl_actors.errors import JournalError, ProtocolMismatch


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
        fix="See which there are with: partyctl runs list, or in Python with the journal's runs()",
    )


def exists(run_id: str) -> JournalError:
    """There is one already."""
    return JournalError("There is a record of this run already", where=f"run {run_id}", fix="Choose another id")


def closed(run_id: str) -> JournalError:
    """A writer goes on after its end, or after a failure that left the end of the record unknown."""
    return JournalError(
        "The record of this run is not open any more", where=f"run {run_id}", fix="Open it again; what it holds counts"
    )


def unkept(place: str, error: Exception) -> JournalError:
    """A decision may or may not have been written."""
    return JournalError(
        "A decision could not be recorded",
        where=place,
        why=f"{type(error).__name__}: {error}",
        fix="Free the disk, then run again with the same id: the record says how far the run came",
    )


def damaged(place: str, why: str) -> JournalError:
    """What is there is not what was written."""
    return JournalError(
        "A record is damaged",
        where=place,
        why=why,
        fix="Restore the file, or move it away and begin the run anew",
    )


def foreign(place: str, why: str) -> JournalError:
    """A file in our place is not ours."""
    return JournalError("This file is no record of ours", where=place, why=why, fix="Keep records in another directory")
