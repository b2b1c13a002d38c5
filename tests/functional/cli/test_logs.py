"""`logs` and `events` over books that a host wrote, or writes."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from partyctl.logbook import Events, Logs

from .conftest import Cli

HOUR = 3600.0


@pytest.fixture(autouse=True)
def state(partyctl: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The books of the test are those of its command line."""
    monkeypatch.setenv("XDG_STATE_HOME", partyctl.environment["XDG_STATE_HOME"])


@pytest.fixture
def logs(partyctl: Cli) -> Iterator[Logs]:
    """A book with a line of an hour ago, and some of now."""
    old = Logs("default", now=lambda: time.time() - HOUR)
    old.line("broker", "an old line")
    old.close()
    new = Logs("default")
    new.line("w-1", "hello from the writer", role="Writer", run="run-0123456789abcdef")
    new.line("w-2", "Authorization: Bearer abcdef123456", role="Reviewer")
    new.restarted("broker", "was killed by SIGKILL", 1)
    yield new
    new.close()


class Follower:
    """A `partyctl ... --follow` whose lines are read one by one."""

    def __init__(self, partyctl: Cli, *words: str) -> None:
        self.process = partyctl.start(*words)

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        _, told = self.process.communicate(timeout=30)
        assert "Traceback" not in told
        return self.process.returncode

    def __enter__(self) -> "Follower":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def test_logs_are_shown_whether_or_not_the_party_runs(partyctl: Cli, logs: Logs) -> None:
    done = partyctl("logs")
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.partition(" ")[2] for line in done.stdout.splitlines()]
    assert lines == [
        "broker | an old line",
        "Writer | hello from the writer",
        "Reviewer | Authorization: ***",
        "broker   | --- restarted (1): was killed by SIGKILL ---",
    ]


def test_logs_of_one_role_or_process(partyctl: Cli, logs: Logs) -> None:
    assert partyctl("logs", "Writer").stdout.endswith("Writer | hello from the writer\n")
    assert len(partyctl("logs", "broker").stdout.splitlines()) == 2
    assert partyctl("logs", "w-1").stdout == partyctl("logs", "Writer").stdout


def test_logs_can_be_cut_by_time_and_number(partyctl: Cli, logs: Logs) -> None:
    assert "an old line" not in partyctl("logs", "--since", "30m").stdout
    assert len(partyctl("logs", "--since", "2h").stdout.splitlines()) == 4
    assert len(partyctl("logs", "--since", "2026-01-01T00:00:00Z", "--lines", "1").stdout.splitlines()) == 1


def test_logs_as_json_are_one_object_a_line(partyctl: Cli, logs: Logs) -> None:
    done = partyctl("logs", "--json")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["schema_version"] for record in records] == [1, 1, 1, 1]
    assert (records[1]["role"], records[1]["run"]) == ("Writer", "run-0123456789abcdef")
    assert records[3]["mark"] == "restarted"
    assert all(record["time"].endswith("Z") for record in records)


def test_a_mistyped_role_is_answered_with_the_nearest(partyctl: Cli, logs: Logs) -> None:
    for words in (("Reviwer",), ("reviewer",), ("Reviwer", "--follow"), ("Reviwer", "--json")):
        done = partyctl("logs", *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert "Did you mean 'Reviewer'?" in done.stderr


def test_a_role_of_the_configuration_that_never_wrote_is_no_mistake(partyctl: Cli, logs: Logs) -> None:
    (partyctl.home / "party.toml").write_text('[roles.Editor]\nhuman = "desk"\n')
    done = partyctl("logs", "Editor")
    assert (done.returncode, done.stdout) == (0, "")
    assert "no such lines" in done.stderr
    assert "Did you mean 'Editor'?" in partyctl("logs", "Edtor").stderr


def test_a_role_like_no_other_is_answered_with_all(partyctl: Cli, logs: Logs) -> None:
    done = partyctl("logs", "xyzzy")
    assert done.returncode == 2
    assert "Known are Reviewer, Writer, broker, host, launcher, node, w-1, w-2" in done.stderr


def test_logs_of_a_party_that_never_ran_are_empty(partyctl: Cli) -> None:
    done = partyctl("logs")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == 'partyctl: party "default" has no lines\n'
    assert partyctl("logs", "--json").stderr == ""


@pytest.mark.parametrize("verb", ["logs", "events"])
def test_what_is_no_moment_is_wrong_usage(partyctl: Cli, verb: str) -> None:
    done = partyctl(verb, "--since", "yesterday")
    assert done.returncode == 2
    assert "no moment" in done.stderr


def test_following_goes_over_a_restart_of_the_party_and_ends_with_130(partyctl: Cli, logs: Logs) -> None:
    with Follower(partyctl, "logs", "Writer", "-f", "--lines", "1") as follower:
        assert "hello from the writer" in follower.line()
        logs.close()
        again = Logs("default", segment_max=2000)
        for number in range(500):
            again.line("w-9", f"line {number}", role="Writer")
            again.line("w-8", f"line {number}", role="Other")
        again.close()
        last = Logs("default")
        last.line("w-9", "line 1000", role="Writer")
        numbers = [int(follower.line().split()[-1])]
        while numbers[-1] != 1000:
            numbers.append(int(follower.line().split()[-1]))
        # Faster than it could be read, the oldest are gone; what is shown is in order, and nothing of another role.
        assert numbers == sorted(set(numbers))
        last.close()
        assert follower.interrupt() == 130


def test_following_a_role_that_nobody_knows_yet_waits_for_it(partyctl: Cli) -> None:
    with Follower(partyctl, "logs", "Poet", "-f", "--json") as follower:
        book = Logs("default")
        book.line("w-1", "roses are red", role="Poet")
        assert json.loads(follower.line())["text"] == "roses are red"
        book.close()
        assert follower.interrupt() == 130


def test_a_reader_that_has_had_enough_ends_the_following(partyctl: Cli, logs: Logs) -> None:
    with Follower(partyctl, "logs", "-f") as follower:
        follower.line()
        assert follower.process.stdout is not None
        follower.process.stdout.close()
        deadline = time.monotonic() + 30
        while follower.process.poll() is None and time.monotonic() < deadline:
            logs.line("w", "more")
            time.sleep(0.05)
        assert follower.process.poll() is not None
        assert follower.process.stderr is not None
        assert follower.process.stderr.read() == ""
        follower.process.stdout = subprocess.DEVNULL  # type: ignore[assignment]
        follower.process.stdout = None


def test_events_are_shown_followed_and_told_as_json(partyctl: Cli) -> None:
    events = Events("default")
    events.record("restarted", "broker", cause="was killed by SIGKILL", fields={"restarts": 1})
    done = partyctl("events")
    assert done.returncode == 0
    assert done.stdout.partition(" ")[2] == "restarted broker: was killed by SIGKILL (restarts=1)\n"
    with Follower(partyctl, "events", "--json", "-f", "--since", "1h") as follower:
        assert json.loads(follower.line())["kind"] == "restarted"
        events.record("gave_up", "broker", cause="the same text, three times")
        event = json.loads(follower.line())
        assert (event["schema_version"], event["kind"], event["fields"]) == (1, "gave_up", {})
        assert follower.interrupt() == 130
    events.close()
