"""The record of what was decided in a run, so that a decision is never asked for twice.

A journal keeps one record per run id. A record belongs to one run at a time; appending to it returns once the decision
would survive, and only then is the decision delivered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from partyctl_actors.errors import JournalError, ProtocolMismatch


class Decision(NamedTuple):
    """One authored message, as it is recorded.

    Attributes:
        turn: its place in the run, from 1.
        sender, receiver: the names of the roles.
        label: which message.
        payload: its packed fields.
        tokens: what authoring it cost.
    """

    turn: int
    sender: str
    receiver: str
    label: str
    payload: bytes
    tokens: int


class Record(Protocol):
    """The decisions of one run, open for one writer."""

    def append(self, decision: Decision) -> None:
        """Keep `decision`. Returns once it would survive.

        Raises:
            JournalError: it could not be kept.
        """
        ...

    def decisions(self) -> Sequence[Decision]:
        """Every decision kept so far, in order."""
        ...

    def close(self) -> None:
        """Let another run open this record."""
        ...


class Journal(Protocol):
    """Where records are kept."""

    def open(self, run_id: str, protocol_id: str) -> Record:
        """The record of `run_id`, empty if there is none yet.

        Raises:
            JournalError: another run has it open.
            ProtocolMismatch: it was made under another protocol.
        """
        ...


@dataclass(slots=True)
class _Kept:
    protocol_id: str
    decisions: list[Decision] = field(default_factory=list)
    held: bool = False


class MemoryJournal:
    """A journal that lives as long as this object."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}

    def open(self, run_id: str, protocol_id: str) -> Record:
        """See `Journal.open`."""
        kept = self._kept.setdefault(run_id, _Kept(protocol_id))
        if kept.protocol_id != protocol_id:
            raise ProtocolMismatch(
                "The record of this run was made under another protocol",
                where=f"run {run_id}",
                why=f"protocol {kept.protocol_id} then, {protocol_id} now",
                fix="Use a fresh id for a changed protocol",
            )
        if kept.held:
            raise JournalError(
                "The record of this run is being written by another run",
                where=f"run {run_id}",
                fix="Wait for that run to end, or use another id",
            )
        kept.held = True
        return _MemoryRecord(kept)


class _MemoryRecord:
    def __init__(self, kept: _Kept) -> None:
        self._kept = kept

    def append(self, decision: Decision) -> None:
        self._kept.decisions.append(decision)

    def decisions(self) -> Sequence[Decision]:
        return tuple(self._kept.decisions)

    def close(self) -> None:
        self._kept.held = False
