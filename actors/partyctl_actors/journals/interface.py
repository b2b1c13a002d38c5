"""What a run asks of a journal.

A journal keeps one record per run id: what was decided, in the order in which it was. A record belongs to one run at a
time. Nothing is delivered before its record would survive, so a decision is never asked for twice.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Sequence
from typing import NamedTuple, Protocol


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

    def append(self, decision: Decision) -> Future[None] | None:
        """Keep `decision`.

        Returns:
            None if it would survive by now; else a future of the running loop, done as soon as it would. One decision
            of a run is under way at a time: the next is appended when the future is done.

        Raises:
            JournalError: it could not be kept; the future may raise it too.
        """
        ...

    def decisions(self) -> Sequence[Decision]:
        """Every decision kept so far, in order."""
        ...

    def close(self, ending: str = "") -> None:
        """Let another run open this record. Idempotent.

        Args:
            ending: how the run ended, in words; "" if that is not known.
        """
        ...


class Journal(Protocol):
    """Where records are kept."""

    def open(self, run_id: str, protocol_id: str) -> Record:
        """The record of `run_id`, empty if there is none yet.

        Raises:
            JournalError: another run has it open, or it cannot be read.
            ProtocolMismatch: it was made under another protocol.
        """
        ...
