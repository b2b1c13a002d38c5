"""Private hosts: many at once, and programs that are ended in the middle of starting one."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.party import Party, descendants, wait_until


def commands(pid: int) -> list[str]:
    found = []
    for each in descendants(pid):
        try:
            found.append(Path(f"/proc/{each}/cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def leftovers(party: Party) -> list[str]:
    directory = party.root / "run" / "embedded"
    return [path.name for path in directory.iterdir()] if directory.exists() else []


def test_twenty_sessions_at_once_in_one_program_leave_nothing(party: Party) -> None:
    program = party.start(program=str(party.program("crowd.py")))
    out, err = program.communicate(timeout=80)
    assert program.returncode == 0, err
    assert out.splitlines() == [f"question {number} answer {number}" for number in range(20)]
    assert err == ""
    assert leftovers(party) == []


@pytest.mark.parametrize(("presses", "after"), [(1, 0.0), (2, 0.1), (1, 0.3)])
def test_ctrl_c_while_a_private_host_starts_leaves_nothing(presses: int, after: float, party: Party) -> None:
    party.environment["PROVIDER"] = "instant"
    run = party.start("run", str(party.program("broken.py")))
    wait_until(lambda: any("host.private" in each for each in commands(run.pid)), 20, "the private host is starting")
    time.sleep(after)
    for _ in range(presses):
        run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=30)
    # -2: the interrupt met an interpreter that had done its work and was on its way out.
    assert run.returncode in (0, 130, -2), err
    assert "Traceback" not in err
    wait_until(lambda: not leftovers(party), 10, "its directory is gone")


def test_ctrl_c_ends_a_file_that_hangs_while_it_is_imported(party: Party) -> None:
    file = party.root / "mine.py"
    file.write_text("import pathlib, time\npathlib.Path('begun').touch()\ntime.sleep(60)\n")
    run = party.start("run", str(file))
    wait_until((party.root / "begun").exists, 20, "the import has begun")
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=20)
    assert run.returncode == 130, err
    assert "Traceback" not in err


def test_a_reader_that_has_had_enough_ends_the_run(party: Party) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = f"exec {sys.executable} -m partyctl run {party.program('review.py')} >&{writing}"
    run = subprocess.run(
        ["/bin/sh", "-c", command],
        env=party.environment,
        cwd=party.root,
        pass_fds=(writing,),
        stderr=subprocess.PIPE,
        text=True,
        timeout=40,
        check=False,
    )
    os.close(writing)
    assert run.returncode != 0
    assert "Traceback" not in run.stderr
    assert leftovers(party) == []
