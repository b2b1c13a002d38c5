"""Power lost anywhere in a `par`: what was accepted is in the record, and any replay of that is the same."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from fakes.runs import A, B, C, Hanging, Ping, Pong
from fakes.synced_disk import SyncedDisk

from partyctl_actors.journals import Decision, SqliteJournal
from partyctl_actors.journals.database import Connection, Rows
from partyctl_actors.participants import Script
from partyctl_actors.protocol import Protocol, par, roles, send
from partyctl_actors.runs import Delivered, Session, watching
from partyctl_actors.transcript import Transcript

(D,) = roles("D")
TURNS = 3
branches = Protocol(par([send(A, B, Ping), send(B, A, Pong)] * TURNS, [send(C, D, Ping), send(D, C, Pong)] * TURNS))
LINES = {A: [Ping(f"a{n}") for n in range(TURNS)], B: [Pong(f"b{n}") for n in range(TURNS)]}
LINES |= {C: [Ping(f"c{n}") for n in range(TURNS)], D: [Pong(f"d{n}") for n in range(TURNS)]}


class CrashingDisk:
    """Whenever a database is about to do something, and after it, keeps what a crash there would leave.

    Attributes:
        crashes: of each, the directory that it left and how many messages had been delivered.
    """

    def __init__(self, disk: SyncedDisk, directory: Path, chance: random.Random | None) -> None:
        self.crashes: list[tuple[Path, int]] = []
        self.delivered = 0
        self._disk = disk
        self._directory = directory
        self._chance = chance

    def crash(self) -> None:
        self.crashes.append((self._directory / f"crash-{len(self.crashes)}", self.delivered))
        self._disk.crash(self.crashes[-1][0], self._chance)

    def note(self, event: object) -> None:
        if isinstance(event, Delivered):
            self.crash()
            self.delivered += 1

    def connect(self, file: Path) -> Connection:
        connection = self._disk.connect(file)
        disk = self

        class Watched:
            close = connection.close

            def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Rows:
                disk.crash()
                try:
                    return connection.execute(sql, parameters)
                finally:
                    disk.crash()

            def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> Rows:
                disk.crash()
                try:
                    return connection.executemany(sql, rows)
                finally:
                    disk.crash()

        return Watched()


@pytest.fixture
def disk() -> Iterator[SyncedDisk]:
    made = SyncedDisk()
    yield made
    made.close()


def whole(journal: SqliteJournal) -> Transcript:
    cast = {role: Script(lines) for role, lines in LINES.items()}
    return Session(branches, cast, journal=journal, id="r").run()


def found(journal: SqliteJournal) -> Sequence[Decision]:
    """What is recorded; a crash may come before there is anything."""
    return journal.read("r")[1] if any(kept.run == "r" for kept in journal.runs()) else ()


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_after_a_crash_between_any_two_writes_what_was_delivered_is_there_and_the_run_goes_on(
    tmp_path: Path, disk: SyncedDisk, seed: int | None
) -> None:
    crashing = CrashingDisk(disk, tmp_path, None if seed is None else random.Random(seed))
    journal = SqliteJournal(tmp_path / "runs", connect=crashing.connect)
    cast = {role: Script(lines) for role, lines in LINES.items()}
    said = Session(branches, cast, journal=journal, id="r", tracer=watching(crashing.note)).run()
    journal.close()
    lengths = set()
    for directory, delivered in crashing.crashes:
        after = SqliteJournal(directory)
        recorded = found(after)
        assert len(recorded) >= delivered
        assert [(each.sender, each.label) for each in recorded] == [
            (each.sender.name, each.label) for each in said[: len(recorded)]
        ]
        if len(recorded) not in lengths:
            lengths.add(len(recorded))
            assert [each.sender.name for each in whole(after)][: len(recorded)] == [each.sender for each in recorded]
            assert len(found(after)) == 4 * TURNS
        after.close()
    assert {0, 4 * TURNS} < lengths


def test_a_hundred_replays_of_a_record_are_one_and_the_same(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "runs")
    said = whole(journal)
    recorded = found(journal)
    asked = {role: Hanging() for role in LINES}
    for _ in range(100):
        assert Session(branches, asked, journal=journal, id="r").run() == said
        assert list(found(journal)) == list(recorded)
    assert not any(player.asked for player in asked.values())
