"""SQLite records that are not what was written: nothing changed is delivered, nothing lost is asked for in silence."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from partyctl_actors.errors import JournalError
from partyctl_actors.journals import Decision, SqliteJournal
from partyctl_actors.journals.locks import ByteLocks, noted
from partyctl_actors.journals.sqlite import shard_of
from partyctl_actors.payloads import pack

SAID = [Decision(turn, "A", "B", "M", pack({"n": turn}), 10 + turn) for turn in (1, 2, 3)]

Damage = Callable[[Path], None]


@pytest.fixture
def journal(tmp_path: Path) -> SqliteJournal:
    """One with a run "r" of three decisions, closed."""
    made = SqliteJournal(tmp_path / "runs")
    record = made.open("r", "p", about={"file": "x.py"})
    for decision in SAID:
        record.append(decision)
    record.close("complete")
    made.close()
    return made


def file_of(directory: Path, run: str = "r") -> Path:
    return directory / f"runs-{shard_of(run):02}.sqlite"


def change(directory: Path, statement: str, *parameters: object) -> None:
    with closing(sqlite3.connect(file_of(directory))) as direct, direct:
        direct.execute(statement, parameters)


def refused_everywhere(directory: Path, why: str) -> None:
    """Reading, listing, forking and resuming all refuse, by the name of the file."""
    journal = SqliteJournal(directory)
    for use in (
        lambda: journal.read("r"),
        lambda: journal.fork("r", "other", upto=1),
        lambda: journal.open("r", "p"),
        lambda: journal.open("r", "p", take_over=True),
    ):
        with pytest.raises(JournalError, match=rf"(?s)A record is damaged \({file_of(directory)}.*{why}"):
            use()
    journal.close()


# --- a decision that changed ---


def test_one_flipped_byte_of_a_payload_is_refused_with_file_run_and_decision(journal: SqliteJournal) -> None:
    file = file_of(journal.path)
    data = file.read_bytes()
    assert data.count(b"\x81\xa1n\x02") == 1
    file.write_bytes(data.replace(b"\x81\xa1n\x02", b"\x81\xa1n\x07"))
    refused_everywhere(journal.path, "run r.*decision 2 does not have the checksum")


@pytest.mark.parametrize(
    "assignment",
    [
        "turn = 9", "sender = 'B'", "receiver = 'A'", "label = 'N'", "payload = x'80'", "tokens = 0", "seal = seal + 1",
        "payload = 'text'", "payload = 1000000000000", "turn = 'one'", "seal = 'x'",
    ],
)  # fmt: skip
def test_every_field_is_under_the_checksum(journal: SqliteJournal, assignment: str) -> None:
    change(journal.path, f"UPDATE decisions SET {assignment} WHERE place = 2")
    refused_everywhere(journal.path, "run r.*decision 2")


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("UPDATE decisions SET place = 5 - place WHERE place > 1", "decision [23]"),
        ("DELETE FROM decisions WHERE place = 3", "decision 3 of 3 is missing"),
        ("DELETE FROM decisions WHERE place = 1", "decision 1 is missing"),
        ("UPDATE decisions SET label = CAST(x'ff' AS TEXT) WHERE place = 2", "run r"),
    ],
)
def test_decisions_that_are_missing_or_elsewhere_are_refused(journal: SqliteJournal, statement: str, why: str) -> None:
    if "5 - place" in statement:
        change(journal.path, "UPDATE decisions SET place = 9 WHERE place = 3")
        change(journal.path, "UPDATE decisions SET place = 3 WHERE place = 2")
        change(journal.path, "UPDATE decisions SET place = 2 WHERE place = 9")
    else:
        change(journal.path, statement)
    refused_everywhere(journal.path, why)


def test_decisions_of_another_run_are_refused(journal: SqliteJournal) -> None:
    same = next(run for run in (f"run-{n}" for n in range(400)) if shard_of(run) == shard_of("r"))
    journal.create(same, "p", SAID, {"file": "x.py"})
    journal.close()
    change(journal.path, "UPDATE decisions SET run = 3 WHERE run = 1")
    change(journal.path, "UPDATE decisions SET run = 1 WHERE run = 2")
    refused_everywhere(journal.path, "decision 1 does not have the checksum")


# --- a run's row ---


@pytest.mark.parametrize("about", ['{"file": "x', "[1,2]", '{"file": 7}', "7", "", "[" * 100_000, '{"file": "y.py"}'])
def test_damage_beside_a_run_is_refused_and_hides_no_other(journal: SqliteJournal, about: str) -> None:
    same = next(run for run in (f"run-{n}" for n in range(400)) if shard_of(run) == shard_of("r"))
    journal.create(same, "p", SAID)
    journal.create("elsewhere", "p", SAID)
    journal.close()
    change(journal.path, "UPDATE runs SET about = ? WHERE run = 'r'", about)
    refused_everywhere(journal.path, "run r")
    kept, unread = journal.survey()
    assert {each.run for each in kept} == {same, "elsewhere"}
    assert [error.where for error in unread] == [f"{file_of(journal.path)}, run r"]
    with pytest.raises(JournalError, match="run r"):
        journal.runs()


@pytest.mark.parametrize("assignment", ["protocol = 'q'", "ending = x'00'", "epoch = 'x'", "length = 'x'"])
def test_damage_of_what_is_known_of_a_run_is_refused(journal: SqliteJournal, assignment: str) -> None:
    change(journal.path, f"UPDATE runs SET {assignment}")
    refused_everywhere(journal.path, "run r")


def test_a_time_that_is_none_is_refused(journal: SqliteJournal) -> None:
    change(journal.path, "UPDATE decisions SET at = 'noon'")
    refused_everywhere(journal.path, "when it changed is no time")


# --- what was acknowledged is gone ---


def emptied(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (emptied, "it is empty, and a record was begun"),
        (Path.unlink, "it is missing, and a record was begun"),
        (lambda file: file.write_bytes(b"\0" * 8192), "not a database"),
        (lambda file: file.write_bytes(file.read_bytes()[:4096]), "malformed"),
    ],
)
def test_a_database_that_lost_its_records_is_no_new_one(journal: SqliteJournal, damage: Damage, why: str) -> None:
    file = file_of(journal.path)
    damage(file)
    before = file.read_bytes() if file.exists() else None
    for use in (lambda: journal.read("r"), lambda: journal.open("r", "p"), journal.runs):
        with pytest.raises(JournalError, match=rf"(?s)is damaged \({file}.*({why})"):
            use()
    assert (file.read_bytes() if file.exists() else None) == before


def test_what_is_left_can_be_gone_on_with_as_the_refusal_says(journal: SqliteJournal) -> None:
    file = file_of(journal.path)
    emptied(file)
    with pytest.raises(JournalError, match=f"remove {file.stem}.lock to go on with what is left"):
        journal.open("r", "p")
    file.with_suffix(".lock").unlink()
    fresh = SqliteJournal(journal.path)
    record = fresh.open("r", "p")
    assert list(record.decisions()) == []
    record.append(SAID[0])
    record.close()
    assert fresh.read("r")[0].decisions == 1


def test_a_log_whose_database_is_empty_is_kept(killed: Path) -> None:
    file = file_of(killed)
    log = Path(f"{file}-wal")
    whole = log.read_bytes()
    emptied(file)
    file.with_suffix(".lock").unlink()
    for use in (lambda: SqliteJournal(killed).read("r"), lambda: SqliteJournal(killed).open("r", "p")):
        with pytest.raises(JournalError, match=f"remove {file.stem}.lock and {log.name} to go on"):
            use()
    assert log.read_bytes() == whole
    log.unlink()
    file.with_suffix(".lock").unlink()
    SqliteJournal(killed).open("r", "p").close()


def test_the_making_of_a_database_that_was_cut_short_is_begun_anew(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "runs")
    file_of(journal.path).touch()
    assert journal.runs() == []
    record = journal.open("r", "p")
    record.append(SAID[0])
    record.close()
    assert journal.read("r")[0].decisions == 1


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """The files of a process that was killed: all is in the log yet."""
    journal = SqliteJournal(tmp_path / "living")
    record = journal.open("r", "p")
    for decision in SAID:
        record.append(decision)
    shutil.copytree(journal.path, tmp_path / "killed")
    record.close()
    journal.close()
    return tmp_path / "killed"


def test_the_files_of_a_killed_process_hold_everything(killed: Path) -> None:
    assert list(SqliteJournal(killed).read("r")[1]) == SAID


@pytest.mark.parametrize("part", range(20))
def test_a_log_cut_or_changed_anywhere_loses_nothing_in_silence(killed: Path, part: int) -> None:
    log = Path(f"{file_of(killed)}-wal")
    whole = log.read_bytes()
    place = len(whole) * part // 20
    for content in (whole[:place], whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]):
        for name in (f"{file_of(killed)}-shm",):
            Path(name).unlink(missing_ok=True)
        log.write_bytes(content)
        for use in (lambda: SqliteJournal(killed).read("r"), lambda: SqliteJournal(killed).open("r", "p")):
            with pytest.raises(JournalError, match=rf"(?s)damaged \({file_of(killed)}.*"):
                use()
        assert log.read_bytes() == content, "what is damaged is left as it is"


def test_a_database_older_than_what_was_acknowledged_is_refused(journal: SqliteJournal, tmp_path: Path) -> None:
    file = file_of(journal.path)
    shutil.copy(file, tmp_path / "backup")
    record = journal.open("r", "p")
    record.append(SAID[0]._replace(turn=4))
    record.close()
    journal.close()
    shutil.copy(tmp_path / "backup", file)
    refused_everywhere(journal.path, r"it holds \d+ commits, and at least \d+ were made")


# --- the note ---


def test_a_note_comes_back_and_one_that_changed_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    assert noted(file) is None
    locks = ByteLocks(file)
    assert noted(file) is None
    for count in (0, 1, 2**40):
        locks.note(count, sync=count == 0)
        assert noted(file) == count
    locks.close()
    whole = file.read_bytes()
    for content in (whole[:-1], whole + b"x", b"\1" + whole[1:], whole[:10] + b"x" + whole[11:]):
        file.write_bytes(content)
        with pytest.raises(ValueError, match="it "):
            noted(file)


def test_a_damaged_note_is_damage(journal: SqliteJournal) -> None:
    file_of(journal.path).with_suffix(".lock").write_bytes(b"notes")
    refused_everywhere(journal.path, "lock notes of it cannot be read")


# --- readers ---


def test_readers_make_and_change_nothing(journal: SqliteJournal, tmp_path: Path) -> None:
    def files(directory: Path) -> dict[str, bytes]:
        return {each.name: each.read_bytes() for each in directory.iterdir() if each.suffix in (".sqlite", ".lock")}

    before = files(journal.path)
    assert [kept.run for kept in journal.runs()] == ["r"]
    assert list(journal.read("r")[1]) == SAID
    with pytest.raises(JournalError, match="no record of this run"):
        journal.read("other")
    assert files(journal.path) == before
    empty = SqliteJournal(tmp_path / "empty")
    assert empty.runs() == []
    assert list(empty.path.iterdir()) == []


def test_a_reader_sees_what_is_decided_meanwhile(journal: SqliteJournal) -> None:
    reader = SqliteJournal(journal.path)
    assert reader.read("r")[0].decisions == 3
    record = journal.open("r", "p")
    record.append(SAID[0]._replace(turn=4))
    assert reader.read("r")[0].decisions == 4
    record.close()
    reader.close()


@pytest.mark.parametrize("run", ["\udcff\udcfe", "a\udc80"])
def test_an_id_that_is_no_text_is_refused_as_that(journal: SqliteJournal, run: str) -> None:
    for use in (lambda: journal.read(run), lambda: journal.open(run, "p"), lambda: journal.create(run, "p", ())):
        with pytest.raises(JournalError, match=r"cannot be the id of a run \('.*udc") as caught:
            use()
        assert str(caught.value).isascii()


def test_an_unknown_run_is_refused_with_what_to_do(journal: SqliteJournal) -> None:
    with pytest.raises(JournalError, match="partyctl runs list"):
        journal.read("other")
