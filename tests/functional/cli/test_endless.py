"""Two roles that answer each other without end: the allowance ends the run, and is named."""

from __future__ import annotations

import json

import pytest

from .conftest import Cli

ENDLESS = """
import partyctl as ap
A, B = ap.roles("A", "B")
class More(ap.Message):
    pass
class Enough(ap.Message):
    pass
more = lambda offer, heard: More()
protocol = ap.Protocol(ap.loop(ap.send(A, B, More), ap.choose(B, A, {More: ap.repeat(), Enough: []})))
session = ap.Session(protocol, {A: more, B: more}, allowance=ap.Allowance(%s))
"""
LIMITS = [("unfoldings=3", "unfoldings", 6), ("steps=5", "steps", 5)]


def ends_at(partyctl: Cli, allowance: str, limit: str, messages: int) -> None:
    (partyctl.home / "endless.py").write_text(ENDLESS % allowance)
    done = partyctl("run", "--json", "endless.py")
    assert done.returncode == 1
    assert limit in done.stderr
    assert "Traceback" not in done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["event"] for event in events].count("delivered") == messages
    shown = json.loads(partyctl("runs", "show", events[0]["run"], "--json").stdout)
    assert (shown["state"], shown["decisions"]) == ("ended early", messages)
    assert limit in shown["ending"]


@pytest.mark.parametrize(("allowance", "limit", "messages"), LIMITS)
def test_a_loop_that_nobody_leaves_ends_at_its_allowance(
    partyctl: Cli, allowance: str, limit: str, messages: int
) -> None:
    ends_at(partyctl, allowance, limit, messages)


def test_it_ends_on_a_running_party_too_and_the_party_goes_on(partyctl: Cli) -> None:
    assert partyctl("up", "-d", "--wait", "--nodes", "1").returncode == 0
    try:
        for allowance, limit, messages in LIMITS:
            ends_at(partyctl, allowance, limit, messages)
        assert json.loads(partyctl("status", "--json").stdout)["runs"] == []
    finally:
        partyctl("down", "--now")
