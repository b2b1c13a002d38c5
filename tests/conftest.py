"""After every test nothing of it is left: no process. Tests run under a child subreaper, so orphans show up here.

After a run that is killed nothing is left either: its guardian ends what it had started.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from support import guardian

from partyctl_base.process import children, is_alive, set_child_subreaper

SETTLE = 3.0
"""Seconds a test's last processes get to be gone."""

guardian.start()
set_child_subreaper()
# Where tests are begun in the background it may be ignored, and what they start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is no failure.
settings.register_profile("party", deadline=None)
settings.load_profile("party")


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return "?"


def _living() -> list[int]:
    found = []
    for pid in children(os.getpid()):
        if is_alive(pid):
            found.append(pid)
        else:
            # An orphan that has ended waits for its adoptive parent.
            os.waitpid(pid, os.WNOHANG)
    return found


@pytest.fixture(autouse=True)
def nothing_left_running() -> Iterator[None]:
    """Fails a test that leaves a process behind, and ends that process."""
    before = set(_living())
    yield
    deadline = time.monotonic() + SETTLE
    while (left := [pid for pid in _living() if pid not in before]) and time.monotonic() < deadline:
        time.sleep(0.02)
    told = [f"{pid}: {_command(pid)}" for pid in left]
    for pid in left:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    assert not told, f"left running: {told}"
