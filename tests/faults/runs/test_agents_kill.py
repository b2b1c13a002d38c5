"""kill -9 of node, worker or both under the agent of a run, at any time: it is asked once for each decision, unless its
worker died while it worked on it.
"""

from __future__ import annotations

import contextlib
import random
import re
import subprocess
from collections import Counter
from collections.abc import Iterator

import pytest
from support.errands import Errands, said, told
from support.party import Party, wait_until

from partyctl_base.process import is_alive

VICTIMS = ("node", "node", "worker", "node and worker")
RUNS = 12
ERRANDS = 8
SECONDS = 0.7


@pytest.fixture
def errands() -> Iterator[Errands]:
    party = Party()
    try:
        # Its node and workers are killed more often than a party should bear, and are back at once.
        (party.root / "party.toml").write_text("[restarts]\nintensity = 1000\nperiod = 1\nsame_deaths = 1000\n")
        made = Errands(party, *[SECONDS] * ERRANDS)
        party.up("--nodes", "1")
        yield made
    finally:
        party.close()


def kill(errands: Errands, which: str, chance: random.Random) -> set[int]:
    """Kill them at a point of chance; what was in flight in a worker that is dead now."""
    node, worker = errands.party.node(), errands.worker()
    subprocess.run(["sleep", f"{chance.uniform(0, SECONDS):.3f}"], check=True)
    pids = [pid for name, pid in (("node", node), ("worker", worker)) if name in which and pid is not None]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # it ended by itself meanwhile
            errands.party.kill(pid)
    for pid in pids:
        wait_until(lambda pid=pid: not is_alive(pid), 10, f"{pid} is dead")  # type: ignore[misc]
    return errands.in_flight() if "worker" in which and worker is not None else set()


@pytest.mark.timeout(900)
@pytest.mark.load
def test_an_agent_is_asked_once_for_each_decision_unless_its_worker_died_over_it(errands: Errands) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance, killed, more = random.Random(seed), Counter[str](), 0
    for _ in range(RUNS):
        (errands.party.root / "ledger").unlink(missing_ok=True)
        may_be_asked = Counter(range(ERRANDS))
        running, run = errands.start(), ""
        for _ in range(4):
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(chance.uniform(0, 2 * SECONDS))
            if running.poll() is None:
                which = chance.choice(VICTIMS)
                killed[which] += 1
                may_be_asked.update(kill(errands, which, chance))
            else:
                run, running = again(errands, running, run)
        while running.wait(90) != 0:
            run, running = again(errands, running, run)
        assert said(told(running)) == errands.answers()
        assert errands.asked() <= may_be_asked, errands.ledger
        more += errands.asked().total() - ERRANDS
    print(f"killed {dict(killed)}; of {RUNS * ERRANDS} decisions {more} were asked again")


def again(errands: Errands, running: subprocess.Popen[str], run: str) -> tuple[str, subprocess.Popen[str]]:
    """Resume a run that ended, by the advice that it gave; one that had not begun begins."""
    out, err = running.communicate(timeout=60)
    if running.returncode == 0:
        run = re.findall(r'"run": "([^"]+)"', out)[0]
    else:
        run = (re.findall(r"partyctl runs resume ([\w-]+)", err) or re.findall(r'"run": "([^"]+)"', out) or [run])[0]
    return run, errands.start("runs", "resume", run, "--json") if run else errands.start()
