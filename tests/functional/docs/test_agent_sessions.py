"""docs/agent-sessions.md has every method of a session, every value of continuity, and the limits that hold."""

import re

from support.documents import Document

import partyctl
from partyctl_actors.supervision.plan import SupervisorLimits

PAGE = Document("docs/agent-sessions.md")


def test_every_method_and_attribute_of_a_session_has_a_row() -> None:
    told = {name for row in PAGE.rows("A session's methods") for name in re.findall(r"`(?:await )?(\w+)[`(]", row[0])}
    assert told == {name for name in dir(partyctl.AgentSession) if not name.startswith("_")}


def test_every_value_of_continuity_has_a_row() -> None:
    assert PAGE.first_cells("Continuity") == [value.name for value in partyctl.Continuity]


def test_the_limits_are_those_that_hold() -> None:
    said = {row[0]: row[1] for row in PAGE.rows("Deadlines")}
    limits = SupervisorLimits()
    assert (limits.hire, limits.load) == (10, 10)
    assert said["hiring a worker, loading a plugin"] == "10 s each"
    assert said["opening a conversation"] == f"{limits.open:g} s"
    assert said["an interrupt"] == f"{limits.interrupt:g} s, then the worker is killed"
    assert said["closing"] == f"{limits.close:g} s, then the worker is killed"
