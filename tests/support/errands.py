"""Runs of `tests/programs/errands.py`, and what their ledger says."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from typing import Any

from support.party import Party, wait_until


class Errands:
    """A party whose runs have an agent with slow errands.

    Args:
        party: which.
        seconds: how long each errand takes.
    """

    def __init__(self, party: Party, *seconds: float) -> None:
        self.party = party
        self.count = len(seconds)
        party.environment["ERRANDS"] = " ".join(map(str, seconds))

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Begin the run, or do what the words say."""
        return self.party.start(*(words or ("run", "--json", str(Party.program("errands.py")))))

    @property
    def ledger(self) -> list[str]:
        """What the provider noted."""
        file = self.party.root / "ledger"
        return file.read_text().splitlines() if file.exists() else []

    def under_way(self, number: int) -> None:
        """Wait until the provider has begun with this errand."""
        wait_until(lambda: f"begin t-{number}" in self.ledger, 40, f"errand {number} is begun")

    def asked(self) -> Counter[int]:
        """How often each errand was asked for."""
        return Counter(int(line.partition("t-")[2]) for line in self.ledger if line.startswith("begin"))

    def in_flight(self) -> set[int]:
        """The errand that is begun last: of one that has ended, nobody else may know yet."""
        return {int(line.partition("t-")[2]) for line in self.ledger[-1:]}

    def worker(self) -> int | None:
        """The pid of the agent's worker, None if it has none."""
        pids = [each["pid"] for each in self.party.status()["workers"] if each["role"] == "Clerk"]
        return pids[-1] if pids else None

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The events of this kind."""
        lines = self.party.run("events", "--json").stdout.splitlines()
        return [event for event in map(json.loads, lines) if event["kind"] == kind]

    def answers(self) -> list[str]:
        """What the agent has to say, in order."""
        return [f"answer to t-{number}" for number in range(self.count)]


def told(running: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """What a run told, which has to be the whole of it."""
    out, err = running.communicate(timeout=90)
    assert running.returncode == 0, err
    return [json.loads(line) for line in out.splitlines()]


def said(events: list[dict[str, Any]]) -> list[str]:
    """What the agent said in it."""
    return [each["payload"]["text"] for each in events if each["event"] == "delivered" and each["sender"] == "Clerk"]
