"""`status` and `down` against a host that is nothing but a lock and a socket."""

import contextlib
import json
import os
import pty
import signal
import subprocess

import pytest

from partyctl_base.process import ProcessIdentity
from partyctl_confinement import records
from tests.fakes.control_host import STATUS, FakeHost

from .conftest import Cli


def test_nothing_running_is_said_and_no_failure_unless_asked(partyctl: Cli) -> None:
    assert (partyctl("status").returncode, partyctl("status").stdout) == (0, "party default: not running\n")
    assert partyctl("status", "--check").returncode == 3
    document = json.loads(partyctl("status", "--json").stdout)
    assert (document["schema_version"], document["state"], document["pid"]) == (1, "not running", None)


def test_a_running_party_is_shown_whole_off_a_terminal(partyctl: Cli) -> None:
    with FakeHost(partyctl.runtime / "p"):
        done = partyctl("status", "--party", "p", COLUMNS="40")
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["broker", "11", "ready", "20.0", "MiB", "0", "-", "-"] in lines
    assert ["node/0", "13", "ready", "1.0", "MiB", "-", "1", "-"] in lines
    (worker,) = (line for line in lines if line and line[0].startswith("Writer-of"))
    assert worker[0] == STATUS["workers"][0]["name"]  # type: ignore[index]
    assert worker[-2:] == ["unconfined", "node/0"]
    assert "up 1m 3s" in done.stdout


def test_on_a_terminal_a_table_is_drawn_without_escapes(partyctl: Cli) -> None:
    terminal, ours = pty.openpty()
    environment = {**partyctl.environment, "TERM": "xterm-256color", "COLUMNS": "140"}
    with FakeHost(partyctl.runtime / "p"):
        command = partyctl.command("status", "--party", "p")
        subprocess.run(command, env=environment, stdout=ours, stderr=ours, timeout=60, check=True)
    os.close(ours)
    shown = b""
    with contextlib.suppress(OSError):  # a terminal whose other end is closed reads as an error
        while part := os.read(terminal, 65536):
            shown += part
    os.close(terminal)
    assert "────" in shown.decode()
    assert b"CONFINEMENT" in shown
    assert b"\x1b" not in shown


def test_a_running_party_is_shown_as_json_and_as_it_is(partyctl: Cli) -> None:
    with FakeHost(partyctl.runtime / "p"):
        done = partyctl("status", "--party", "p", "--json", "--check")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == STATUS


def test_a_part_in_trouble_makes_check_fail_with_6(partyctl: Cli) -> None:
    ill = {**STATUS, "broker": {"pid": None, "state": "restarting"}}
    with FakeHost(partyctl.runtime / "p", status=ill):
        assert partyctl("status", "--party", "p").returncode == 0
        done = partyctl("status", "--party", "p", "--check")
    assert done.returncode == 6
    assert "! broker is restarting" in done.stdout


@pytest.mark.parametrize("verb", ["status", "down"])
def test_a_stopped_host_is_exit_4_and_the_message_says_what_to_do(partyctl: Cli, verb: str) -> None:
    with FakeHost(partyctl.runtime / "p") as host:
        host.stop()
        done = partyctl(verb, "--party", "p")
    assert (done.returncode, done.stdout) == (4, "")
    assert f"pid {host.pid}): stopped" in done.stderr
    assert f"kill -CONT {host.pid}" in done.stderr


def test_a_silent_host_gives_json_all_the_same(partyctl: Cli) -> None:
    with FakeHost(partyctl.runtime / "p", "silent") as host:
        done = partyctl("status", "--party", "p", "--json")
    assert done.returncode == 4
    document = json.loads(done.stdout)
    assert (document["state"], document["pid"]) == ("not answering", host.pid)


def test_stopping_nothing_is_a_success(partyctl: Cli) -> None:
    done = partyctl("down", "--party", "p")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", 'partyctl: party "p" is not running\n')


def test_stopping_shows_what_is_waited_for_and_ends_with_the_host(partyctl: Cli) -> None:
    with FakeHost(partyctl.runtime / "p"):
        done = partyctl("down", "--party", "p", "--now")
        assert done.returncode == 0
        assert done.stderr == 'partyctl: waiting for run r1, now=True\npartyctl: party "p" is down\n'
        assert partyctl("down", "--party", "p").returncode == 0


def test_stopping_works_when_the_file_is_wrong_elsewhere(partyctl: Cli) -> None:
    (partyctl.home / "party.toml").write_text('[party]\nname = "p"\n[rolls]\n')
    with FakeHost(partyctl.runtime / "p"):
        assert partyctl("down").returncode == 0


def test_a_host_that_dies_while_it_stops_is_stopped(partyctl: Cli) -> None:
    with FakeHost(partyctl.runtime / "p", "stays") as host:
        command = partyctl.start("down", "--party", "p")
        assert command.stderr is not None
        assert "waiting for run r1" in command.stderr.readline()
        host.kill()
        _, told = command.communicate(timeout=30)
    assert command.returncode == 0
    assert told == 'partyctl: party "p" is down\n'


def test_an_interrupted_command_is_exit_130_without_traceback(partyctl: Cli) -> None:
    with FakeHost(partyctl.runtime / "p", "stays"):
        command = partyctl.start("down", "--party", "p")
        try:
            assert command.stderr is not None
            assert "waiting for run r1" in command.stderr.readline()
            command.send_signal(signal.SIGINT)
            _, told = command.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            command.kill()
            command.communicate()
            raise
    assert command.returncode == 130
    assert "Traceback" not in told


def test_a_host_that_was_killed_is_named_until_the_next_one(partyctl: Cli) -> None:
    with FakeHost(partyctl.runtime / "p") as host:
        host.kill()
    told = partyctl("status", "--party", "p").stdout
    assert f"! its host (pid {host.pid}, since " in told
    assert "ended without a farewell" in told
    assert "nothing of it is left running" in told
    document = json.loads(partyctl("status", "--party", "p", "--json").stdout)
    assert (document["state"], document["pid"]) == ("not running", None)
    assert (document["lost"]["pid"], document["lost"]["left"]) == (host.pid, [])


def test_what_a_killed_host_left_running_is_named(partyctl: Cli) -> None:
    with FakeHost(partyctl.runtime / "p") as host:
        host.kill()
    spawned = partyctl.runtime / "p" / "spawned"
    spawned.mkdir()
    with subprocess.Popen(["sleep", "60"]) as left:
        found = ProcessIdentity.of(left.pid)
        assert found is not None
        records.write(spawned, found)
        told = partyctl("status", "--party", "p").stdout
        left.kill()
    assert f"still running are its workers {left.pid}, which partyctl up ends" in told


def test_a_second_party_of_that_name_is_refused_and_the_first_one_named(partyctl: Cli) -> None:
    with FakeHost(partyctl.runtime / "p") as host:
        for words in ((), ("-d",), ("--wait",)):
            done = partyctl("up", "--party", "p", *words)
            assert done.returncode == 5
            assert f'party "p" is already running (pid {host.pid})' in done.stderr
            assert partyctl("up", "--party", "p", "--ok-if-running", *words).returncode == 0
