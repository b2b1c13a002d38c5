"""Messages that are not answered, through a party: where they are can be seen, and whoever asked is told of the end."""

from __future__ import annotations

import json
import signal
from subprocess import Popen

import pytest
from programs import journaled
from support.party import Party, wait_until

import partyctl as ap

PROGRAM = """
import asyncio
from datetime import timedelta
import partyctl as ap

A, B = ap.roles("A", "B")

class Ask(ap.Message):
    pass

class Answer(ap.Message):
    pass

protocol = ap.Protocol(ap.send(A, B, Ask), ap.send(B, A, Answer, within=timedelta(seconds=3)))

class Asking:
    '''Notes why its run ended early.'''
    def bind(self, seat):
        return Player()

class Player(ap.BasePlayer):
    def author(self, offer):
        return Ask()
    async def cancel(self, reason):
        with open("told", "w") as told:
            told.write(reason)

class Busy:
    '''Never answers; told to stop, it notes that too.'''
    def bind(self, seat):
        return BusyPlayer()

class BusyPlayer(ap.BasePlayer):
    async def author(self, offer):
        open("asked", "w").close()
        await asyncio.sleep(600)
    async def cancel(self, reason):
        with open("stopped", "w") as stopped:
            stopped.write(reason)
"""

RUN = """
from play import *
session = ap.Session(protocol, {{A: {a}, B: {b}}})
"""

SERVE = """
import sys
from play import *
role, url, key = sys.argv[1:]
ap.serve(ap.Role(role), Busy() if role == "B" else Asking(), url=url, key=key, protocol=protocol)
"""


class Scene:
    """A party that listens, and roles that may be served from beyond it."""

    def __init__(self, party: Party) -> None:
        self.party = party
        for name, text in (("play.py", PROGRAM), ("serve.py", SERVE)):
            (party.root / name).write_text(text)
        (party.root / "party.toml").write_text('[listen]\nurl = "tcp://127.0.0.1:0"\n')
        party.up("--nodes", "1")
        self._keys: dict[str, dict[str, str]] = {}

    def _key(self, name: str, *claims: str) -> tuple[str, str]:
        """Where to connect, and as whom."""
        if name not in self._keys:
            self._keys[name] = json.loads(self.party.run("key", "add", "--json", name, *claims).stdout)
        return self._keys[name]["endpoint"], f"{name}:{self._keys[name]['secret']}"

    def serve(self, role: str) -> Popen[str]:
        return self.party.start(role, *self._key(role), program=str(self.party.root / "serve.py"))

    def far(self, role: str) -> str:
        """The participant that another process plays."""
        url, key = self._key("caller", "--claim", "run/*")
        return f"ap.Remote({role!r}, url={url!r}, key={key!r}, patience=1.0)"

    def run(self, *, a: str = "Asking()", b: str = "Busy()") -> Popen[str]:
        """Start the run, and wait until B has what was asked."""
        (self.party.root / "session.py").write_text(RUN.format(a=a, b=b))
        run = self.party.start("run", "session.py")
        wait_until((self.party.root / "asked").exists, 30, "B is asked")
        return run

    def waits_for(self) -> list[str]:
        return [each["waiting_for"] for each in self.party.status()["runs"]]

    def ended(self, run: Popen[str]) -> str:
        """What is said of a run that failed."""
        _, said = run.communicate(timeout=30)
        assert run.returncode == 1, said
        wait_until(lambda: not self.party.status()["runs"], 5, "nothing of it is left")
        return said

    def text(self, name: str) -> str:
        """What a role noted."""
        wait_until(lambda: (self.party.root / name).exists(), 10, f"{name} is noted")
        return (self.party.root / name).read_text()


@pytest.fixture
def scene(party: Party) -> Scene:
    return Scene(party)


