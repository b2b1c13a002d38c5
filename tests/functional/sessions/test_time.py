"""Time, as a party sees it: everything is stopped for a while, or the wall clock jumps."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import psutil
import pytest
from support.party import wait_until

from .conftest import Sessions, Steps

STOPPED = 11.0
"""Seconds; longer than the idle limit here, the patience with an interrupt, and that with a worker of nobody."""

CLOCK = """\
import time
from pathlib import Path

real, offset = time.time, Path({offset!r})
time.time = lambda: real() + float(offset.read_text())
"""

YEAR = 365 * 86400.0


@pytest.mark.load
def test_what_is_stopped_altogether_for_longer_than_any_limit_goes_on(sessions: Sessions) -> None:
    sessions.begin(
        [{"say": "one"}], [{"say": "thinking"}, {"think": 3}, {"say": "late"}], [{"say": "three"}],
        role="idle_release_after = 5",
    )  # fmt: skip
    conversation = sessions.ask("a")["conversation"]
    sending = sessions.sending("b")
    host = psutil.Process(sessions.party.host_pid())
    party = [psutil.Process(sending.pid), host, *host.children(recursive=True)]
    before = sessions.party.status()
    for process in party:
        process.suspend()
    time.sleep(STOPPED)
    for process in reversed(party):
        process.resume()
    out, err = sending.communicate(timeout=30)
    assert (sending.returncode, out) == (0, "late\n"), err
    assert sessions.ask("c")["conversation"] == conversation
    assert [state for _, state, _ in sessions.turns()] == ["answered"] * 3
    assert sessions.events("recovery") == sessions.events("session_taken_up") == []
    [suspended] = sessions.events("suspended")
    assert STOPPED - 3 < suspended["fields"]["seconds"] < STOPPED + 5
    after = sessions.party.status()
    for who in ("launcher", "broker"):
        assert after[who]["pid"] == before[who]["pid"]
    assert [node["pid"] for node in after["nodes"]] == [node["pid"] for node in before["nodes"]]


def test_a_wall_clock_that_jumps_changes_nothing(sessions: Sessions) -> None:
    sessions.begin(
        [{"say": "one"}], [{"say": "thinking"}, {"think": 1.5}, {"say": "late"}], [{"fail": "transient"}],
        [{"say": "again"}], [{"say": "five"}],
        role="idle_release_after = 600\nretry = { delays = [4] }", up=False,
    )  # fmt: skip
    jump_to = clock_of(sessions)
    sessions.party.up()
    conversation, worker = sessions.ask("a")["conversation"], sessions.worker()
    sending = sessions.sending("b")
    jump_to(YEAR)
    assert sending.communicate(timeout=20)[0] == "late\n"
    began = time.monotonic()
    sending = sessions.sending("c", until="waiting")
    jump_to(-YEAR)
    assert sending.communicate(timeout=20)[0] == "again\n"
    assert 4 <= time.monotonic() - began < 15
    jump_to(2 * YEAR)
    assert sessions.ask("d")["conversation"] == conversation
    assert sessions.worker() == worker
    [retried] = sessions.events("recovery")
    assert retried["fields"]["rule"] == "retry"
    assert datetime.fromisoformat(retried["time"]).timestamp() > time.time() + YEAR / 2, "no clock jumped"
    assert sessions.events("session_released") == []


def clock_of(sessions: Sessions) -> Callable[[float], None]:
    """Makes the wall clock of every process of the party one that a test can set off, in seconds."""
    directory = Path(sessions.party.root) / "clock"
    directory.mkdir()
    offset = directory / "offset"

    def jump_to(seconds: float) -> None:
        other = offset.with_suffix(".new")
        other.write_text(str(seconds))
        os.replace(other, offset)

    jump_to(0.0)
    (directory / "sitecustomize.py").write_text(CLOCK.format(offset=str(offset)))
    environment = sessions.party.environment
    environment["PYTHONPATH"] = f"{directory}{os.pathsep}{environment['PYTHONPATH']}"
    return jump_to


def test_a_deadline_outlives_the_node_and_ends_the_turn_that_waits_for_another_attempt(sessions: Sessions) -> None:
    overloaded: Steps = [{"fail": "transient"}]
    sessions.begin(overloaded, overloaded, [{"say": "next"}], role="retry = { delays = [5, 5] }")
    sending = sessions.party.start("send", "s", "a", "--timeout", "8")
    wait_until(lambda: sessions.standing("s")["state"] == "waiting", 20, "the turn waits for its second attempt")
    sessions.party.kill(sessions.node())
    out, err = sending.communicate(timeout=30)
    assert (sending.returncode, out) == (1, "")
    assert "the turn did not end within 8 s" in err
    assert "its deadline covers all retries" in err
    assert sessions.ask("b")["answer"] == "next"


def test_a_turn_in_which_nothing_is_told_any_more_fails_and_costs_no_conversation(sessions: Sessions) -> None:
    sessions.begin([{"say": "one"}], [{"say": "thinking"}, {"hang": True}], [{"say": "three"}])
    conversation = sessions.ask("a")["conversation"]
    silent = sessions.send("b", "--idle-timeout", "0.5")
    assert (silent.returncode, "it told nothing for 0.5 s" in silent.stderr) == (1, True), silent.stderr
    assert sessions.standing("s")["state"] == "failed"
    assert sessions.ask("c")["conversation"] == conversation


def test_a_running_turn_ends_at_its_deadline_though_its_node_died(sessions: Sessions) -> None:
    sessions.begin([{"say": "thinking"}, {"hang": True}])
    begun = time.monotonic()
    sending = sessions.party.start("send", "s", "a", "--timeout", "6")
    wait_until(lambda: sessions.standing("s")["state"] == "busy", 20, "the turn runs")
    sessions.party.kill(sessions.node())
    _, err = sending.communicate(timeout=40)
    assert (sending.returncode, "did not end within 6 s" in err) == (1, True), err
    assert 6 <= time.monotonic() - begun < 25
    assert sessions.turns() == [("a", "failed", None)]
