"""A party comes up, is seen, goes down, and leaves nothing; whatever an earlier one left does not stand in its way."""

import json
import os
import re
import signal
import socket
import subprocess
import time
from dataclasses import replace

import pytest
from support.party import Party, descendants, wait_until

from partyctl_base.process import ProcessIdentity, is_alive
from partyctl_confinement.records import write


def test_a_party_comes_up_shows_its_parts_and_leaves_nothing_when_it_goes_down(party: Party) -> None:
    party.up("--nodes", "2")
    status = party.status()
    assert status["state"] == "ready"
    assert [node["name"] for node in status["nodes"]] == ["node/0", "node/1"]
    parts = [status["broker"], status["launcher"], *status["nodes"]]
    assert all(part["state"] == "ready" and part["memory"] > 1_000_000 and is_alive(part["pid"]) for part in parts)
    assert party.run("status", "--check").returncode == 0
    before = list(descendants(party.host_pid()))
    assert len(before) == 4

    assert party.run("down").returncode == 0
    assert not [pid for pid in before if is_alive(pid)]
    assert sorted(path.name for path in party.runtime.iterdir()) == ["lock", "spawned"]
    assert not list((party.runtime / "spawned").iterdir())
    assert party.run("status", "--check").returncode == 3


def test_what_a_crash_left_does_not_stop_a_start(party: Party) -> None:
    party.runtime.mkdir(parents=True)
    (party.runtime / "lock").write_text(json.dumps({"pid": 1, "party": "default", "started": "2001-01-01T00:00:00Z"}))
    for name in ("control.sock", "broker.sock"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stale:
            stale.bind(str(party.runtime / name))
    (party.runtime / "spawned").mkdir()
    (party.runtime / "spawned" / "1").write_text("garbage")
    party.up("--nodes", "1")
    assert party.run("status", "--check").returncode == 0


@pytest.mark.parametrize("presses", [2, 3])
def test_a_second_interrupt_stops_a_party_whose_run_goes_on(presses: int, party: Party) -> None:
    """Two with a drain between them, and three in a row."""
    party.environment["STUBBORN_PIDS"] = str(party.root / "pids")
    host = party.start("up", "--nodes", "1")
    wait_until(lambda: party.run("status", "--check").returncode == 0, 20, "it is ready")
    run = party.start("run", str(party.program("stubborn.py")))
    wait_until(lambda: (party.root / "pids").exists(), 20, "the turn runs")
    everyone = list(descendants(host.pid))
    begun = time.monotonic()
    host.send_signal(signal.SIGINT)
    if presses == 2:
        wait_until(lambda: party.status()["state"] == "draining", 10, "it drains")
        assert host.poll() is None
    for _ in range(presses - 1):
        host.send_signal(signal.SIGINT)
        time.sleep(0.01)
    _, err = host.communicate(timeout=20)
    assert host.returncode == 130, err
    assert "Traceback" not in err
    assert time.monotonic() - begun < 15
    assert not [pid for pid in everyone if is_alive(pid)]
    run.communicate(timeout=20)
    assert run.returncode != 0


def test_a_run_that_outlasts_the_drain_is_cut_off_and_both_sides_are_told(party: Party) -> None:
    party.environment["STUBBORN_PIDS"] = str(party.root / "pids")
    party.up("--nodes", "1")
    run = party.start("run", str(party.program("stubborn.py")))
    wait_until(lambda: (party.root / "pids").exists(), 20, "the turn runs")
    down = party.run("down", "--timeout", "1")
    assert down.returncode == 0
    assert "cut off after 1 s: 1 run" in down.stderr
    _, err = run.communicate(timeout=20)
    assert run.returncode == 130, err
    assert "cancelled" in err
    assert "stopped party" in party.run("events").stdout


def test_a_second_party_of_the_name_changes_nothing_for_the_first_and_its_run(party: Party) -> None:
    party.environment["STUBBORN_PIDS"] = str(party.root / "pids")
    party.up("--nodes", "1")
    run = party.start("run", str(party.program("stubborn.py")))
    wait_until(lambda: (party.root / "pids").exists(), 20, "the turn runs")
    files = {path.name: path.stat().st_ino for path in party.runtime.iterdir()}
    before = party.status()
    assert party.run("up", "--nodes", "1").returncode == 5
    assert {path.name: path.stat().st_ino for path in party.runtime.iterdir()} == files
    after = party.status()
    assert [run["id"] for run in after["runs"]] == [run["id"] for run in before["runs"]] != []
    assert (after["pid"], after["broker"]["pid"]) == (before["pid"], before["broker"]["pid"])
    assert run.poll() is None


def test_a_worker_that_an_earlier_party_left_running_is_ended_by_the_next_up(party: Party) -> None:
    left = subprocess.Popen(["/bin/sh", "-c", "sleep 999 & wait"], start_new_session=True)
    stranger = subprocess.Popen(["sleep", "999"])
    try:
        wait_until(lambda: len(list(descendants(left.pid))) == 1, 10, "it has a child")
        (child,) = descendants(left.pid)
        records = party.runtime / "spawned"
        records.mkdir(parents=True, mode=0o700)
        for pid, earlier in ((left.pid, 0), (stranger.pid, 1)):
            identity = ProcessIdentity.of(pid)
            assert identity is not None
            # The second record is of a process whose pid is somebody else's now.
            write(records, replace(identity, started=identity.started - earlier))
        party.up("--nodes", "1")
        assert left.wait(10) == -9
        assert not is_alive(child)
        assert is_alive(stranger.pid)
        assert not list(records.iterdir())
    finally:
        for process in (left, stranger):
            process.kill()
            process.wait()


def test_a_role_whose_provider_is_not_installed_stops_the_start_before_anything_runs(party: Party) -> None:
    role = '[roles.{name}]\nprovider = "{provider}"\npermissions = {{ mode = "bypass" }}\napprovals = "deny"\n'
    providers = {"A": "instant", "B": "scripted", "C": "instnt", "D": "stubborn"}
    file = party.root / "party.toml"
    file.write_text("".join(role.format(name=name, provider=provider) for name, provider in providers.items()))
    for words in (("up", "--wait"), ("up",)):
        refused = party.run(*words)
        assert refused.returncode == 7
        assert f"{file}:10, roles.C.provider" in refused.stderr
        assert "instant" in refused.stderr
        assert not (party.runtime / "control.sock").exists()
    file.write_text(file.read_text().replace("instnt", "instant"))
    party.up("--nodes", "1")
    assert len(list(descendants(party.host_pid()))) == 3


def test_a_draining_party_takes_no_new_run_and_down_says_what_it_waits_for(party: Party) -> None:
    party.environment["STUBBORN_PIDS"] = str(party.root / "pids")
    party.up("--nodes", "1")
    run = party.start("run", str(party.program("stubborn.py")))
    wait_until(lambda: (party.root / "pids").exists(), 20, "the turn runs")
    down = party.start("down", "--timeout", "60")
    wait_until(lambda: party.status()["state"] == "draining", 10, "it drains")
    late = party.run("run", str(party.program("review.py")))
    assert late.returncode == 1
    assert "takes no new run" in late.stderr
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=30)
    assert run.returncode == 130
    out, err = down.communicate(timeout=30)
    assert down.returncode == 0
    assert re.search(r"waiting for run run-\w+, whose turn Answerer has", out + err)


def test_a_stopped_host_is_told_from_a_dead_one(party: Party) -> None:
    party.up("--nodes", "1")
    pid = party.host_pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        asked = party.run("status", "--check")
        assert asked.returncode == 4
        assert "stopped" in asked.stderr + asked.stdout
        assert str(pid) in asked.stderr + asked.stdout
    finally:
        os.kill(pid, signal.SIGCONT)
