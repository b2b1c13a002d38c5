"""A run whose process is lost says how it ended and how to go on."""

import os
import re
import signal

import pytest
from support.party import Party, wait_until

from partyctl_base.process import is_alive

ADVICE = re.compile(r"^go on with: partyctl runs resume run-\w+$", re.MULTILINE)


@pytest.mark.parametrize(
    ("way", "told"), [("kill", "killed by SIGKILL"), ("segfault", "killed by SIGSEGV"), ("exit", "status 3")]
)
def test_a_code_host_that_ends_says_how_and_how_to_go_on(party: Party, way: str, told: str) -> None:
    party.environment["WAY"] = way
    party.up("--nodes", "1")
    failed = party.run("run", str(party.program("dies.py")))
    assert failed.returncode == 1
    assert f"the process that had imported the file ended ({party.program('dies.py')}): " in failed.stderr
    assert told in failed.stderr
    assert "is gone" not in failed.stderr
    assert ADVICE.search(failed.stderr), failed.stderr


def test_a_launcher_that_is_killed_is_named_and_the_run_can_go_on(party: Party) -> None:
    party.environment["WAY"] = "none"
    party.up("--nodes", "1")
    run = party.start("run", str(party.program("dies.py")))
    wait_until(lambda: [each["waiting_for"] for each in party.status()["runs"]] == ["B"], 20, "B is asked")
    os.kill(party.status()["launcher"]["pid"], signal.SIGKILL)
    _, err = run.communicate(timeout=30)
    assert run.returncode == 1, err
    assert "launcher" in err
    assert "then run again" not in err
    assert ADVICE.search(err), err


LEAVING = """
import os, subprocess
import partyctl as ap
A, B = ap.roles("A", "B")
class Say(ap.Message):
    pass
def leave(offer, heard):
    left = subprocess.Popen(["sleep", "600"], start_new_session=True)
    with open("left", "w") as file:
        file.write(f"{left.pid} {os.getpid()}")
    return Say()
session = ap.Session(ap.Protocol(ap.send(A, B, Say)), {A: leave, B: ap.Script([])})
"""


def test_what_a_function_started_and_left_is_ended_with_the_last_run_of_its_file(party: Party) -> None:
    (party.root / "leaving.py").write_text(LEAVING)
    party.up("--nodes", "1")
    done = party.run("run", "leaving.py")
    assert done.returncode == 0, done.stderr
    pids = [int(pid) for pid in (party.root / "left").read_text().split()]
    wait_until(lambda: not any(is_alive(pid) for pid in pids), 5, "the code host and what it left are gone")
