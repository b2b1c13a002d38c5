"""A participant that asks for the end of the process fails its own run, with a host and without one."""

import re
import signal
import time

import pytest
from support.party import Party, wait_until


@pytest.fixture
def program(party: Party) -> str:
    party.environment["GO"] = str(party.root / "go")
    return str(party.program("exits.py"))


def test_with_a_party_up_the_other_run_of_the_file_goes_on(party: Party, program: str) -> None:
    party.up("--nodes", "1")
    other = party.start("run", f"{program}:other")
    wait_until(lambda: [run["waiting_for"] for run in party.status()["runs"]] == ["A"], 20, "the other run waits")
    for name, raised in {"sync": "SystemExit: 5", "task": "SystemExit: 5", "ctrl_c": "KeyboardInterrupt"}.items():
        failed = party.run("run", f"{program}:{name}")
        assert failed.returncode == 1, failed.stderr
        assert f"it raised {raised}" in failed.stderr
        assert re.search(r"raised by A, run \S+, step 1", failed.stderr), failed.stderr
    failed = party.run("run", f"{program}:bind")
    assert re.search(r"raised by B in bind\(\), run \S+, at .*exits.py:\d+, in bind", failed.stderr), failed.stderr
    # Its further line is set in, so that the note is seen to be one.
    assert failed.stderr.splitlines()[-2] == "  of an error"
    assert "Traceback" not in failed.stderr
    (party.root / "go").touch()
    out, err = other.communicate(timeout=30)
    assert (other.returncode, 'Word(text="went on")' in out) == (0, True), err


@pytest.mark.parametrize(
    ("name", "raised"),
    [
        ("sync", "SystemExit: 5"),
        ("task", "SystemExit: 5"),
        ("ctrl_c", "KeyboardInterrupt"),
        ("tracer", "SystemExit: 3"),
    ],
)
def test_without_one_it_is_the_failure_of_the_run(party: Party, program: str, name: str, raised: str) -> None:
    failed = party.run("run", f"{program}:{name}")
    assert failed.returncode == 1, failed.stderr
    assert f"it raised {raised}" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert "pending" not in failed.stderr
    assert "never retrieved" not in failed.stderr


@pytest.mark.parametrize(
    ("name", "held"),
    [
        ("hear", "B, at {}:{}, in hear"),
        ("close", "B, at {}:{}, in close"),
        ("record", "the tracer, at {}:{}, in record"),
    ],
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_code_that_holds_the_loop_is_named_when_a_second_signal_ends_it(
    party: Party, number: signal.Signals, name: str, held: str
) -> None:
    file = party.program("stuck.py")
    run = party.start("run", f"{file}:{name}", STUCK=str(party.root / "stuck"))
    wait_until(lambda: (party.root / "stuck").exists(), 20, "it is stuck")
    run.send_signal(number)
    time.sleep(0.3)  # two at once are one to the kernel
    run.send_signal(number)
    _, err = run.communicate(timeout=20)
    assert run.returncode == 128 + number, err
    line = 1 + file.read_text().splitlines().index("        time.sleep(600)  # in " + name)
    assert f"by force: held by {held.format(file, line)}" in err


def test_code_that_holds_the_loop_is_ended_by_one_signal_in_some_seconds(party: Party) -> None:
    run = party.start("run", f"{party.program('stuck.py')}:hear", STUCK=str(party.root / "stuck"))
    wait_until(lambda: (party.root / "stuck").exists(), 20, "it is stuck")
    began = time.monotonic()
    run.terminate()
    _, err = run.communicate(timeout=20)
    assert (run.returncode, time.monotonic() - began < 8) == (143, True), err


@pytest.mark.parametrize("name", ["deaf", "pooled"])
def test_a_participant_that_does_not_stop_is_left_behind_and_the_process_ends(party: Party, name: str) -> None:
    began = time.monotonic()
    run = party.run("run", f"{party.program('stuck.py')}:{name}", STUCK=str(party.root / "stuck"))
    assert run.returncode == 1, run.stderr
    assert "did not speak in time" in run.stderr
    assert "left behind" in run.stderr
    assert time.monotonic() - began < 20
