"""A session's own `id=`, `journal=` and `tracer=` under `partyctl run`: the id is kept, and nothing is left out."""

from __future__ import annotations

import json
from subprocess import Popen

import pytest
from support.party import Party, wait_until

PROGRAM = """
import asyncio, os
import partyctl as ap
A, B = ap.roles("A", "B")
class Word(ap.Message):
    text: str
async def say(offer, heard):
    with open("asked", "a") as asked:
        asked.write(f"{offer.role}\\n")
    while os.path.exists("hold"):
        await asyncio.sleep(0.01)
    return Word("word")
protocol = ap.Protocol(ap.send(A, B, Word), ap.send(B, A, Word))
session = ap.Session(protocol, {A: say, B: say}, id="story")
"""


@pytest.fixture(params=["hosted", "embedded"])
def party(request: pytest.FixtureRequest, party: Party) -> Party:
    """With a running host, and without; the program is `program.py`."""
    (party.root / "program.py").write_text(PROGRAM)
    if request.param == "hosted":
        party.up("--nodes", "2")
    return party


def held(party: Party) -> Popen[str]:
    """A run that waits for `hold` to be removed."""
    (party.root / "hold").touch()
    run = party.start("run", "program.py")
    wait_until((party.root / "asked").exists, 20, "the first role is asked")
    return run


def test_the_sessions_id_is_the_runs_and_a_complete_record_is_replayed(party: Party) -> None:
    first = party.run("run", "--json", "program.py")
    again = party.run("run", "--json", "program.py")
    assert (first.returncode, again.returncode) == (0, 0), again.stderr
    said = [json.loads(line) for line in again.stdout.splitlines()]
    assert [event["event"] for event in said] == ["started", "delivered", "delivered", "ended"]
    assert again.stdout.splitlines()[1:] == first.stdout.splitlines()[1:]
    assert {event["run"] for event in said if "run" in event} == {"story"}
    assert (party.root / "asked").read_text() == "A\nB\n"
    assert party.run("runs", "show", "story").stdout.count("Word") == 2


def test_a_second_run_of_an_id_is_refused_while_the_first_goes_on(party: Party) -> None:
    run = held(party)
    second = party.run("run", "program.py")
    assert second.returncode not in (0, None)
    assert "story" in second.stderr
    (party.root / "hold").unlink()
    out, err = run.communicate(timeout=30)
    assert run.returncode == 0, err
    assert out.count("Word") == 2


HOSTED = pytest.mark.parametrize("party", ["hosted"], indirect=True)


@HOSTED
def test_status_shows_a_run_by_the_id_that_it_is_recorded_under(party: Party) -> None:
    run = held(party)
    assert [each["id"] for each in party.status()["runs"]] == ["story"]
    (party.root / "hold").unlink()
    assert run.wait(30) == 0
    kinds = [json.loads(line) for line in party.run("events", "--json").stdout.splitlines()]
    assert [event["kind"] for event in kinds if event["subject"] == "story"] == ["run_started", "run_ended"]


@HOSTED
@pytest.mark.parametrize("own", ["journal=ap.MemoryJournal()", "tracer=ap.watching(print)"])
def test_what_a_running_party_would_not_use_it_refuses_and_the_fix_works(own: str, party: Party) -> None:
    (party.root / "program.py").write_text(PROGRAM.replace('id="story"', own))
    done = party.run("run", "program.py")
    assert (done.returncode, done.stdout) == (7, "")
    assert f"own {own.partition('=')[0]}" in done.stderr
    assert "--party" in done.stderr
    assert party.run("run", "--party", "another", "program.py").returncode == 0


@HOSTED
def test_the_runs_of_one_node_share_a_database(party: Party) -> None:
    (party.root / "program.py").write_text(PROGRAM.replace(', id="story"', ""))
    assert {party.run("run", "program.py").returncode for _ in range(5)} == {0}
    assert len(list((party.root / "state").rglob("runs-*.sqlite"))) <= 2
