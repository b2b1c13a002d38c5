"""The table of exit codes, a test a row: each code is seen where its row says, at the real command line."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version

import pytest

from partyctl.errors import ExitCode
from tests.fakes.control_host import STATUS, FakeHost

from .conftest import Cli

SESSION = """
import asyncio, sys
import partyctl as ap
A, B = ap.roles("A", "B")
class Word(ap.Message):
    text: str
async def play(*_):
    print("playing", file=sys.stderr, flush=True)
    await asyncio.sleep({seconds})
    {play}
session = ap.Session(ap.Protocol(ap.send(A, B, Word)), {{A: play, B: ap.Script([])}})
"""


def program(partyctl: Cli, play: str, seconds: float = 0) -> str:
    path = partyctl.home / "program.py"
    path.write_text(SESSION.format(play=play, seconds=seconds))
    return str(path)


def covered() -> set[ExitCode]:
    """The rows that a test of this module is about."""
    tests = [value for name, value in globals().items() if name.startswith("test_code_")]
    return {ExitCode(int(test.__name__.split("_")[2])) for test in tests}


def test_every_row_has_a_test() -> None:
    assert covered() == set(ExitCode)


def test_code_0_is_success_and_down_on_nothing_is_one(partyctl: Cli) -> None:
    assert partyctl("down").returncode == 0
    assert partyctl("status").returncode == 0
    assert partyctl("run", program(partyctl, 'return Word("x")')).returncode == 0


def test_code_1_is_a_role_that_failed(partyctl: Cli) -> None:
    done = partyctl("run", program(partyctl, 'raise ValueError("no idea, token=abcdef")'))
    assert done.returncode == 1
    assert "no idea, token=***" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["stats"],
        ["status", "--jsn"],
        ["up", "--nodes", "0"],
        ["down", "--timeout", "soon"],
        ["run"],
        ["logs", "a", "b"],
        ["logs", "brokr"],
        ["events", "--since", "x"],
        ["config", "chck"],
        ["config", "check", "a", "b"],
        ["key", "add"],
        ["key", "rovoke", "x"],
        ["plugins", "x"],
    ],
)
def test_code_2_is_wrong_usage_of_any_verb(partyctl: Cli, words: list[str]) -> None:
    done = partyctl(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: ")


def test_code_3_is_a_check_of_what_does_not_run(partyctl: Cli) -> None:
    assert partyctl("status", "--check").returncode == 3
    assert partyctl("status", "--check", "--json").returncode == 3


@pytest.mark.parametrize(
    ("behaviour", "words"), [("silent", []), ("doorless", ["--check"]), ("foreign", []), ("foreign", ["--check"])]
)
def test_code_4_is_a_host_that_cannot_be_understood(partyctl: Cli, behaviour: str, words: list[str]) -> None:
    with FakeHost(partyctl.runtime / "p", behaviour):
        assert partyctl("status", "--party", "p", *words).returncode == 4


def test_code_4_is_a_lock_that_cannot_be_read(partyctl: Cli) -> None:
    (partyctl.runtime / "default" / "lock").mkdir(parents=True)
    done = partyctl("status", "--check")
    assert (done.returncode, done.stdout) == (4, "")
    assert "it cannot be told whether" in done.stderr
    assert '"state": "unknown"' in partyctl("status", "--json").stdout


def test_code_5_is_a_party_that_already_runs(partyctl: Cli) -> None:
    with FakeHost(partyctl.runtime / "p") as host:
        done = partyctl("up", "--party", "p")
        assert done.returncode == 5
        assert f"pid {host.pid}" in done.stderr
        assert partyctl("up", "--party", "p", "--ok-if-running").returncode == 0


@pytest.mark.parametrize("state", ["failed", "limited", "needs login", "not responding"])
def test_code_6_is_a_party_with_a_worker_in_trouble(partyctl: Cli, state: str) -> None:
    with FakeHost(partyctl.runtime / "p", status={**STATUS, "workers": [{"name": "w", "state": state}]}):
        assert partyctl("status", "--party", "p", "--check").returncode == 6
        assert partyctl("status", "--party", "p").returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        ["up"],
        ["up", "-d"],
        ["run", "none.py"],
        ["config", "check"],
        ["config", "show"],
        ["status"],
        ["logs"],
        ["events"],
        ["key", "add", "x"],
        ["key", "list"],
    ],
)
def test_code_7_is_a_file_that_cannot_be_used(partyctl: Cli, words: list[str]) -> None:
    (partyctl.home / "party.toml").write_text("[party\n")
    done = partyctl(*words)
    assert (done.returncode, done.stdout) == (7, "")
    assert "Traceback" not in done.stderr


def test_code_7_is_a_protocol_that_is_refused(partyctl: Cli) -> None:
    path = partyctl.home / "program.py"
    path.write_text("import partyctl as ap\nA, B = ap.roles('A', 'A')\n")
    assert partyctl("run", str(path)).returncode == 7


@contextlib.contextmanager
def playing(partyctl: Cli) -> Iterator[int]:
    """A run whose role never speaks; ends with its exit code known."""
    run = partyctl.start("run", program(partyctl, 'return Word("x")', seconds=60))
    try:
        assert run.stderr is not None
        while "playing" not in (line := run.stderr.readline()):
            assert line, "the run ended"
        yield run.pid
        _, told = run.communicate(timeout=30)
        assert "Traceback" not in told
        codes.append(run.returncode)
    finally:
        run.kill()
        run.communicate()


codes: list[int] = []


def test_code_130_is_an_end_by_ctrl_c(partyctl: Cli) -> None:
    with playing(partyctl) as pid:
        os.kill(pid, signal.SIGINT)
    assert codes.pop() == 130


def test_a_ctrl_c_while_the_command_line_is_still_imported_ends_it_as_at_any_later_moment(partyctl: Cli) -> None:
    finder = (
        "class Ctrl_C:\n  def find_spec(self, name, *_):\n    if name == 'click': os.kill(os.getpid(), signal.SIGINT)"
    )
    program = f"import os, signal, sys\n{finder}\nsys.meta_path.insert(0, Ctrl_C())\n"
    words = [sys.executable, "-P", "-c", f"{program}from partyctl.cli import main\nsys.exit(main(['status']))"]
    done = subprocess.run(words, env=partyctl.environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "partyctl: interrupted\n")


def test_code_143_is_an_end_by_sigterm(partyctl: Cli) -> None:
    with playing(partyctl) as pid:
        os.kill(pid, signal.SIGTERM)
    assert codes.pop() == 143


@pytest.mark.parametrize(("behaviour", "theirs"), [("foreign", "99 (partyctl 9.9"), ("older", "1 (partyctl 0.0.9")])
def test_a_host_of_another_version_is_named_and_stopped_all_the_same(
    partyctl: Cli, behaviour: str, theirs: str
) -> None:
    with FakeHost(partyctl.runtime / "p", behaviour) as host:
        done = partyctl("status", "--party", "p")
        assert f"speaks version {theirs}), this is version 1 (partyctl {version('partyctl')})" in done.stderr
        assert "partyctl down" in done.stderr
        begun = time.monotonic()
        assert partyctl("down", "--party", "p").returncode == 0
        assert time.monotonic() - begun < 20
        assert host.pid
        assert partyctl("status", "--party", "p", "--check").returncode == 3
