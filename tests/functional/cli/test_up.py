"""`up` with the real host: in the foreground, detached, twenty at once, after a crash, and when it goes wrong."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from partyctl.control import is_held
from partyctl.hostlog import LOG_MAX
from partyctl_base.process import is_alive

from .conftest import Cli


@pytest.fixture(autouse=True)
def ended(partyctl: Cli) -> Iterator[None]:
    """Whatever a test left running is stopped, and a host that does not stop fails the test."""
    yield
    if (pid := named(partyctl)) is not None and is_held(lock(partyctl)):
        partyctl("down", "--now")
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)
            pytest.fail(f"the host {pid} did not stop")


def lock(partyctl: Cli) -> Path:
    return partyctl.runtime / "default" / "lock"


def named(partyctl: Cli) -> int | None:
    """The process that the lock file names."""
    try:
        return int(json.loads(lock(partyctl).read_text())["pid"])
    except (OSError, ValueError):
        return None


def until(true: Callable[[], object], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def processes(partyctl: Cli) -> set[int]:
    document = json.loads(partyctl("status", "--json").stdout)
    parts = [document, document["broker"], document["launcher"], *document["nodes"]]
    return {part["pid"] for part in parts}


def test_a_party_comes_up_detached_is_seen_and_leaves_nothing(partyctl: Cli) -> None:
    up = partyctl("up", "-d", "--wait", "--nodes", "2")
    assert (up.returncode, up.stdout) == (0, "")
    assert 'party "default" is ready' in up.stderr
    assert partyctl("status", "--check").returncode == 0
    pids = processes(partyctl)
    assert len(pids) == 5
    down = partyctl("down")
    assert down.returncode == 0
    assert not {pid for pid in pids if is_alive(pid)}
    assert not is_held(lock(partyctl))
    assert not [path for path in lock(partyctl).parent.rglob("*") if path.is_socket()]


def test_the_log_of_a_party_in_the_background_is_bounded_while_it_runs(partyctl: Cli) -> None:
    assert partyctl("up", "-d", "--wait", "--nodes", "1").returncode == 0
    log = partyctl.home / "state" / "partyctl" / "default" / "host.log"
    os.truncate(log, LOG_MAX + 1)
    until(lambda: log.with_name("host.log.1").exists() and log.exists())
    assert partyctl("down").returncode == 0
    assert log.stat().st_size < 1000
    assert log.with_name("host.log.1").stat().st_size == LOG_MAX + 1


def test_detaching_without_wait_returns_when_the_lock_is_held(partyctl: Cli) -> None:
    up = partyctl("up", "-d", "--nodes", "1")
    assert up.returncode == 0
    assert is_held(lock(partyctl))
    assert f"pid {named(partyctl)}" in up.stderr
    assert partyctl("up", "--wait", "--ok-if-running").returncode == 0
    assert partyctl("status", "--check").returncode == 0


def test_the_first_interrupt_drains_a_party_in_the_foreground(partyctl: Cli) -> None:
    host = partyctl.start("up", "--nodes", "1")
    try:
        assert host.stderr is not None
        assert "is up" in host.stderr.readline()
        host.send_signal(signal.SIGINT)
        _, told = host.communicate(timeout=30)
    finally:
        host.kill()
        host.wait()
    assert host.returncode == 0
    assert "Traceback" not in told


def test_of_twenty_at_once_one_runs_and_nineteen_name_it(partyctl: Cli) -> None:
    starters = [partyctl.start("up", "--nodes", "1") for _ in range(20)]
    try:
        until(lambda: sum(starter.poll() is None for starter in starters) == 1, 80)
        (runs,) = (starter for starter in starters if starter.poll() is None)
        refused = [(starter.returncode, starter.communicate()[1]) for starter in starters if starter is not runs]
        assert [code for code, _ in refused] == [5] * 19
        assert all(f"(pid {runs.pid})" in told for _, told in refused)
        until(lambda: partyctl("status", "--check").returncode == 0)
        assert partyctl("down").returncode == 0
    finally:
        for starter in starters:
            starter.kill()
            starter.communicate()


def test_a_host_that_comes_too_late_tells_its_starter_so(partyctl: Cli) -> None:
    assert partyctl("up", "-d", "--wait", "--nodes", "1").returncode == 0
    pid = json.loads(partyctl("status", "--json").stdout)["pid"]
    report, theirs = os.pipe()
    try:
        late = subprocess.run(
            partyctl.command("up", "--report-fd", str(theirs)), env=partyctl.environment, cwd=partyctl.home,
            pass_fds=(theirs,), capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        told = os.read(report, 4096)
        assert late.returncode == 5
        assert told.startswith(b"!")
        assert json.loads(told[1:])["owner"] == pid
    finally:
        os.close(report)
        os.close(theirs)
        partyctl("down", "--now")


def test_what_a_crash_leaves_does_not_stop_a_start(partyctl: Cli) -> None:
    assert partyctl("up", "-d", "--wait", "--nodes", "1").returncode == 0
    pids = processes(partyctl)
    pid = named(partyctl)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: not [pid for pid in pids if is_alive(pid)], 3)
    assert f"not running\n! its host (pid {pid}, since " in partyctl("status").stdout
    assert partyctl("up", "-d", "--wait", "--nodes", "1").returncode == 0
    events = [json.loads(line) for line in partyctl("events", "--json").stdout.splitlines()]
    (lost,) = [event["fields"] for event in events if event["kind"] == "host_lost"]
    assert (lost["pid"], lost["left"]) == (pid, [])
    assert json.loads(partyctl("status", "--json").stdout)["lost"] == lost
    assert partyctl("down").returncode == 0
    assert "farewell" not in partyctl("status").stdout


def test_whoever_is_killed_another_one_wins_and_only_one(partyctl: Cli) -> None:
    for _ in range(3):
        starters = [partyctl.start("up", "-d", "--wait", "--nodes", "1") for _ in range(6)]
        told = [starter.communicate(timeout=80)[1] for starter in starters]
        codes = sorted(starter.returncode for starter in starters)
        winner = named(partyctl)
        assert codes == [0, 5, 5, 5, 5, 5], told
        assert sum(f"(pid {winner})" in text for text in told) == 6
        pids = processes(partyctl)
        assert winner is not None
        os.kill(winner, signal.SIGKILL)
        until(lambda pids=pids: not [pid for pid in pids if is_alive(pid)], 5)  # type: ignore[misc]


def test_a_stopped_broker_is_seen_within_two_seconds_and_a_killed_one_with_its_cause(partyctl: Cli) -> None:
    assert partyctl("up", "-d", "--wait", "--nodes", "1").returncode == 0
    broker = json.loads(partyctl("status", "--json").stdout)["broker"]["pid"]
    os.kill(broker, signal.SIGSTOP)
    # The start of the command itself is not the broker's: an empty one is measured and taken off.
    begun = time.monotonic()
    partyctl("--version")
    empty = time.monotonic() - begun
    begun = time.monotonic()
    done = partyctl("status", "--check")
    assert time.monotonic() - begun - empty < 2
    assert done.returncode == 6
    assert "! broker is not responding" in done.stdout
    os.kill(broker, signal.SIGKILL)
    until(lambda: partyctl("status", "--check").returncode == 0)
    shown = partyctl("status").stdout
    (line,) = (line for line in shown.splitlines() if line.startswith("broker"))
    assert line.rstrip().endswith("was killed by SIGKILL")
    assert line.split()[5] == "1"


def test_a_host_that_cannot_start_says_why_through_its_starter(partyctl: Cli) -> None:
    deep = str(partyctl.runtime / ("d" * 110))
    up = partyctl("up", "-d", "--wait", PARTYCTL_RUNTIME_DIR=deep)
    assert up.returncode == 7
    assert up.stderr.startswith("partyctl: error: the socket path is")
    assert up.stderr.count("PARTYCTL_RUNTIME_DIR") == 1


def test_a_host_that_is_not_ready_in_time_is_ended(partyctl: Cli) -> None:
    up = partyctl("up", "-d", "--wait", "--wait-timeout", "0", "--nodes", "1")
    assert up.returncode == 4
    assert "was not ready within 0 s" in up.stderr
    assert not is_held(lock(partyctl))


def starting(partyctl: Cli) -> "tuple[subprocess.Popen[str], int]":
    """A starter that waits, and the host it waits for."""
    starter = partyctl.start("up", "--wait", "--nodes", "1")
    until(lambda: named(partyctl))
    pid = named(partyctl)
    assert pid is not None
    return starter, pid


def test_a_host_that_is_killed_before_it_is_ready_is_reported(partyctl: Cli) -> None:
    starter, pid = starting(partyctl)
    os.kill(pid, signal.SIGKILL)
    _, told = starter.communicate(timeout=30)
    assert starter.returncode == 1
    assert "the host ended before it was ready: killed by signal 9" in told


def test_an_interrupted_starter_takes_its_host_with_it(partyctl: Cli) -> None:
    starter, pid = starting(partyctl)
    starter.send_signal(signal.SIGINT)
    starter.communicate(timeout=30)
    assert starter.returncode == 130
    assert not is_alive(pid)


def test_a_party_that_runs_as_its_file_was_before_is_not_taken_for_one_that_runs_as_it_is(partyctl: Cli) -> None:
    file = partyctl.home / "party.toml"
    file.write_text("[limits]\nruns = 7\n")
    assert partyctl("up", "--wait", "--nodes", "1").returncode == 0
    assert partyctl("up", "--ok-if-running").returncode == 0
    file.write_text("[limits]\nruns = 8\n")
    for words in ((), ("--wait",)):
        other = partyctl("up", "--ok-if-running", *words)
        assert other.returncode == 5
        assert f"is already running, with another configuration (pid {named(partyctl)})" in other.stderr
    file.write_text("[limits]\nruns = 7\n")
    more = partyctl("up", "--ok-if-running", "--nodes", "2", "-d")
    assert more.returncode == 5
    assert "with another configuration" in more.stderr
    assert partyctl("up", "--ok-if-running", "--nodes", "1").returncode == 0
    file.write_text("# as it was\n[limits]\nruns = 7\n")
    assert partyctl("up", "--ok-if-running").returncode == 0
