"""kill -9 of node and worker anywhere in a session of twenty turns: every ticket ends one way, and none runs twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from programs.durable_session import FAILING, RETRIES, TURNS, session_id, ticket
from support.party import PLUGINS, Party, wait_until

from partyctl_actors.supervision.policy_state import from_plain
from partyctl_actors.supervision.turn_log import Recovered, TurnLogs
from partyctl_base.process import ProcessIdentity
from partyctl_confinement.control import LauncherProcess
from partyctl_confinement.environment import LAUNCHER_ALLOW, scrubbed

MAX_TURNS = 4

VICTIMS = ["node", "worker", "both"]


class Host:
    """A launcher, and one node at a time. What a node prints is read here."""

    def __init__(self) -> None:
        environment = {**scrubbed(os.environ, LAUNCHER_ALLOW), "PYTHONPATH": str(PLUGINS)}
        preload = ["partyctl_plugins.worker", "ledger_plugin"]
        self.launcher = LauncherProcess.start(preload=preload, environment=environment, timeout=40)

    def start(self, directory: Path) -> subprocess.Popen[str]:
        end = self.launcher.add_client("node")
        command = [sys.executable, str(Party.program("durable_session.py")), str(directory), str(end.fileno())]
        try:
            return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, pass_fds=(end.fileno(),))
        finally:
            end.close()


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    made = Host()
    yield made
    made.launcher.stop()


def ledger(directory: Path) -> Counter[str]:
    """What the provider did: begin, fail and end of each ticket, with how often."""
    file = directory / "ledger"
    return Counter(file.read_text().split("\n")[:-1] if file.exists() else [])


def kill_once(host: Host, directory: Path, chance: random.Random) -> str:
    """Run the session, kill at a point of chance, and have another node finish it; a ticket that must be finished."""
    directory.mkdir()
    node = host.start(directory)
    assert node.stdout is not None
    worker = None
    last = f"turn {chance.randrange(TURNS)}\n"
    for line in node.stdout:
        if line.startswith("hired"):
            worker = ProcessIdentity.of(int(line.split()[1]))
        if line == last:
            break
    # Anywhere within a turn: intending, opening, asking, thinking, keeping, acknowledging. Waiting is the point of it.
    subprocess.run(["sleep", f"{chance.uniform(0, 0.03):.4f}"], check=True)
    victim = chance.choice(VICTIMS)
    if victim != "node" and worker is not None and worker.is_alive():
        os.kill(worker.pid, signal.SIGKILL)
    if victim == "worker":
        assert node.wait(60) == 0
        node.stdout.close()
        return ""
    node.kill()
    node.wait()
    node.stdout.close()
    finished = finishes_alone(host, directory) if victim == "node" else ""
    other = host.start(directory)
    out, _ = other.communicate(timeout=60)
    assert out.endswith("over\n"), out
    return finished


def finishes_alone(host: Host, directory: Path) -> str:
    """The ticket whose turn goes on though its node is dead, once it has ended; empty if there is none."""
    under_way = {
        each for each in map(ticket, range(TURNS)) if (done := ledger(directory)) and open_turns(done, each) > 0
    }
    if not under_way or not host.launcher.workers():
        return ""
    [name] = under_way
    wait_until(lambda: open_turns(ledger(directory), name) == 0, 10, f"{name} ended by itself")
    return name if ledger(directory)[f"end {name}"] else ""


def open_turns(done: Counter[str], name: str) -> int:
    """How many attempts of a ticket have begun and not ended."""
    return done[f"begin {name}"] - done[f"fail {name}"] - done[f"end {name}"]


def recovered(directory: Path) -> Recovered:
    logs = TurnLogs(directory / "turns")
    found = logs.open(session_id(directory)).recover()
    logs.close()
    return found


def check(directory: Path) -> Counter[str]:
    """Every ticket ended one way, and as often as that way allows; how many each way."""
    found, done = recovered(directory), ledger(directory)
    assert found.intents == {}
    ways: Counter[str] = Counter()
    for number in range(TURNS):
        name, outcome = ticket(number), found.outcomes[ticket(number)]
        begun, failed, ended = (done[f"{what} {name}"] for what in ("begin", "fail", "end"))
        # An attempt that failed for the moment is tried again, within one budget whatever died; nothing else is.
        assert begun - failed <= 1
        assert begun <= 1 + min(FAILING.get(number, 0), RETRIES)
        if "finished" in outcome:
            assert (text_of(outcome), ended) == (f"answer to {name}", 1)
            ways["finished"] += 1
            continue
        failure = outcome["failed"]
        assert isinstance(failure, dict)
        if failure["type"] == "TurnLostError" and not failure["in_flight"]:
            # The last attempt was written down and not asked for; those before it, if any, had failed.
            assert begun == failed
            ways["not started"] += 1
        elif failure["type"] == "TurnFailedError":
            assert (ended, begun) == (0, 1 + RETRIES)
            ways["failed"] += 1
        else:
            # Its worker was killed: under this node, or before the next one came.
            assert failure["type"] in ("TurnLostError", "CliExitError")
            assert "SIGKILL" in failure["message"]
            ways["lost in flight"] += 1
    renewal_went_on(found)
    return ways


def text_of(outcome: Any) -> str:
    return str(outcome["finished"]["result"]["text"])


def conversation_of(outcome: Any) -> str:
    return str(outcome["finished"]["conversation_id"])


def renewal_went_on(found: Recovered) -> None:
    """A conversation is renewed after its fourth success, wherever its node died; earlier only if its worker did."""
    assert found.state is not None
    state = from_plain(dict(found.state))
    successes = Counter(conversation_of(each) for each in found.outcomes.values() if "finished" in each)
    assert max(successes.values()) <= MAX_TURNS
    full = [where for where, times in successes.items() if times == MAX_TURNS]
    assert state.counts.get("renewal", 0) == len(full)
    assert state.turns == (successes[state.conversation_id] if state.conversation_id else 0)
    assert state.counts.get("backstop", 0) >= len(successes) - len(full) - 1


def test_an_undisturbed_session_finishes_all_but_the_turn_that_always_fails(host: Host, tmp_path: Path) -> None:
    directory = tmp_path / "s"
    directory.mkdir()
    out, _ = host.start(directory).communicate(timeout=60)
    assert out.endswith("over\n")
    assert check(directory) == {"finished": TURNS - 1, "failed": 1}
    assert from_plain(dict(recovered(directory).state or {})).counts["renewal"] == (TURNS - 1) // MAX_TURNS


@pytest.mark.parametrize("points", [8, pytest.param(100, marks=[pytest.mark.load, pytest.mark.timeout(900)])])
def test_node_and_worker_killed_anywhere(host: Host, tmp_path: Path, points: int) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    ways: Counter[str] = Counter()
    found_finished = 0
    for point in range(points):
        directory = tmp_path / f"s-{point}"
        finished = kill_once(host, directory, chance)
        ways += check(directory)
        if finished:
            assert "finished" in recovered(directory).outcomes[finished]
            found_finished += 1
        assert host.launcher.workers() == []
    print(f"{points} points: {dict(ways)}; found finished: {found_finished}")
