"""The node of a run is killed while its agent works: the worker goes on, and the run with it."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from support.errands import Errands, said, told
from support.party import Party, wait_until

from partyctl_base.process import is_alive

WHILE = 3.0
"""Seconds of an errand that still runs when the next node is there."""

BEFORE = 0.2
"""Seconds of one that has ended by then."""


def until(running: subprocess.Popen[str], kind: str) -> dict[str, Any]:
    """The next event of this kind that a run tells."""
    assert running.stdout is not None
    for line in running.stdout:
        event: dict[str, Any] = json.loads(line)
        if event["event"] == kind:
            return event
    raise AssertionError(f"no event {kind}")


@pytest.mark.parametrize("seconds", [WHILE, BEFORE])
def test_a_run_whose_node_is_killed_goes_on_by_itself_and_its_agent_is_asked_once(party: Party, seconds: float) -> None:
    errands = Errands(party, 0.05, seconds, 0.05)
    party.up("--nodes", "1")
    node, running = errands.party.node(), errands.start()
    errands.under_way(1)
    party.kill(node)
    events = told(running)
    assert said(events) == errands.answers()
    (started,) = (each for each in events if each["event"] == "started")
    assert [each["event"] for each in events if each["event"] in ("started", "gone", "ended")] == [
        "started", "gone", "ended",
    ]  # fmt: skip
    assert errands.asked() == {0: 1, 1: 1, 2: 1}
    assert len({each["pid"] for each in events if each["event"] == "worker"}) == 1
    (taken,) = errands.events("session_taken_up")
    assert taken["subject"] == started["run"]
    assert (taken["fields"]["role"], taken["fields"]["worker"]) == ("Clerk", "busy")
    assert taken["fields"]["turn"].startswith("turn-1-")
    assert errands.events("recovery") == []


def test_a_run_whose_submitter_is_killed_too_is_resumed_and_its_agent_asked_once(party: Party) -> None:
    errands = Errands(party, WHILE)
    party.up("--nodes", "1")
    running = errands.start()
    run = until(running, "started")["run"]
    errands.under_way(0)
    party.kill(errands.party.node())
    party.kill(running.pid)
    assert said(told(errands.start("runs", "resume", run, "--json"))) == errands.answers()
    assert errands.asked() == {0: 1}
    assert [each["fields"]["worker"] for each in errands.events("session_taken_up")] == ["busy"]


def test_a_turn_whose_worker_is_killed_too_is_lost_in_flight_and_the_run_asks_again(party: Party) -> None:
    errands = Errands(party, 0.05, WHILE)
    party.up("--nodes", "1")
    running = errands.start()
    errands.under_way(1)
    node, worker = errands.party.node(), errands.worker()
    assert worker is not None
    party.kill(node)
    party.kill(worker)
    assert said(told(running)) == errands.answers()
    assert errands.asked() == {0: 1, 1: 2}
    (lost,) = errands.events("recovery")
    assert (lost["fields"]["rule"], lost["fields"]["role"]) == ("lost", "Clerk")
    (taken,) = errands.events("session_taken_up")
    assert (taken["fields"]["worker"], taken["fields"]["turn"]) == ("gone", None)


def test_an_agent_whose_turn_it_is_not_keeps_its_worker_too(party: Party) -> None:
    errands = Errands(party, 0.05, 0.05)
    (party.root / "boss.hold").touch()
    party.up("--nodes", "1")
    node, running = errands.party.node(), errands.start()
    pid = until(running, "worker")["pid"]
    while until(running, "delivered")["sender"] != "Clerk":
        pass
    party.kill(node)
    wait_until(lambda: len(errands.events("session_taken_up")) == 1, 30, "the next node has its worker")
    assert errands.worker() == pid
    (party.root / "boss.hold").unlink()
    assert said(told(running)) == errands.answers()[1:]
    assert errands.asked() == {0: 1, 1: 1}


@pytest.mark.load
def test_a_worker_waits_while_the_file_of_its_run_is_imported_again(party: Party) -> None:
    errands = Errands(party, WHILE)
    party.up("--nodes", "1")
    node, running = errands.party.node(), errands.start()
    errands.under_way(0)
    (party.root / "import.slow").write_text("13")
    party.kill(node)
    assert said(told(running)) == errands.answers()
    assert errands.asked() == {0: 1}


def test_without_a_party_the_worker_dies_with_its_run_and_the_agent_is_asked_again(party: Party) -> None:
    errands = Errands(party, 0.05, WHILE)
    running = errands.start()
    run, pid = until(running, "started")["run"], until(running, "worker")["pid"]
    errands.under_way(1)
    party.kill(running.pid)
    wait_until(lambda: not is_alive(pid), 20, "the worker is dead")
    assert said(told(errands.start("runs", "resume", run, "--json"))) == errands.answers()
    assert errands.asked() == {0: 1, 1: 2}
