"""SQLite records: what is on the disk when a decision counts as kept, who may write, and what a failure leaves."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from fakes.synced_disk import SyncedDisk

from partyctl_actors.errors import JournalError, ProtocolMismatch
from partyctl_actors.journals import Decision, SqliteJournal
from partyctl_actors.journals.database import Connection, Rows, connect
from partyctl_actors.journals.sqlite import ROTATION, SHARDS, shard_of

RUNS = [f"run-{n}" for n in range(12)]


def decision(turn: int, text: str = "hi") -> Decision:
    return Decision(turn, "A", "B", "Ping", text.encode(), turn)


@pytest.fixture
def disk() -> Iterator[SyncedDisk]:
    made = SyncedDisk()
    yield made
    made.close()


@pytest.fixture
def journal(tmp_path: Path) -> SqliteJournal:
    return SqliteJournal(tmp_path / "runs")


def file_of(journal: SqliteJournal, run: str) -> Path:
    return journal.path / f"runs-{shard_of(run):02}.sqlite"


def test_files_are_for_their_owner_alone(journal: SqliteJournal) -> None:
    record = journal.open("r", "p")
    record.append(decision(1))
    files = list(journal.path.iterdir())
    assert sorted(file.name.partition(".")[2] for file in files) == ["lock", "sqlite", "sqlite-shm", "sqlite-wal"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o700
    record.close()


def test_runs_are_spread_over_the_shards() -> None:
    assert {shard_of(f"run-{n}") for n in range(400)} == set(range(SHARDS))


def test_new_runs_share_a_shard_for_a_while_and_all_shards_get_their_turn(journal: SqliteJournal) -> None:
    ids = [journal.new_id() for _ in range(2 * ROTATION)]
    assert len(set(ids)) == 2 * ROTATION
    for turn in (ids[:ROTATION], ids[ROTATION:]):
        assert len({shard_of(run) for run in turn}) == 1
    homes = {shard_of(SqliteJournal(journal.path).new_id()) for _ in range(200)}
    assert len(homes) > SHARDS // 2


# --- durable before it counts ---


async def write_all(journal: SqliteJournal, each: int, kept: list[tuple[str, int]]) -> None:
    async def write(run: str) -> None:
        record = journal.open(run, "p")
        for turn in range(1, each + 1):
            appended = record.append(decision(turn))
            assert appended is not None
            await appended
            kept.append((run, turn))
        record.close("complete")

    await asyncio.gather(*map(write, RUNS))


@pytest.mark.parametrize("seed", [None, *range(6)])
def test_a_crash_that_drops_what_was_not_synced_loses_no_decision_that_counts(
    tmp_path: Path, disk: SyncedDisk, seed: int | None
) -> None:
    chance = None if seed is None else random.Random(seed)
    journal = SqliteJournal(tmp_path / "runs", connect=disk.connect)
    kept: list[tuple[str, int]] = []

    async def test() -> None:
        writing = asyncio.ensure_future(write_all(journal, 5, kept))
        while not writing.done():
            await asyncio.sleep(0)
            counted = list(kept)
            after = tmp_path / f"after-{len(counted)}"
            if counted and not after.exists():
                disk.crash(after, chance)
                check(after, counted)
        await writing

    asyncio.run(test())
    assert len(kept) == 5 * len(RUNS)
    journal.close()


def check(after: Path, counted: Sequence[tuple[str, int]]) -> None:
    """Every decision that counted is there, and each record is whole."""
    found = SqliteJournal(after)
    for run in RUNS:
        newest = max((turn for each, turn in counted if each == run), default=0)
        if newest:
            read = [each.turn for each in found.read(run)[1]]
            assert read == list(range(1, len(read) + 1))
            assert len(read) >= newest
    found.close()


def test_the_layer_sees_what_is_not_synced(tmp_path: Path, disk: SyncedDisk) -> None:
    class Careless:
        def __init__(self, file: Path) -> None:
            self._connection = disk.connect(file)
            self.close, self.executemany = self._connection.close, self._connection.executemany

        def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Rows:
            return self._connection.execute(sql.replace("= FULL", "= OFF"), parameters)

    journal = SqliteJournal(tmp_path / "runs", connect=Careless)
    record = journal.open("r", "p")
    record.append(decision(1))
    disk.crash(tmp_path / "after")
    found = SqliteJournal(tmp_path / "after")
    with pytest.raises(JournalError):
        found.read("r")
    record.close()
    journal.close()


def test_what_many_runs_decide_in_one_turn_of_the_loop_is_one_commit(tmp_path: Path, disk: SyncedDisk) -> None:
    journal = SqliteJournal(tmp_path / "runs", connect=disk.connect)
    same = [run for run in (f"run-{n}" for n in range(400)) if shard_of(run) == 0]

    async def test() -> None:
        records = [journal.open(run, "p") for run in same]
        before = disk.syncs
        appended = [record.append(decision(1)) for record in records]
        assert disk.syncs == before
        await asyncio.gather(*filter(None, appended))
        assert len(appended) > 10
        assert disk.syncs - before <= 2  # the log; a new log's head is synced by itself
        for record in records:
            record.close()

    asyncio.run(test())
    journal.close()


# --- failures ---


def test_after_a_failed_commit_the_database_is_opened_anew_and_says_what_it_holds(
    tmp_path: Path, disk: SyncedDisk
) -> None:
    opened: list[Path] = []

    def counting(file: Path) -> Connection:
        opened.append(file)
        return disk.connect(file)

    journal = SqliteJournal(tmp_path / "runs", connect=counting)

    async def test() -> None:
        record = journal.open("r", "p")
        first = record.append(decision(1))
        assert first is not None
        await first
        before = len(opened)
        disk.failing = lambda: True
        second = record.append(decision(2))
        assert second is not None
        with pytest.raises(JournalError, match=r"could not be recorded \(.*\.sqlite\).*run again with the same id"):
            await second
        disk.failing = lambda: False
        with pytest.raises(JournalError, match="not open any more"):
            record.append(decision(2))
        record.close("it failed")
        again = journal.open("r", "p")
        assert len(opened) == before + 1
        known = [each.turn for each in again.decisions()]
        assert known in ([1], [1, 2])
        third = again.append(decision(len(known) + 1))
        assert third is not None
        await third
        again.close()

    asyncio.run(test())
    journal.close()


def test_a_decision_that_cannot_be_written_fails_alone(journal: SqliteJournal) -> None:
    same = [run for run in (f"run-{n}" for n in range(400)) if shard_of(run) == 0]

    async def test() -> None:
        records = [journal.open(run, "p") for run in same]
        appended = [
            record.append(decision(1)._replace(label="\udc80") if n == 3 else decision(1))
            for n, record in enumerate(records)
        ]
        results = await asyncio.gather(*filter(None, appended), return_exceptions=True)
        assert [n for n, result in enumerate(results) if result is not None] == [3]
        assert isinstance(results[3], JournalError)
        for record in records:
            record.close()

    asyncio.run(test())
    assert {kept.run for kept in journal.runs()} == set(same) - {same[3]}


def test_a_file_of_another_program_is_refused_by_name_and_left_alone(journal: SqliteJournal) -> None:
    file = file_of(journal, "r")
    theirs = sqlite3.connect(file)
    theirs.execute("CREATE TABLE theirs (x)")
    theirs.close()
    before = file.read_bytes()
    with pytest.raises(JournalError, match=rf"no record of ours \({file}\): it is the database of another program"):
        journal.open("r", "p")
    assert file.read_bytes() == before


@pytest.mark.parametrize("content", [b"my notes, which are longer than the head of a database" * 20, b"\0" * 4096])
def test_a_file_that_is_no_database_is_refused_by_name(journal: SqliteJournal, content: bytes) -> None:
    file = file_of(journal, "r")
    file.write_bytes(content)
    with pytest.raises(JournalError, match=rf"no record of ours \({file}\)"):
        journal.open("r", "p")
    assert file.read_bytes() == content


def test_a_torn_database_is_refused_by_name(journal: SqliteJournal) -> None:
    record = journal.open("r", "p")
    for turn in range(1, 200):
        record.append(decision(turn, "x" * 100))
    record.close()
    journal.close()
    file = file_of(journal, "r")
    assert not file.with_name(file.name + "-wal").exists()
    file.write_bytes(file.read_bytes()[: 4096 * 3])
    with pytest.raises(JournalError, match=str(file)):
        SqliteJournal(journal.path).open("r", "p")


def test_a_missing_decision_is_damage(journal: SqliteJournal) -> None:
    record = journal.open("r", "p")
    for turn in (1, 2, 3):
        record.append(decision(turn))
    record.close()
    journal.close()
    direct = connect(file_of(journal, "r"))
    direct.execute("DELETE FROM decisions WHERE place = 2")
    direct.close()
    with pytest.raises(JournalError, match="decision 2 is missing"):
        journal.open("r", "p")


def test_a_newer_database_is_refused(journal: SqliteJournal) -> None:
    journal.open("r", "p").close()
    journal.close()
    direct = connect(file_of(journal, "r"))
    direct.execute("PRAGMA user_version = 99")
    direct.close()
    with pytest.raises(JournalError, match="version is 99"):
        journal.open("r", "p")


# --- owners ---


def test_who_was_taken_over_writes_nothing_and_is_told(journal: SqliteJournal) -> None:
    other = SqliteJournal(journal.path)
    former = journal.open("r", "p")
    former.append(decision(1))
    owner = other.open("r", "p", take_over=True)
    assert [each.turn for each in owner.decisions()] == [1]
    with pytest.raises(JournalError, match="taken over by another owner"):
        former.append(decision(2, "former"))
    owner.append(decision(2, "owner"))
    former.close("it was taken over")
    assert [(each.turn, each.payload) for each in other.read("r")[1]] == [(1, b"hi"), (2, b"owner")]
    assert other.read("r")[0].ending == ""
    owner.close("complete")


def test_a_record_can_be_taken_over_before_its_first_decision(journal: SqliteJournal) -> None:
    former = journal.open("r", "p")
    owner = journal.open("r", "p", take_over=True)
    with pytest.raises(JournalError, match="taken over"):
        former.append(decision(1))
    former.close()
    with pytest.raises(JournalError, match="another run"):
        journal.open("r", "p")
    owner.append(decision(1))
    owner.close()


def test_only_the_same_protocol_can_take_over(journal: SqliteJournal) -> None:
    former = journal.open("r", "p")
    former.append(decision(1))
    with pytest.raises(ProtocolMismatch):
        journal.open("r", "q", take_over=True)
    former.append(decision(2))
    former.close()


# --- the log ---


def test_an_idle_shard_brings_a_long_log_into_its_database(journal: SqliteJournal) -> None:
    record, other = journal.open("r", "p"), SqliteJournal(journal.path)
    for turn in range(1, 30):
        record.append(decision(turn, "x" * 50_000))
    log = file_of(journal, "r").with_name(file_of(journal, "r").name + "-wal")
    assert log.stat().st_size > 1 << 20
    record.close()
    journal.close()
    assert len(other.read("r")[1]) == 29
    assert not log.exists() or log.stat().st_size < 1 << 20


def test_a_journal_can_be_used_from_several_threads_and_loops(journal: SqliteJournal) -> None:
    async def write(run: str) -> None:
        record = journal.open(run, "p")
        for turn in range(1, 6):
            await (record.append(decision(turn)) or asyncio.sleep(0))
        record.close("complete")

    async def test() -> None:
        await asyncio.gather(*(asyncio.to_thread(asyncio.run, write(run)) for run in RUNS))

    asyncio.run(test())
    assert {(kept.run, kept.decisions, kept.ending) for kept in journal.runs()} == {
        (run, 5, "complete") for run in RUNS
    }


def test_nothing_of_a_deleted_record_is_left_in_the_files(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path)
    said = [Decision(n, "A", "B", "Ping", f"my secret {n} ".encode() * 200, 0) for n in range(1, 40)]
    journal.create("run-1", "p", said, {"file": "my secret.py"})
    journal.delete("run-1")
    left = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"my secret" not in left
    journal.create("run-1", "p", said[:1])
    assert len(journal.read("run-1")[1]) == 1
    journal.close()
