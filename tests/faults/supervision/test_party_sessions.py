"""kill -9 of node, worker and launcher under the turns of a party's agent session: each is asked at most once."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
from collections.abc import Iterator

import pytest
from support.party import Party, wait_until

TURNS = 8
VICTIMS = ("node", "worker", "launcher", "node and worker")
THINK = 0.4

CONFIG = """
[party]
nodes = 1
[restarts]
intensity = 100
[roles.Helper]
provider = "scripted"
permissions = {{ mode = "bypass" }}
approvals = "deny"
retry = {{ delays = [] }}
options = {{ state = "position", script = [{turns}] }}
"""


@pytest.fixture
def party() -> Iterator[Party]:
    made = Party()
    yield made
    made.close()


def victims(party: Party, which: str) -> list[int]:
    status = party.status()
    found = {
        "node": [each["pid"] for each in status["nodes"]],
        "worker": [each["pid"] for each in status["workers"]],
        "launcher": [status["launcher"]["pid"]],
    }
    return [pid for name in which.split(" and ") for pid in found[name] if pid]


@pytest.mark.timeout(280)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.load)])
def test_no_turn_is_asked_twice_whatever_is_killed(party: Party, seed: int) -> None:
    chance = random.Random(seed)
    turn = f'[{{ think = {THINK} }}, {{ say = "done" }}]'
    (party.root / "party.toml").write_text(CONFIG.format(turns=", ".join([turn] * (TURNS + 1))))
    party.up()
    for number in range(TURNS):
        sending = party.start("send", "s", f"turn {number}")
        assert sending.stderr is not None
        began = sending.stderr.readline()  # it is told once the intent is durable
        assert "began" in began, began
        pids = victims(party, chance.choice(VICTIMS))
        subprocess.run(["sleep", f"{chance.uniform(0, THINK):.3f}"], check=True)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):  # it ended by itself meanwhile
                party.kill(pid)
        out, err = sending.communicate(timeout=60)
        assert sending.returncode == (0 if out == "done\n" else 1), err
        wait_until(lambda: len(party.status()["nodes"]) == 1, 20, "the node is back")
    shown = json.loads(party.run("sessions", "turns", "s", "--json").stdout)["turns"]
    states = [each["state"] for each in shown]
    assert len(states) == TURNS
    assert set(states) <= {"answered", "failed", "lost", "not started"}
    asked = len((party.root / "position").read_bytes())
    assert states.count("answered") <= asked <= TURNS - states.count("not started")
    last = party.run("send", "s", "still there?", timeout=60)
    assert (last.returncode, last.stdout) == (0, "done\n"), last.stderr
