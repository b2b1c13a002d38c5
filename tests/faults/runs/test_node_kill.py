"""The node that conducts a run is killed, anywhere; another takes its place, and the run goes on from its record."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import journaled
from support.party import Party, wait_until

from partyctl.session import Session
from partyctl_base.process import is_alive

DECISIONS = 2 * journaled.ROUNDS


class Place:
    """A party with one node, and what its models were asked."""

    def __init__(self, party: Party) -> None:
        self.party = party
        self.asked_file = party.root / "asked"
        party.environment["ASKED"] = str(self.asked_file)
        # Its node is killed more often than a party should bear, and is back at once: with the usual period the wait
        # before a restart grows to 5 s, and fifty kills took 309 s.
        (party.root / "party.toml").write_text("[restarts]\nintensity = 1000\nperiod = 1\nsame_deaths = 1000\n")
        party.up("--nodes", "1")

    def asked(self) -> Counter[str]:
        return Counter(self.asked_file.read_text().split("\n")[:-1] if self.asked_file.exists() else [])


@pytest.fixture
def place() -> Iterator[Place]:
    party = Party()
    try:
        yield Place(party)
    finally:
        party.close()


def undisturbed(directory: Path) -> list[tuple[str, dict[str, object]]]:
    transcript = Session(journaled.protocol, journaled.cast(str(directory / "undisturbed"))).run()  # type: ignore[arg-type]
    return [(envelope.label, envelope.payload) for envelope in transcript]


def told(running: subprocess.Popen[str]) -> dict[str, object]:
    """The next event of a run; fails with what was said if it ended."""
    assert running.stdout is not None
    line = running.stdout.readline()
    assert line, running.communicate(timeout=60)[1]
    event: dict[str, object] = json.loads(line)
    return event


def kill_once(place: Place, chance: random.Random) -> None:
    """Have the node run it, kill the node at a point of chance, and finish the run."""
    node, before = place.party.node(), place.asked()
    running = place.party.start("run", "--json", str(Party.program("journaled.py")))
    run = told(running)["run"]
    for _ in range(chance.randint(0, DECISIONS - 2)):
        assert told(running)["event"] == "delivered"
    subprocess.run(["sleep", f"{chance.uniform(0, 0.004):.4f}"], check=True)
    os.kill(node, signal.SIGKILL)
    _, said = running.communicate(timeout=60)
    assert f"partyctl runs resume {run}" in said or running.returncode == 0
    wait_until(lambda: not is_alive(node), 10, "the node is gone")

    resumed = place.party.run("runs", "resume", run, "--json")
    assert resumed.returncode == 0, resumed.stderr
    events = [json.loads(line) for line in resumed.stdout.split("\n")[:-1]]
    said_there = [(event["label"], event["payload"]) for event in events if event["event"] == "delivered"]
    assert said_there == undisturbed(place.party.root)
    asked = place.asked() - before
    assert len(asked) == DECISIONS
    # What was under way when it was killed may be asked once more.
    assert sum(asked.values()) <= DECISIONS + 1


@pytest.mark.timeout(600)
@pytest.mark.parametrize("points", [1, pytest.param(50, marks=pytest.mark.load)])
def test_a_run_whose_node_is_killed_finishes_and_asks_each_decision_once(place: Place, points: int) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(points):
        kill_once(place, chance)
