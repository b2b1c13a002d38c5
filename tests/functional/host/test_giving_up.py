"""A part that dies again and again is given up; `status` says what, how often and why, until the next `up`."""

import json

import pytest
from support.party import Party, wait_until

RESTARTS = "[party]\nnodes = {nodes}\n[restarts]\nintensity = {intensity}\nperiod = 30.0\nsame_deaths = 2\n"

ON_START = """
import os, pathlib, sys, threading
def end():
    print("api_key=sk-ant-REDACTED the disk is on fire", file=sys.stderr, flush=True)
    os._exit(9)
broken = pathlib.Path(__file__).with_name("broken")
if broken.exists() and broken.read_text() in sys.orig_argv:
    end()
dying = pathlib.Path(__file__).with_name("dying")
if dying.exists() and dying.read_text() in sys.orig_argv:
    timer = threading.Timer(3.0, end)
    timer.daemon = True
    timer.start()
"""
"""A fault in the processes of the party: what is named in `broken` dies at once, what is named in `dying` after 3 s."""


@pytest.fixture
def faulty(party: Party) -> Party:
    site = party.root / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(ON_START)
    party.environment["PYTHONPATH"] += f":{site}"
    return party


def configure(party: Party, *, intensity: int, nodes: int = 1) -> None:
    (party.root / "party.toml").write_text(RESTARTS.format(intensity=intensity, nodes=nodes))


def fault(party: Party, kind: str, module: str) -> None:
    (party.root / "site" / kind).write_text(module)


def ended(party: Party) -> bool:
    return party.run("status", "--check").returncode == 3


def test_a_part_that_lives_three_seconds_for_ever_is_given_up_and_status_tells_until_the_next_up(
    faulty: Party,
) -> None:
    configure(faulty, intensity=1)
    fault(faulty, "dying", "partyctl_broker")
    faulty.up()
    wait_until(lambda: ended(faulty), 30, "the party gave up")
    document = faulty.status()
    assert (document["state"], document["pid"]) == ("gave up", None)
    (given_up,) = document["gave_up"]
    assert (given_up["part"], given_up["deaths"], given_up["period"]) == ("broker", 2, 30.0)
    assert given_up["last_cause"] == "exited with status 9: api_key=*** the disk is on fire"
    told = faulty.run("status").stdout
    assert "the broker is given up: it died 2 times within 30 s" in told
    assert "the disk is on fire" in told
    assert "sk-ant" not in told + json.dumps(document)

    (faulty.root / "site" / "dying").unlink()
    faulty.up()
    assert faulty.status()["gave_up"] == []
    faulty.run("down")
    assert faulty.status()["state"] == "not running"


@pytest.mark.parametrize(("module", "part"), [("partyctl_broker", "broker"), ("partyctl_confinement", "launcher")])
def test_a_part_that_dies_at_once_with_the_same_text_is_given_up_early(faulty: Party, module: str, part: str) -> None:
    configure(faulty, intensity=9)
    faulty.up()
    fault(faulty, "broken", module)
    pid = faulty.status()[part]["pid"]
    faulty.kill(pid)
    wait_until(lambda: ended(faulty), 30, "the party gave up")
    (given_up,) = faulty.status()["gave_up"]
    assert (given_up["part"], given_up["deaths"], given_up["period"]) == (part, 2, None)
    assert "2 times in a row before it was ready" in given_up["why"]
    assert given_up["last_cause"].endswith("the disk is on fire")


def test_a_party_goes_on_without_a_node_that_is_given_up_and_status_says_which(faulty: Party) -> None:
    configure(faulty, intensity=9, nodes=2)
    faulty.up()
    fault(faulty, "broken", "node/1")
    faulty.kill(faulty.status()["nodes"][1]["pid"])
    wait_until(lambda: faulty.status()["gave_up"] != [], 30, "the node is given up")
    document = faulty.status()
    assert document["state"] == "ready"
    assert [node["state"] for node in document["nodes"]] == ["ready", "failed"]
    assert document["gave_up"][0]["part"] == "node/1"
    checked = faulty.run("status", "--check")
    assert checked.returncode == 6
    assert "! node/1 is given up: it died 2 times in a row" in checked.stdout


def test_a_party_that_could_not_start_says_so_until_the_next_up(faulty: Party) -> None:
    configure(faulty, intensity=9)
    fault(faulty, "broken", "partyctl_broker")
    failed = faulty.run("up", "--wait")
    assert failed.returncode == 1
    assert "the broker did not start" in failed.stderr
    assert "the disk is on fire" in failed.stderr
    document = faulty.status()
    assert document["state"] == "gave up"
    assert "the broker did not start" in document["gave_up"][0]["why"]


def test_what_the_parts_of_the_host_write_is_in_the_logs_masked(faulty: Party) -> None:
    configure(faulty, intensity=1, nodes=2)
    fault(faulty, "broken", "node/1")
    assert faulty.run("up", "--wait").returncode == 1
    (faulty.root / "site" / "broken").unlink()
    for name in ("node", "node/1"):
        logged = faulty.run("logs", name).stdout
        assert "node/1 | api_key=*** the disk is on fire" in logged
    assert "the disk" not in faulty.run("logs", "broker").stdout
