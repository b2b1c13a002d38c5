"""A party comes up, is seen, goes down, and leaves nothing; whatever an earlier one left does not stand in its way."""

import json
import os
import re
import signal
import socket
import time

from support.party import Party, descendants, wait_until

from partyctl_base.process import is_alive


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


def test_of_twenty_at_once_one_runs_and_nineteen_name_it(party: Party) -> None:
    starters = [party.start("up", "--nodes", "1") for _ in range(20)]

    def refused() -> list[int]:
        return [starter.pid for starter in starters if starter.poll() is not None]

    wait_until(lambda: len(refused()) == 19, 60, "nineteen have given up")
    winner = party.host_pid()
    for starter in starters:
        if starter.pid == winner:
            continue
        _, err = starter.communicate()
        assert starter.returncode == 5, err
        assert f"pid {winner}" in err
    wait_until(lambda: party.run("status", "--check").returncode == 0, 20, "the one that runs is ready")
    assert party.status()["pid"] == winner


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


def test_the_first_interrupt_drains_and_ends_with_0(party: Party) -> None:
    host = party.start("up", "--nodes", "1")
    wait_until(lambda: party.run("status", "--check").returncode == 0, 20, "it is ready")
    host.send_signal(signal.SIGINT)
    _, err = host.communicate(timeout=20)
    assert host.returncode == 0
    assert "draining" in err


def test_the_second_interrupt_stops_a_party_whose_run_goes_on(party: Party) -> None:
    party.environment["STUBBORN_PIDS"] = str(party.root / "pids")
    host = party.start("up", "--nodes", "1")
    wait_until(lambda: party.run("status", "--check").returncode == 0, 20, "it is ready")
    run = party.start("run", str(party.program("stubborn.py")))
    wait_until(lambda: (party.root / "pids").exists(), 20, "the turn runs")
    host.send_signal(signal.SIGINT)
    wait_until(lambda: party.status()["state"] == "draining", 10, "it drains")
    assert host.poll() is None
    begun = time.monotonic()
    host.send_signal(signal.SIGINT)
    host.communicate(timeout=20)
    assert host.returncode == 130
    assert time.monotonic() - begun < 10
    run.communicate(timeout=20)
    assert run.returncode != 0


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


def test_a_broker_that_cannot_start_is_an_error_and_leaves_nothing(party: Party) -> None:
    deep = party.root / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    party.environment["PARTYCTL_RUNTIME_DIR"] = str(deep)
    started = party.run("up", "--nodes", "1")
    assert started.returncode == 7
    assert "107" in started.stderr
    assert "PARTYCTL_RUNTIME_DIR" in started.stderr
    party.environment["PARTYCTL_RUNTIME_DIR"] = str(party.root / "run")
