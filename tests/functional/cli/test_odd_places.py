"""Outputs, directories and files that are not what a command expects: an error that says so, never a traceback."""

import os
import subprocess
from pathlib import Path

import pytest

from .conftest import Cli

SESSION = """
import partyctl as ap
A, B = ap.roles("A", "B")
class Word(ap.Message):
    text: str
session = ap.Session(ap.Protocol(ap.send(A, B, Word)), {A: ap.Script([Word("x")]), B: ap.Script([])})
"""


def shell(partyctl: Cli, words: str, redirected: str) -> "subprocess.CompletedProcess[str]":
    """`partyctl WORDS` with its stdout redirected by a shell."""
    command = partyctl.command(*words.split())
    return subprocess.run(
        ["sh", "-c", f'"$@" {redirected}', "sh", *command], cwd=partyctl.home, env=partyctl.environment, timeout=60,
        capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("words", ["--help", "run --help", "--version", "status", "plugins"])
def test_a_full_output_is_an_error_of_every_command(partyctl: Cli, words: str) -> None:
    done = shell(partyctl, words, ">/dev/full")
    told = "partyctl: error: the output cannot be written: No space left on device. Make room, or send it elsewhere\n"
    assert done.stderr == told
    assert done.returncode == 1


@pytest.mark.parametrize("words", ["--help", "status", "plugins", "events"])
def test_a_closed_output_breaks_no_command(partyctl: Cli, words: str) -> None:
    done = shell(partyctl, words, ">&-")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr


@pytest.mark.parametrize("words", ["run {}", "config show", "up -d --wait"])
def test_a_current_directory_that_was_removed_is_refused_by_name(partyctl: Cli, words: str) -> None:
    program = partyctl.home / "program.py"
    program.write_text(SESSION)
    command = [word.format(program) for word in partyctl.command(*words.split())]
    gone = partyctl.home / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", *command], cwd=gone, env=partyctl.environment, timeout=60,
        capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        told = "partyctl: error: the current directory was removed. Change to one that is there\n"
        assert (done.returncode, done.stderr) == (7, told)
    else:
        partyctl("down", "--now")


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1", "1e999"])
@pytest.mark.parametrize("words", [["up", "-d", "--wait", "--wait-timeout"], ["down", "--timeout"]])
def test_a_limit_that_is_none_is_wrong_usage(partyctl: Cli, words: list[str], seconds: str) -> None:
    done = partyctl(*words, seconds)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr


def test_a_log_that_cannot_be_written_refuses_a_detached_start(partyctl: Cli) -> None:
    log = partyctl.home / "state" / "partyctl" / "default" / "host.log"
    log.mkdir(parents=True)
    done = partyctl("up", "-d", "--wait")
    assert done.returncode == 7
    assert done.stderr.startswith(f"partyctl: error: the host's log cannot be written ({log}): Is a directory")


@pytest.mark.parametrize("verb", ["events", "logs"])
def test_books_that_cannot_be_read_are_an_error(partyctl: Cli, verb: str) -> None:
    state = partyctl.home / "state" / "partyctl" / "default"
    state.mkdir(parents=True)
    (state / verb).write_text("")
    done = partyctl(verb)
    assert done.returncode == 7
    assert f"the party's state cannot be read ({state / verb}): Not a directory" in done.stderr
    (state / verb).unlink()
    (state / verb / "000001.jsonl").mkdir(parents=True)
    done = partyctl(verb)
    assert (done.returncode, "Is a directory" in done.stderr) == (7, True)


def test_an_error_at_import_whose_text_cannot_be_read_is_told_by_its_class(partyctl: Cli) -> None:
    program = Path(partyctl.home / "mute.py")
    program.write_text("class Mute(Exception):\n    def __str__(self):\n        raise ValueError\n\nraise Mute\n")
    done = partyctl("run", str(program))
    assert done.returncode == 7
    assert done.stderr.startswith(f"partyctl: error: the file could not be imported ({program}:5): Mute: ")


@pytest.mark.parametrize("words", [["config", "check", "odd"], ["up", "-f", "odd"], ["run", "odd"]])
@pytest.mark.parametrize(
    ("kind", "why"), [("fifo", "It is a FIFO"), ("directory", "It is a directory"), ("loop", "symbolic links")]
)
def test_what_is_no_regular_file_is_refused_as_what_it_is(partyctl: Cli, words: list[str], kind: str, why: str) -> None:
    odd = partyctl.home / "odd"
    if kind == "fifo":
        os.mkfifo(odd)
    elif kind == "directory":
        odd.mkdir()
    else:
        odd.symlink_to(odd)
    done = partyctl(*words, timeout=20)
    assert (done.returncode, why in done.stderr) == (7, True), done.stderr


def test_a_party_file_that_is_a_link_to_itself_is_not_taken_for_none(partyctl: Cli) -> None:
    (partyctl.home / "party.toml").symlink_to("party.toml")
    done = partyctl("config", "check")
    assert (done.returncode, "symbolic links" in done.stderr) == (7, True), done.stderr


def test_nodes_have_one_bound_in_the_file_and_on_the_command_line(partyctl: Cli) -> None:
    (partyctl.home / "party.toml").write_text("[party]\nnodes = 99999999999999999999999\n")
    done = partyctl("config", "check")
    assert (done.returncode, "nodes" in done.stderr, "must be 1024 or less" in done.stderr) == (7, True, True)
    assert partyctl("up", "--nodes", "1025").returncode == 2
