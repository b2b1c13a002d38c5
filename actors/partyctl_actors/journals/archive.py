"""A journal whose records can be listed, read and forked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from partyctl_actors.errors import JournalError
from partyctl_actors.journals.interface import Decision, Record
from partyctl_base.ids import RandomIds

NOTHING: Mapping[str, str] = MappingProxyType({})


class Kept(NamedTuple):
    """What is known of one recorded run.

    Attributes:
        run: its id.
        protocol: the id of its protocol.
        decisions: how many are recorded.
        changed: when the newest was, in seconds since 1970.
        ending: how the run ended, "complete" if to its end, "" if it has not.
        about: what its maker wrote beside it, such as the file it came from.
    """

    run: str
    protocol: str
    decisions: int
    changed: float
    ending: str
    about: Mapping[str, str] = NOTHING


class Archive(ABC):
    """A journal that knows its records."""

    @abstractmethod
    def open(self, run_id: str, protocol_id: str, *, about: Mapping[str, str] = NOTHING) -> Record:
        """See `Journal.open`; `about` is kept beside a record that is new, and then the record survives from now on."""

    def new_id(self) -> str:
        """An id for a new run."""
        return RandomIds().new_id("run")

    @abstractmethod
    def survey(self) -> tuple[Sequence[Kept], Sequence[JournalError]]:
        """Every record that can be read, the one that changed last first, and why others cannot."""

    def runs(self) -> Sequence[Kept]:
        """Every record, the one that changed last first.

        Raises:
            JournalError: one cannot be read; `survey` has the others.
        """
        kept, unread = self.survey()
        if unread:
            raise unread[0]
        return kept

    @abstractmethod
    def read(self, run_id: str) -> tuple[Kept, Sequence[Decision]]:
        """One record, without opening it; it may be growing.

        Raises:
            JournalError: there is none, or it cannot be read.
        """

    @abstractmethod
    def create(
        self, run_id: str, protocol_id: str, decisions: Sequence[Decision], about: Mapping[str, str] = NOTHING
    ) -> None:
        """Make a record that holds `decisions`, all or nothing.

        Raises:
            JournalError: there is one of this id already, or it cannot be written.
        """

    @abstractmethod
    def delete(self, run_id: str, before: Callable[[], object] = lambda: None) -> None:
        """Delete a record, damaged or not. The id may be used again.

        Args:
            run_id: whose.
            before: called when nobody can open the record any more, and it is still there: deletes what belongs to it.
                What it raises keeps the record.

        Raises:
            JournalError: there is none, a run has it open, or it cannot be deleted.
        """

    def fork(self, run_id: str, new_id: str, *, upto: int) -> None:
        """Copy the first `upto` decisions of a record into a new one: a run of that id goes on from there.

        Raises:
            JournalError: there is no such record, it holds fewer decisions, or `new_id` is taken.
            ValueError: `upto` is negative.
        """
        kept, decisions = self.read(run_id)
        if upto < 0:
            raise ValueError(f"fork(upto=...) is a number of decisions, not {upto}")
        if upto > len(decisions):
            raise JournalError(
                f"There is no decision {upto} to fork at",
                where=f"run {run_id}",
                why=f"its record holds {len(decisions)}",
                fix=f"Give a number from 0 to {len(decisions)}",
            )
        self.create(new_id, kept.protocol, decisions[:upto], {**kept.about, "forked": f"{run_id} at {upto}"})
