from __future__ import annotations

import pytest

from partyctl_actors.errors import JournalError, ProtocolMismatch
from partyctl_actors.runs.journal import Decision, MemoryJournal

FIRST = Decision(1, "A", "B", "Ping", b"\x80", 0)


def test_a_record_keeps_its_decisions_in_order() -> None:
    record = MemoryJournal().open("run-1", "p")
    record.append(FIRST)
    record.append(FIRST._replace(turn=2))
    assert list(record.decisions()) == [FIRST, FIRST._replace(turn=2)]


def test_records_are_kept_by_run_and_found_again() -> None:
    journal = MemoryJournal()
    record = journal.open("run-1", "p")
    record.append(FIRST)
    record.close()
    assert list(journal.open("run-1", "p").decisions()) == [FIRST]
    assert list(journal.open("run-2", "p").decisions()) == []


def test_two_runs_cannot_write_one_record() -> None:
    journal = MemoryJournal()
    journal.open("run-1", "p")
    with pytest.raises(JournalError, match="another run"):
        journal.open("run-1", "p")


def test_a_record_of_another_protocol_is_refused_with_both_named() -> None:
    journal = MemoryJournal()
    journal.open("run-1", "p").close()
    with pytest.raises(ProtocolMismatch, match="protocol p then, q now"):
        journal.open("run-1", "q")
