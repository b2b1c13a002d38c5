"""JSON-lines records in files: what is repaired, what is refused, what a failing disk leaves."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

import pytest

from partyctl_actors.errors import JournalError
from partyctl_actors.journals import Decision, JsonlJournal
from partyctl_actors.payloads import pack

FIRST, SECOND = (Decision(n, "A", "B", "Ping", pack({"text": "\u2028"}), 0) for n in (1, 2))


@pytest.fixture
def journal(tmp_path: Path) -> JsonlJournal:
    return JsonlJournal(tmp_path / "runs")


def recorded(journal: JsonlJournal, *decisions: Decision) -> Path:
    record = journal.open("r", "p")
    for decision in decisions:
        record.append(decision)
    record.close()
    return journal.path / "r.jsonl"


def test_files_are_for_their_owner_alone(journal: JsonlJournal) -> None:
    file = recorded(journal, FIRST)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o700


def test_a_torn_end_is_cut_off_with_a_note_and_the_record_goes_on(
    journal: JsonlJournal, caplog: pytest.LogCaptureFixture
) -> None:
    file = recorded(journal, FIRST, SECOND)
    whole = file.read_bytes()
    for lost in range(1, len(whole.splitlines(keepends=True)[-1]) + 1):
        file.write_bytes(whole[:-lost])
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            record = journal.open("r", "p")
        assert list(record.decisions()) == [FIRST]
        assert (str(file) in caplog.text) == (whole[:-lost][-1:] != b"\n")
        record.append(SECOND)
        record.close()
        assert file.read_bytes() == whole


@pytest.mark.parametrize(("length", "why"), [(0, "it is empty, and a record was begun"), (1, "first"), (30, "first")])
def test_a_record_without_its_head_is_damaged_and_not_begun_anew(journal: JsonlJournal, length: int, why: str) -> None:
    file = recorded(journal, FIRST)
    file.write_bytes(file.read_bytes()[:length])
    for use in (lambda: journal.open("r", "p"), lambda: journal.read("r"), journal.runs):
        with pytest.raises(JournalError, match=rf"damaged \(.*r\.jsonl\): .*{why}"):
            use()
    assert file.stat().st_size == length


def test_a_new_record_appears_whole_and_leaves_nothing_beside_it(journal: JsonlJournal) -> None:
    file = recorded(journal)
    assert list(journal.path.iterdir()) == [file]
    assert file.read_bytes().count(b"\n") == 1


def test_a_damaged_record_hides_no_other(journal: JsonlJournal) -> None:
    recorded(journal, FIRST)
    (journal.path / "empty.jsonl").touch()
    (journal.path / "directory.jsonl").mkdir()
    kept, unread = journal.survey()
    assert [each.run for each in kept] == ["r"]
    assert [Path(error.where).name for error in unread] == ["directory.jsonl", "empty.jsonl"]


def test_damage_is_refused_with_file_and_line(journal: JsonlJournal) -> None:
    file = recorded(journal, FIRST, SECOND)
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b'"turn":1', b'"turn":7'))
    for use in (lambda: journal.open("r", "p"), lambda: journal.read("r"), journal.runs):
        with pytest.raises(JournalError, match=r"damaged \(.*r\.jsonl\): line 2"):
            use()
    assert b'"turn":7' in file.read_bytes()


def test_a_file_that_is_no_record_is_refused_and_left_alone(journal: JsonlJournal) -> None:
    file = journal.path / "r.jsonl"
    file.write_bytes(b"my notes")
    with pytest.raises(JournalError, match=r"no record of ours \(.*r\.jsonl\)"):
        journal.open("r", "p")
    assert file.read_bytes() == b"my notes"


def test_a_record_under_another_name_is_refused(journal: JsonlJournal) -> None:
    recorded(journal, FIRST).rename(journal.path / "other.jsonl")
    with pytest.raises(JournalError, match="the record of run r"):
        journal.open("other", "p")


@pytest.mark.parametrize("run", ["..", "a/../../b", "ä\u2028", "\udc80"])
def test_any_id_has_a_file_in_the_directory(journal: JsonlJournal, run: str) -> None:
    record = journal.open(run, "p")
    record.append(FIRST)
    record.close()
    assert [each.run for each in journal.runs()] == [run]
    assert [file.parent for file in journal.path.rglob("*.jsonl")] == [journal.path]


def test_after_a_failed_append_the_record_takes_no_more_and_says_what_to_do(
    journal: JsonlJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = journal.open("r", "p")
    record.append(FIRST)

    def full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", full)
        with pytest.raises(JournalError, match=r"No space left on device.*run again with the same id"):
            record.append(SECOND)
    with pytest.raises(JournalError, match="not open any more"):
        record.append(SECOND)
    record.close("failed")
    again = journal.open("r", "p")
    # It was written and not synced: whether it is there is for the disk to say, and both are right.
    assert list(again.decisions()) == [FIRST, SECOND]
    again.close()


def test_a_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.jsonl").touch()
    with pytest.raises(JournalError, match="Give JsonlJournal a directory"):
        JsonlJournal(tmp_path / "run.jsonl")


def test_an_id_that_is_too_long_for_a_file_is_a_journal_error(journal: JsonlJournal) -> None:
    with pytest.raises(JournalError, match="File name too long"):
        journal.open("r" * 300, "p")


def test_a_record_that_is_deleted_while_it_is_opened_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = JsonlJournal(tmp_path)
    journal.create("r", "p", [])
    opened = os.open

    def deleted_meanwhile(path: Path, *how: int) -> int:
        fd = opened(path, *how)
        (tmp_path / "r.jsonl").unlink()
        return fd

    monkeypatch.setattr(os, "open", deleted_meanwhile)
    with pytest.raises(JournalError, match="another run"):
        journal.open("r", "p")
