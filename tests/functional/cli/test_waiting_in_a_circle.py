"""Roles that would only wait for each other are refused by what a user calls, and who waits for whom is named."""

from __future__ import annotations

import json

import pytest

from .conftest import Cli

HEAD = """
import partyctl as ap
A, B, C = ap.roles("A", "B", "C")
class Item(ap.Message):
    pass
def answer(item: Item) -> Item:
    return Item()
"""
PAIR = (
    HEAD
    + """
protocol = ap.Protocol(ap.send(A, B, Item), ap.send(B, A, Item))
session = ap.Session(protocol, {A: ap.Machine({Item: answer}), B: ap.Machine({Item: answer})})
"""
)
RING = (
    HEAD
    + """
protocol = ap.Protocol(ap.send(A, B, Item), ap.send(B, C, Item), ap.send(C, A, Item))
session = ap.Session(protocol, {A: ap.Machine({Item: answer}), B: ap.Script([Item()]), C: ap.Script([Item()])})
"""
)
SELF = HEAD + "protocol = ap.Protocol(ap.send(A, B, Item), ap.send(B, B, Item))\n"

CIRCLES = [
    (PAIR, "A waits for B, B waits for A"),
    (RING, "A waits for C, C waits for B, B waits for A"),
    (SELF, "send(B, B, Item)"),
]


@pytest.mark.parametrize("verb", ["check", "run"])
@pytest.mark.parametrize(("text", "named"), CIRCLES)
def test_a_cast_or_a_step_in_which_roles_wait_in_a_circle_is_refused(
    partyctl: Cli, verb: str, text: str, named: str
) -> None:
    (partyctl.home / "circle.py").write_text(text)
    done = partyctl(verb, "circle.py")
    assert done.returncode == 7
    assert named in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_running_party_refuses_them_before_anything_is_said(partyctl: Cli) -> None:
    assert partyctl("up", "-d", "--wait", "--nodes", "1").returncode == 0
    try:
        for text, named in CIRCLES:
            (partyctl.home / "circle.py").write_text(text)
            done = partyctl("run", "circle.py")
            assert (done.returncode, done.stdout) == (7, "")
            assert named in done.stderr
    finally:
        partyctl("down", "--now")


def view(role: str, *states: dict[str, object]) -> dict[str, object]:
    return {"schema": "partyctl.view/v1", "role": role, "start": 0, "states": [*states, {"done": True}]}


@pytest.mark.parametrize(
    ("peers", "circle"),
    [
        ({"A": "B", "B": "A"}, "A waits for B, B waits for A"),
        ({"A": "B", "B": "C", "C": "A"}, "A waits for B, B waits for C, C waits for A"),
    ],
)
def test_views_of_roles_from_elsewhere_that_wait_in_a_circle_are_refused(
    partyctl: Cli, peers: dict[str, str], circle: str
) -> None:
    views = [view(role, {"hears": [peer, {"Item": 1}]}, {"says": [peer, {"Item": 2}]}) for role, peer in peers.items()]
    (partyctl.home / "views.json").write_text(json.dumps(views))
    done = partyctl("check", "views.json")
    assert done.returncode == 7
    assert done.stdout.startswith("views.json: refused\nerror, deadlock: ")
    assert circle in done.stdout
    (checked,) = json.loads(partyctl("check", "views.json", "--json").stdout)["protocols"]
    assert (checked["ok"], [finding["code"] for finding in checked["findings"]]) == (False, ["deadlock"])


def test_the_same_views_are_accepted_once_one_of_them_speaks_first(partyctl: Cli) -> None:
    views = [
        view("A", {"says": ["B", {"Item": 1}]}, {"hears": ["B", {"Item": 2}]}),
        view("B", {"hears": ["A", {"Item": 1}]}, {"says": ["A", {"Item": 2}]}),
    ]
    (partyctl.home / "views.json").write_text(json.dumps(views))
    done = partyctl("check", "views.json")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "views.json: accepted")
