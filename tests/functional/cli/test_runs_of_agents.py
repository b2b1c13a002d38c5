"""A run with an agent that goes on in another process: its conversation does, too."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from partyctl_actors.journals.sqlite import shard_of
from partyctl_actors.supervision.run_logs import FOLDER, log_name
from partyctl_actors.supervision.turn_log import Recovered, TurnLogs

from .conftest import Cli

STORY = """
import os
import partyctl as ap
Writer, Reviewer = ap.roles("Writer", "Reviewer")
class Draft(ap.Message):
    text: str
class Revise(ap.Message):
    pass
class Approve(ap.Message):
    pass
def review(offer, heard):
    if os.path.exists("absent"):
        raise RuntimeError("the reviewer is not there")
    labels = [kind.label for kind in offer.messages]
    return Revise() if "Revise" in labels else Approve()
def draft(text):
    return [{"tool": {"name": "read", "args": {"path": text}}}, {"say": {"label": "Draft", "payload": {"text": text}}}]
writer = ap.Agent(
    "scripted", "Write.", permissions=ap.NativePermissions.bypass(), approvals=ap.ApprovalPolicy.DENY,
    confinement="none", options={"script": [draft("one"), draft("two")], "state": "asked"},
)
protocol = ap.Protocol(
    ap.send(Writer, Reviewer, Draft), ap.send(Reviewer, Writer, Revise),
    ap.send(Writer, Reviewer, Draft), ap.send(Reviewer, Writer, Approve),
)
session = ap.Session(protocol, {Writer: writer, Reviewer: review}, id="story")
"""


def kill_a_node(partyctl: Cli) -> None:
    """End the only node by force."""
    [node] = json.loads(partyctl("status", "--json").stdout)["nodes"]
    os.kill(node["pid"], signal.SIGKILL)


@pytest.fixture
def journal(partyctl: Cli) -> Path:
    """A run that ended early, after the agent's first message; the directory of its record."""
    (partyctl.home / "story.py").write_text(STORY)
    (partyctl.home / "absent").touch()
    failed = partyctl("run", "story.py")
    assert failed.returncode == 1
    assert "the reviewer is not there" in failed.stderr
    (partyctl.home / "absent").unlink()
    (found,) = partyctl.home.rglob(f"runs-{shard_of('story'):02}.sqlite")
    return found.parent


def log_of(journal: Path) -> Recovered:
    logs = TurnLogs(journal / FOLDER)
    try:
        return logs.open(log_name("story", "Writer")).recover()
    finally:
        logs.close()


def test_a_run_that_is_resumed_continues_the_conversation_of_its_agent(partyctl: Cli, journal: Path) -> None:
    begun = log_of(journal).state
    assert begun is not None
    resumed = partyctl("runs", "resume", "story")
    assert resumed.returncode == 0, resumed.stderr
    assert "two" in resumed.stdout
    found = log_of(journal)
    assert found.state is not None
    assert found.state["conversation_id"] == begun["conversation_id"] is not None
    assert found.intents == {}
    assert len(found.outcomes) == 2
    # One byte a turn: neither was asked for twice.
    assert (partyctl.home / "asked").stat().st_size == 2


def test_a_conversation_outlives_the_node_that_its_run_was_on(partyctl: Cli) -> None:
    waits = STORY.replace('raise RuntimeError("the reviewer is not there")', "import time; time.sleep(60)")
    (partyctl.home / "story.py").write_text(waits)
    (partyctl.home / "absent").touch()
    assert partyctl("up", "-d", "--wait", "--nodes", "1").returncode == 0
    try:
        running = partyctl.start("run", "story.py", "--json")
        assert running.stdout is not None
        assert any('"delivered"' in line for line in running.stdout)
        told = [json.loads(line) for line in partyctl("events", "--json").stdout.splitlines()]
        (tool,) = (each for each in told if each["kind"] == "tool")
        assert (tool["subject"], tool["cause"]) == ("story", "read")
        assert (tool["fields"]["role"], tool["fields"]["args"]) == ("Writer", {"path": "one"})
        (found,) = partyctl.home.rglob(f"runs-{shard_of('story'):02}.sqlite")
        (partyctl.home / "absent").unlink()
        kill_a_node(partyctl)
        _, said = running.communicate(timeout=60)
        assert running.returncode == 0, said
    finally:
        assert partyctl("down").returncode == 0
    log = log_of(found.parent)
    conversations = {each["finished"]["conversation_id"] for each in log.outcomes.values()}  # type: ignore[index]
    assert len(log.outcomes) == 2
    assert len(conversations) == 1
    assert (partyctl.home / "asked").stat().st_size == 2
