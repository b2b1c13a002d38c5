"""A process that conducts a recorded run is killed, anywhere: the run goes on where its record ends."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from programs import journaled
from support.party import Party

from partyctl.session import Session
from partyctl_actors.journals import Record, SqliteJournal

KILLS = int(os.environ.get("PARTYCTL_KILLS", "3"))
"""How many points to kill at; `make test-load` takes 50."""

DECISIONS = 2 * journaled.ROUNDS


class Place:
    """Where runs of tests/programs/journaled.py are recorded, and what was asked."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def start(self, run: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(Party.program("journaled.py")), str(self.directory), run]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def asked(self) -> Counter[str]:
        file = self.directory / "asked"
        return Counter(file.read_text().split("\n")[:-1] if file.exists() else [])


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def undisturbed(directory: Path) -> str:
    return str(Session(journaled.protocol, journaled.cast(str(directory / "undisturbed"))).run())  # type: ignore[arg-type]


def kill_once(place: Place, chance: random.Random) -> None:
    """Start the run, kill it at a point of chance, and finish it."""
    run = f"run-{chance.random()}"
    before = place.asked()
    process = place.start(run)
    assert process.stdout is not None
    for _ in range(chance.randint(0, DECISIONS - 1)):
        process.stdout.readline()
    # Anywhere within a decision: asking, appending, syncing, delivering. Waiting is what this test is about.
    subprocess.run(["sleep", f"{chance.uniform(0, 0.004):.4f}"], check=True)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    killed = place.asked() - before

    again = place.start(run)
    out, _ = again.communicate(timeout=60)
    assert again.returncode == 0
    transcript = out.partition(f"said {DECISIONS}\n")[2].rstrip("\n")
    assert transcript == undisturbed(place.directory)
    asked = place.asked() - before
    assert len(asked) == DECISIONS
    twice = {question for question, times in asked.items() if times > 1}
    # Only what was under way when it was killed may be asked again, and that once.
    assert len(twice) <= 1
    assert max(asked.values()) <= 2
    assert all(question == newest(killed) for question in twice)


def newest(asked: Counter[str]) -> str:
    """The question that was under way: the last of the run's order."""
    return max(asked, key=lambda question: 2 * int(question.split()[1]) + question.startswith("Writer"), default="")


@pytest.mark.timeout(600)
def test_a_run_that_is_killed_finishes_and_asks_each_decision_once(place: Place) -> None:
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    print(f"seed {seed}")
    for _ in range(KILLS):
        kill_once(place, chance)


@pytest.mark.load
@pytest.mark.timeout(600)
def test_a_run_that_is_killed_at_fifty_points_finishes_and_asks_each_decision_once(place: Place) -> None:
    chance = random.Random(50)
    for _ in range(50):
        kill_once(place, chance)


def test_of_two_processes_that_both_believe_they_own_a_run_one_writes_and_delivers(place: Place) -> None:
    hold = place.directory / "asked.hold"
    hold.touch()
    process = place.start("run-1")
    assert process.stdout is not None
    for _ in range(journaled.HELD):
        assert process.stdout.readline().startswith("said")

    class Taking(SqliteJournal):
        def open(self, run_id: str, protocol_id: str, **_: object) -> Record:  # type: ignore[override]
            return super().open(run_id, protocol_id, take_over=True)

    cast = journaled.cast(str(place.directory / "asked there"))
    taking = Session(journaled.protocol, cast, journal=Taking(place.directory / "runs"), id="run-1")  # type: ignore[arg-type]
    transcript = taking.run()
    assert len(transcript) == DECISIONS
    hold.unlink()
    out, _ = process.communicate(timeout=60)
    assert "said" not in out
    assert "refused: " in out
    assert "taken over by another owner" in out
    recorded = SqliteJournal(place.directory / "runs").read("run-1")[1]
    assert [each.label for each in recorded] == [envelope.label for envelope in transcript]


def test_processes_record_side_by_side_in_one_directory(place: Place) -> None:
    runs = [f"run-{number}" for number in range(4)]
    processes = [place.start(run) for run in runs]
    expected = undisturbed(place.directory)
    for process in processes:
        out, _ = process.communicate(timeout=60)
        assert out.partition(f"said {DECISIONS}\n")[2].rstrip("\n") == expected
    kept = SqliteJournal(place.directory / "runs").runs()
    assert {each.run: (each.decisions, each.ending) for each in kept} == dict.fromkeys(runs, (DECISIONS, "complete"))
