"""A journal that lives as long as the object."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from partyctl_actors.errors import JournalError
from partyctl_actors.journals import refusals
from partyctl_actors.journals.archive import NOTHING, Archive, Kept
from partyctl_actors.journals.interface import Decision, Record


@dataclass(slots=True)
class _Held:
    protocol_id: str
    about: Mapping[str, str]
    decisions: list[Decision] = field(default_factory=list)
    changed: float = 0.0
    ending: str = ""
    is_open: bool = False


class MemoryJournal(Archive):
    """A journal that lives as long as this object."""

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}

    def open(self, run_id: str, protocol_id: str, *, about: Mapping[str, str] = NOTHING) -> Record:
        """See `Archive.open`."""
        held = self._held.setdefault(run_id, _Held(protocol_id, about))
        refusals.check_protocol(run_id, held.protocol_id, protocol_id)
        if held.is_open:
            raise refusals.held(run_id)
        held.is_open = True
        held.ending = ""
        return _MemoryRecord(run_id, held)

    def survey(self) -> tuple[Sequence[Kept], Sequence[JournalError]]:
        """See `Archive.survey`."""
        return sorted((self._kept(run_id) for run_id in self._held), key=lambda kept: -kept.changed), ()

    def read(self, run_id: str) -> tuple[Kept, Sequence[Decision]]:
        """See `Archive.read`."""
        if run_id not in self._held:
            raise refusals.unknown(run_id, "this memory")
        return self._kept(run_id), tuple(self._held[run_id].decisions)

    def create(
        self, run_id: str, protocol_id: str, decisions: Sequence[Decision], about: Mapping[str, str] = NOTHING
    ) -> None:
        """See `Archive.create`."""
        if run_id in self._held:
            raise refusals.exists(run_id)
        self._held[run_id] = _Held(protocol_id, about, list(decisions), time.time())

    def delete(self, run_id: str, before: Callable[[], object] = lambda: None) -> None:
        """See `Archive.delete`."""
        held = self._held.get(run_id)
        if held is None:
            raise refusals.unknown(run_id, "this memory")
        if held.is_open:
            raise refusals.held(run_id)
        before()
        del self._held[run_id]

    def _kept(self, run_id: str) -> Kept:
        held = self._held[run_id]
        return Kept(run_id, held.protocol_id, len(held.decisions), held.changed, held.ending, held.about)


class _MemoryRecord:
    def __init__(self, run_id: str, held: _Held) -> None:
        self._run_id = run_id
        self._held: _Held | None = held
        self._append = held.decisions.append

    def append(self, decision: Decision) -> None:
        if self._held is None:
            raise refusals.closed(self._run_id)
        self._append(decision)

    def decisions(self) -> Sequence[Decision]:
        return () if self._held is None else tuple(self._held.decisions)

    def close(self, ending: str = "") -> None:
        if self._held is not None:
            self._held.ending = ending
            self._held.changed = time.time()
            self._held.is_open = False
            self._held = None
