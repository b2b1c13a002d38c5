"""Ends what a test run leaves when the run itself is killed: by `timeout`, for example, in the middle of a test.

A process beside the test run that looks at its descendants a few times a second. The run is a subreaper, so a party in
the background is among them, and so is whatever that started. When the run is gone, all that were seen are killed, with
their trees.
"""

import contextlib
import os
import select
import subprocess
import sys

from partyctl_base.process import ProcessIdentity, children
from partyctl_confinement.reaper import sweep

EVERY = 0.2
"""Seconds between two looks; what was started since the last one and lost its parent since is not found."""


def start() -> None:
    """Have this process watched until its end. Called before it becomes a subreaper, or the guardian were its child."""
    quiet = subprocess.DEVNULL  # nobody who reads what the tests print waits for the end of the guardian
    command = [sys.executable, __file__, str(os.getpid())]
    subprocess.run(command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True, check=True)


def descendants(pid: int) -> list[ProcessIdentity]:
    """All below a process, those nearest to it first."""
    found: list[ProcessIdentity] = []
    waiting = [pid]
    while waiting:
        below = children(waiting.pop(0))
        found += [identity for each in below if (identity := ProcessIdentity.of(each)) is not None]
        waiting += below
    return found


def watch(pid: int) -> None:
    """Wait for the end of the process, and end what it leaves."""
    with contextlib.suppress(ProcessLookupError):
        ending = os.pidfd_open(pid)
        left: list[ProcessIdentity] = []
        while not select.select([ending], [], [], EVERY)[0]:
            left = descendants(pid)
        for each in left:
            if each.is_alive():
                sweep(each.pid, started=each.started)


if __name__ == "__main__":
    if os.fork() == 0:
        watch(int(sys.argv[1]))
