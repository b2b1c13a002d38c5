"""kill -9 of any one process, with turns running and a worker's child that called setsid and ignores SIGTERM.

A test per row of docs/ownership.md; the ids are the names in its last column.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.party import PLUGINS, REPOSITORY, Party, descendants, wait_until

from partyctl_base.process import ProcessIdentity
from partyctl_confinement.control import LauncherProcess
from partyctl_confinement.environment import LAUNCHER_ALLOW, scrubbed

LIMIT = 3.0
"""Seconds within which nothing may be left that nothing owns."""

ON_A_HOST = ["host", "launcher", "worker", "code host"]
RUN_GOES_ON = ["broker", "node"]
EMBEDDED = ["embedding program", "private host", "embedded launcher", "embedded worker"]

PROGRAM = REPOSITORY / "tests" / "programs" / "stubborn.py"


@pytest.fixture
def party() -> Iterator[Party]:
    made = Party()
    made.environment["STUBBORN_PIDS"] = str(made.root / "pids")
    yield made
    made.close()


def stubborn_child(party: Party) -> ProcessIdentity:
    """Waits for the child that the worker left behind."""
    pids = party.root / "pids"
    wait_until(lambda: pids.exists() and pids.read_text().endswith("\n"), 30, "the worker's child started")
    identity = ProcessIdentity.of(int(pids.read_text().split()[-1]))
    assert identity is not None
    return identity


def everyone(pid: int) -> list[ProcessIdentity]:
    """`pid` and all below it."""
    found = (ProcessIdentity.of(each) for each in [pid, *descendants(pid)])
    return [identity for identity in found if identity is not None]


def below(pid: int, wanted: str) -> int:
    """The process below `pid` whose command line holds `wanted`."""
    commands = {
        each: Path(f"/proc/{each}/cmdline").read_bytes().replace(b"\0", b" ").decode() for each in descendants(pid)
    }
    (found,) = [each for each, command in commands.items() if wanted in command]
    return found


def victim(party: Party, name: str) -> int:
    status = party.status()
    if name == "host":
        return int(status["pid"])
    if name in ("broker", "launcher"):
        return int(status[name]["pid"])
    if name == "node":
        (run,) = status["runs"]
        return next(int(node["pid"]) for node in status["nodes"] if node["name"] == run["node"])
    (found,) = [worker for worker in status["workers"] if bool(worker["role"]) == (name == "worker")]
    return int(found["pid"])


def all_ready(party: Party) -> bool:
    """Every part is there and answers."""
    status = party.status()
    parts = [status["broker"], status["launcher"], *status["nodes"]]
    return len(status["nodes"]) == 2 and all(part["state"] == "ready" for part in parts)


def settled(party: Party) -> bool:
    """Every part is there and answers, and no worker is left."""
    return all_ready(party) and not party.status()["workers"]


def assert_failed_with_a_message(run: "subprocess.Popen[str]") -> None:
    out, err = run.communicate(timeout=20)
    assert run.returncode == 1, (out, err)
    assert "partyctl: error: " in err
    assert "Traceback" not in err


@pytest.mark.parametrize("name", ON_A_HOST)
def test_on_a_host_after_the_death_of(name: str, party: Party) -> None:
    party.up("--nodes", "2")
    run = party.start("run", str(PROGRAM))
    child = stubborn_child(party)
    host = party.host_pid()
    before = everyone(host)
    killed = victim(party, name)
    os.kill(killed, signal.SIGKILL)

    wait_until(lambda: not child.is_alive(), LIMIT, f"the worker's child ended after the death of the {name}")
    assert_failed_with_a_message(run)
    if name == "host":
        wait_until(lambda: not any(each.is_alive() for each in before), LIMIT, "nothing of the party is left")
        party.up("--nodes", "2")
    wait_until(lambda: settled(party), 10, "every part is there again")
    assert killed not in [each.pid for each in everyone(party.host_pid())]


@pytest.mark.parametrize("name", RUN_GOES_ON)
def test_on_a_host_the_run_goes_on_after_the_death_of(name: str, party: Party) -> None:
    party.up("--nodes", "2")
    hanging = party.start("run", str(PROGRAM))
    child = stubborn_child(party)
    killed = victim(party, name)
    os.kill(killed, signal.SIGKILL)

    wait_until(lambda: all_ready(party), 10, f"the {name} is there again")
    assert killed not in [each.pid for each in everyone(party.host_pid())]
    # Its provider hangs by itself, so that it is still there says that nothing ended it; and it still takes orders.
    wait_until(lambda: [run["node"] for run in party.status()["runs"]] != [], 10, "the run is there")
    time.sleep(LIMIT)
    assert hanging.poll() is None
    assert child.is_alive()
    hanging.send_signal(signal.SIGINT)
    out, err = hanging.communicate(timeout=20)
    assert hanging.returncode == 130, (out, err)
    wait_until(lambda: not child.is_alive(), LIMIT, "the worker's child ended with the run")
    wait_until(lambda: settled(party), 10, "every part is there")


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_after_the_death_of(name: str, party: Party) -> None:
    program = party.start("run", str(PROGRAM))
    child = stubborn_child(party)
    before = everyone(program.pid)
    host = below(program.pid, "partyctl.host.private")
    launcher = below(program.pid, "partyctl_confinement --control-fd")
    killed = {
        "embedding program": program.pid,
        "private host": host,
        "embedded launcher": launcher,
        "embedded worker": next(
            each.pid for each in before if each.pid not in (program.pid, host, launcher, child.pid)
        ),
    }[name]
    os.kill(killed, signal.SIGKILL)

    wait_until(lambda: not child.is_alive(), LIMIT, f"the worker's child ended after the death of the {name}")
    if name == "embedding program":
        program.communicate(timeout=20)
    else:
        assert_failed_with_a_message(program)
    wait_until(lambda: not any(each.is_alive() for each in before), LIMIT, "nothing of it is left")
    wait_until(lambda: not list((party.root / "run" / "embedded").iterdir()), LIMIT, "its directory is removed")


def test_after_the_death_of_the_owner_of_an_agent_session_its_worker_waits_for_another_and_then_ends(
    party: Party,
) -> None:
    environment = {**scrubbed(os.environ, LAUNCHER_ALLOW), "PYTHONPATH": str(PLUGINS)}
    launcher = LauncherProcess.start(environment=environment, timeout=40, unattached_max=1.0)
    try:
        end = launcher.add_client("node")
        arguments = [str(Party.program("session_owner.py")), str(end.fileno()), str(party.root / "pids")]
        owner = subprocess.Popen(
            [sys.executable, *arguments], stdout=subprocess.PIPE, text=True, pass_fds=(end.fileno(),)
        )
        end.close()
        child = stubborn_child(party)
        owner.kill()
        assert owner.stdout is not None
        worker = ProcessIdentity.of(int(owner.communicate()[0]))
        assert worker is not None
        # Its launcher has heard of the death when it says that nobody has this worker.
        wait_until(lambda: [row.client for row in launcher.workers()] == [""], LIMIT, "the worker is kept")
        assert worker.is_alive()
        assert child.is_alive()
        wait_until(lambda: not (worker.is_alive() or child.is_alive()), 1 + LIMIT, "the worker and its child ended")
    finally:
        launcher.stop()


def test_every_row_of_the_table_has_its_test() -> None:
    rows = re.findall(r"\| `([a-z ]+)` \|$", (REPOSITORY / "docs" / "ownership.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted([*ON_A_HOST, *RUN_GOES_ON, *EMBEDDED, "session owner"])
