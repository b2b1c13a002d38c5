"""Ends what a test run leaves when the run itself is killed: by `timeout`, for example, in the middle of a test.

A process beside the test run that waits for its end, and then kills, with its tree, whatever has the run's mark in its
environment. Those that are started without their parent's environment, such as launchers, are below one that has it.
"""

import contextlib
import os
import select
import subprocess
import sys
import time
from pathlib import Path

from partyctl_base.process import is_alive, start_time
from partyctl_confinement.reaper import sweep

MARK = "TEST_RUN_OF"
"""The environment variable that names the test run."""

AGAIN = 0.3
"""Seconds between two looks at the end: one may be starting another while it is looked at."""


def start() -> None:
    """Have this process watched until its end. Called before it becomes a subreaper, or the guardian were its child."""
    os.environ[MARK] = f"{os.getpid()}.{start_time(os.getpid())}"
    quiet = subprocess.DEVNULL  # nobody who reads what the tests print waits for the end of the guardian
    command = [sys.executable, __file__, str(os.getpid()), os.environ[MARK]]
    environment = {name: value for name, value in os.environ.items() if name != MARK}
    subprocess.run(
        command, env=environment, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True, check=True
    )


def mark() -> dict[str, str]:
    """The environment that a process with one of its own needs too."""
    return {MARK: os.environ[MARK]}


def marked(run: str) -> list[int]:
    """The living processes of a test run."""
    wanted, found = f"{MARK}={run}".encode(), []
    for pid in (int(name) for name in os.listdir("/proc") if name.isdecimal()):
        with contextlib.suppress(OSError):  # it ended meanwhile, or is somebody else's
            if wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") and is_alive(pid):
                found.append(pid)
    return found


def watch(pid: int, run: str) -> None:
    """Wait for the end of the process, and end what it leaves."""
    with contextlib.suppress(ProcessLookupError):
        select.select([os.pidfd_open(pid)], [], [])
    for _ in range(3):
        for each in marked(run):
            sweep(each, started=start_time(each))
        time.sleep(AGAIN)


if __name__ == "__main__":
    if os.fork() == 0:
        watch(int(sys.argv[1]), sys.argv[2])
