"""Runtime directories of any length and spelling, and environments with next to nothing in them."""

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from partyctl_base.paths import SOCKET_PATH_MAX

from .conftest import Cli

SUFFIX = len("/default/control.sock")
LONGEST = SOCKET_PATH_MAX - SUFFIX
SESSION = """
import partyctl as ap
A, B = ap.roles("A", "B")
class Word(ap.Message):
    text: str
session = ap.Session(ap.Protocol(ap.send(A, B, Word)), {A: ap.Script([Word("x")]), B: ap.Script([])})
"""


@pytest.fixture
def place() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(dir="/tmp", prefix="p-"))
    yield directory
    shutil.rmtree(directory)


def of_length(place: Path, length: int, spelling: str) -> Path:
    """A directory whose path has so many bytes."""
    name = (spelling * 200).encode()[: length - len(os.fsencode(place)) - 1].decode("utf-8", "ignore")
    path = place / name
    return path.with_name(name + "x" * (length - len(os.fsencode(path))))


@pytest.mark.parametrize(
    ("length", "spelling"), [(60, "x"), (LONGEST, "a b"), (LONGEST, "é ü"), (LONGEST - 1, "部屋 "), (70, "a'\"$%#;")]
)
def test_a_party_runs_wherever_its_sockets_fit(partyctl: Cli, place: Path, length: int, spelling: str) -> None:
    runtime = of_length(place, length, spelling)
    assert len(os.fsencode(runtime)) == length
    partyctl.environment["PARTYCTL_RUNTIME_DIR"] = str(runtime)
    (partyctl.home / "program.py").write_text(SESSION)
    up = partyctl("up", "-d", "--wait", "--nodes", "1")
    try:
        assert up.returncode == 0, up.stderr
        assert partyctl("status", "--check").returncode == 0
        ran = partyctl("run", "program.py")
        assert (ran.returncode, ran.stdout) == (0, 'A -> B: Word(text="x")\n')
        assert "on node/0" in ran.stderr
        assert partyctl("logs").returncode == partyctl("events").returncode == 0
    finally:
        down = partyctl("down", "--now")
    assert down.returncode == 0, down.stderr


@pytest.mark.parametrize(
    ("length", "spelling"), [(LONGEST + 1, "x"), (LONGEST + 1, "é "), (130, "a b"), (200, "部 屋")]
)
def test_where_they_do_not_fit_up_says_what_to_do_and_the_rest_works(
    partyctl: Cli, place: Path, length: int, spelling: str
) -> None:
    partyctl.environment["PARTYCTL_RUNTIME_DIR"] = str(of_length(place, length, spelling))
    (partyctl.home / "program.py").write_text(SESSION)
    for words in (["up"], ["up", "-d", "--wait"]):
        up = partyctl(*words)
        assert up.returncode == 7
        assert f"the socket path is {length + SUFFIX} bytes long, the kernel takes 107" in up.stderr
        assert "Set PARTYCTL_RUNTIME_DIR to a directory with a shorter path" in up.stderr
    assert partyctl("status", "--check").returncode == 3
    assert partyctl("down").returncode == 0
    assert partyctl("run", "program.py").returncode == 0
    assert partyctl("logs").returncode == partyctl("events").returncode == partyctl("config", "show").returncode == 0


def test_a_directory_that_is_no_utf_8_is_refused_in_words(partyctl: Cli, place: Path) -> None:
    runtime = os.fsdecode(os.fsencode(place) + b"/caf\xe9")
    partyctl.environment["PARTYCTL_RUNTIME_DIR"] = runtime
    up = partyctl("up", "-d", "--wait", "--nodes", "1")
    assert up.returncode == 7
    assert "the socket path is no UTF-8" in up.stderr
    assert "Set PARTYCTL_RUNTIME_DIR to a directory with a plain path" in up.stderr
    codes = [partyctl(*words).returncode for words in (["status", "--check"], ["down"], ["logs"])]
    assert codes == [3, 0, 0]


def test_a_party_runs_in_an_empty_environment(partyctl: Cli) -> None:
    # As a service or a cron job has it: neither HOME nor a locale, and partyctl not on PATH.
    party = f"test-{secrets.token_hex(4)}"
    made = [
        Path(tempfile.gettempdir()) / f"partyctl-{os.getuid()}" / party,
        Path(pwd.getpwuid(os.getuid()).pw_dir) / ".local" / "state" / "partyctl" / party,
    ]

    def bare(*words: str) -> "subprocess.CompletedProcess[str]":
        command = ["env", "-i", "PATH=/usr/bin:/bin", *partyctl.command(*words, "--party", party)]
        return subprocess.run(command, cwd=partyctl.home, capture_output=True, text=True, timeout=60, check=False)

    try:
        up = bare("up", "-d", "--wait", "--nodes", "1")
        assert up.returncode == 0, up.stderr
        assert bare("status", "--check").returncode == 0
        assert bare("logs").returncode == 0
        assert bare("down", "--now").returncode == 0
    finally:
        bare("down", "--now")
        for path in made:
            shutil.rmtree(path, ignore_errors=True)