def test_one_that_is_busy_is_seen_and_at_its_deadline_the_asking_role_is_told(scene: Scene) -> None:
    run = scene.run()
    assert scene.waits_for() == ["B"]
    assert "B did not speak in time" in scene.ended(run)
    assert "B did not speak in time" in scene.text("told")
    (recorded,) = json.loads(scene.party.run("runs", "list", "--json").stdout)["runs"]
    assert (recorded["state"], recorded["decisions"]) == ("ended early", 1)
    assert "B did not speak in time" in recorded["ending"]


def test_one_that_died_with_the_question_is_named_and_the_asking_role_is_told(scene: Scene) -> None:
    serving = scene.serve("B")
    run = scene.run(b=scene.far("B"))
    assert scene.waits_for() == ["B"]
    serving.kill()
    said = scene.ended(run)
    assert "raised by B" in said
    assert "nobody joined within 1 s" in said
    assert "nobody joined within 1 s" in scene.text("told")


def test_when_the_one_that_asked_is_gone_the_run_is_recorded_as_far_as_it_came(scene: Scene) -> None:
    serving = scene.serve("A")
    run = scene.run(a=scene.far("A"))
    serving.kill()
    assert scene.waits_for() == ["B"]
    scene.ended(run)
    assert "B did not speak in time" in scene.text("stopped")
    (recorded,) = json.loads(scene.party.run("runs", "list", "--json").stdout)["runs"]
    assert [said["label"] for said in shown(scene.party, recorded["run"])] == ["Ask"]


# --- results outlive whoever waits for them ---


def shown(party: Party, run: str) -> list[dict[str, object]]:
    done = party.run("runs", "show", run, "--json")
    assert done.returncode == 0, done.stderr
    said: list[dict[str, object]] = json.loads(done.stdout)["said"]
    return said


def undisturbed(party: Party) -> list[tuple[str, object]]:
    cast = journaled.cast(str(party.root / "undisturbed"))
    return [(each.label, each.payload) for each in ap.Session(journaled.protocol, cast).run()]  # type: ignore[arg-type]


@pytest.fixture
def holding(party: Party) -> Party:
    """A party whose broker may die often; the run of `journaled.py` waits with its fourth decision."""
    (party.root / "party.toml").write_text("[restarts]\nintensity = 1000\nsame_deaths = 1000\n")
    party.environment["ASKED"] = str(party.root / "asked")
    (party.root / "asked.hold").touch()
    party.up("--nodes", "1")
    return party


def begun(party: Party) -> tuple[Popen[str], str]:
    """A run that waits for `asked.hold` to be removed, and its id."""
    running = party.start("run", "--json", str(party.program("journaled.py")))
    assert running.stdout is not None
    run = json.loads(running.stdout.readline())["run"]
    for _ in range(journaled.HELD):
        assert json.loads(running.stdout.readline())["event"] == "delivered"
    return running, run


def test_a_broker_that_is_killed_between_a_question_and_its_record_loses_no_result(holding: Party) -> None:
    running, run = begun(holding)
    broker = holding.status()["broker"]["pid"]
    holding.kill(broker)
    # The answer is given while there is no broker: the node has not heard it yet.
    (holding.root / "asked.hold").unlink()
    _, said = running.communicate(timeout=60)
    assert running.returncode == 0, said
    assert holding.status()["broker"]["pid"] != broker
    assert [(each["label"], each["payload"]) for each in shown(holding, run)] == undisturbed(holding)
    assert len((holding.root / "asked").read_text().splitlines()) == 2 * journaled.ROUNDS


def test_the_record_of_a_run_whose_submitter_was_killed_holds_all_it_was_shown_and_goes_on(holding: Party) -> None:
    running, run = begun(holding)
    running.send_signal(signal.SIGKILL)
    wait_until(lambda: not holding.status()["runs"], 20, "its run has ended")
    (holding.root / "asked.hold").unlink()
    assert len(shown(holding, run)) == journaled.HELD
    assert holding.run("runs", "resume", run).returncode == 0
    assert [(each["label"], each["payload"]) for each in shown(holding, run)] == undisturbed(holding)
