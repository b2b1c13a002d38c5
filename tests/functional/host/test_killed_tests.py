"""A test run that is killed leaves no party behind."""

import subprocess
import sys

from support.party import Party, wait_until

from partyctl_base.process import is_alive

RUN = """
import os, signal, subprocess, sys
from support import guardian
from partyctl_base.process import set_child_subreaper
guardian.start()
set_child_subreaper()
subprocess.run([sys.executable, "-m", "partyctl", "up", "--wait", "--nodes", "1"], check=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_party_in_the_background_ends_with_the_test_run_that_is_killed(party: Party) -> None:
    environment = {**party.environment, "PYTHONPATH": ":".join(path for path in sys.path if path)}
    subprocess.run([sys.executable, "-c", RUN], env=environment, cwd=party.root, timeout=60, check=False)
    host = party.host_pid()
    wait_until(lambda: not is_alive(host), 5, "the host is ended")
    assert "still running" not in party.run("status").stdout
