"""What a person who follows a turn is told."""

from __future__ import annotations

import pytest

from partyctl.cli.asked import said_line, show_meanwhile


def test_what_is_not_known_is_counted() -> None:
    assert said_line({"type": "EventsDropped", "count": 7}) == "7 things that happened meanwhile are not known"


def test_what_is_not_recorded_is_told_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    show_meanwhile({"event": "unrecorded", "turn": "turn-1", "why": "the disk is full"})
    told = "partyctl: what comes of turn turn-1 is not recorded, and would be lost with its node: the disk is full\n"
    assert capsys.readouterr() == ("", told)
