"""A host that is process 1 of a container: whatever loses its parent anywhere in it is the party's to reap."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.party import Party, wait_until

from partyctl_base.process import children, is_alive

CONTAINER = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"]


@pytest.fixture
def container(party: Party) -> Iterator["subprocess.Popen[bytes]"]:
    """A party whose host is process 1; the process that started it."""
    if shutil.which("nsenter") is None or subprocess.run([*CONTAINER, "true"], capture_output=True).returncode:
        pytest.skip("needs a process namespace of its own")
    command = [*CONTAINER, sys.executable, "-P", "-m", "partyctl", "up", "--nodes", "1"]
    with subprocess.Popen(command, env=party.environment, cwd=party.root, stderr=subprocess.DEVNULL) as started:
        yield started
        started.kill()
    shutil.rmtree(party.runtime)  # its lock names a process 1, which out here is somebody else


def everyone(pid: int) -> list[int]:
    """All below `pid`, the dead ones too."""
    found = children(pid)
    return [*found, *(each for child in found for each in everyone(child))]


def inside(party: Party, host: int, *words: str) -> "subprocess.Popen[str]":
    """`partyctl WORDS` in the container."""
    enter = ["nsenter", "--target", str(host), "--user", "--mount", "--pid", f"--wdns={party.root}", "--"]
    command = [*enter, sys.executable, "-P", "-m", "partyctl", *words]
    return subprocess.Popen(command, env=party.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_fifty_turns_whose_tools_leave_processes_behind_leave_no_zombies(
    party: Party, container: "subprocess.Popen[bytes]"
) -> None:
    wait_until(lambda: (party.runtime / "control.sock").exists(), 20, "the host listens")
    (host,) = children(container.pid)
    assert Path(f"/proc/{host}/status").read_text().split("NSpid:")[1].split("\n")[0].split()[-1] == "1"
    with inside(party, host, "up", "--wait", "--ok-if-running") as asked:
        assert asked.wait(20) == 0
    with inside(party, host, "run", str(party.program("forking.py"))) as run:
        try:
            assert run.stdout is not None
            lines: list[str] = []
            while sum(line.startswith("Answerer -> Asker") for line in lines) < 50:
                lines.append(run.stdout.readline())
                assert lines[-1], lines
            dead = [pid for pid in everyone(host) if not is_alive(pid)]
            assert len(dead) <= 5, "only those of the last turns, which the next ones would reap"
            (runner,) = (pid for pid in children(run.pid) if is_alive(pid)) if children(run.pid) else (run.pid,)
            os.kill(runner, signal.SIGINT)
            run.communicate(timeout=20)
        finally:
            run.kill()
    wait_until(lambda: len(everyone(host)) == 3, 15, "broker, launcher and node are left, and nobody else")
    os.kill(host, signal.SIGTERM)
    assert container.wait(20) == 0
