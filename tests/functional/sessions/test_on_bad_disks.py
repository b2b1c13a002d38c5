"""A party's agent session whose disk fills up: a turn that cannot be recorded is not begun, and an answer that cannot
be recorded is not lost to whoever asked.
"""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from support.disks import SMALL_STATE, carried_out

PROGRAM = """
def start(*words):
    command = [sys.executable, "-P", "-m", "partyctl", *words]
    return subprocess.Popen(
        command, cwd=root, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )

def over(process):
    out, err = process.communicate(timeout=60)
    return [process.returncode, out, err]

def partyctl(*words):
    return over(start(*words))

def asked():
    return len((root / "position").read_bytes())

told = {"up": partyctl("up", "-d", "--wait", "--nodes", "1")}
try:
    told["first"] = partyctl("send", "s", "one")
    before = asked()
    fill()
    told["full"] = partyctl("send", "s", "two")
    told["asked while full"] = asked() - before
    empty()
    sending = start("send", "s", "three")
    while asked() == before:
        time.sleep(0.02)
    fill()
    told["filled meanwhile"] = over(sending)
    empty()
    told["after"] = partyctl("send", "s", "four")
    told["turns"] = partyctl("sessions", "turns", "s", "--json")
finally:
    told["down"] = partyctl("down")
print(json.dumps(told))
"""

CONFIG = """
[party]
nodes = 1
[roles.Helper]
provider = "scripted"
permissions = { mode = "bypass" }
approvals = "deny"
retry = { delays = [] }
options = { state = "position", script = [
    [{ say = "One." }], [{ say = "Let me see." }, { think = 3.0 }, { say = "Two." }], [{ say = "Three." }]] }
"""

Told = Mapping[str, Any]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What the command line said."""
    root = tmp_path_factory.mktemp("disks")
    (root / "party.toml").write_text(CONFIG)
    found: Told = carried_out(SMALL_STATE + PROGRAM, root)
    return found


def test_a_turn_that_cannot_be_recorded_is_not_begun_and_says_why(told: Told) -> None:
    code, said, error = told["full"]
    assert (code, said, told["asked while full"]) == (1, "", 0)
    assert "What an agent session does could not be recorded" in error
    assert "/sessions/turns-" in error
    assert "the disk is full" in error
    assert "Free the disk, then ask again" in error


def test_an_answer_that_cannot_be_recorded_is_given_and_told_to_be_so(told: Told) -> None:
    code, said, error = told["filled meanwhile"]
    assert (code, said) == (0, "Two.\n")
    assert "is not recorded, and would be lost with its node: What an agent session does" in error
    assert "the disk is full" in error


def test_it_is_recorded_as_soon_as_the_disk_takes_it(told: Told) -> None:
    assert told["after"][:2] == [0, "Three.\n"]
    turns = json.loads(told["turns"][1])["turns"]
    assert [(turn["state"], turn["prompt"], turn["answer"]) for turn in turns] == [
        ("answered", "one", "One."), ("answered", "three", "Two."), ("answered", "four", "Three."),
    ]  # fmt: skip
