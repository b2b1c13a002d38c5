"""A run with an agent that goes on in another process: its conversation does, too."""

from __future__ import annotations

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
    return [{"say": {"label": "Draft", "payload": {"text": text}}}]
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
