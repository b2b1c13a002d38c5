"""Runs whose roles are in processes of their own, through a real broker."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.broker_process import BrokerProcess
from programs.served_role import RING, A, B, Item, Passing, ring
from support.party import Party

import partyctl as ap
from partyctl_broker.errors import AddressTaken, HelloRefused

PROGRAM = Path(__file__).parents[2] / "programs" / "served_role.py"
LIMIT = 40.0
SECRETS = {name: bytes([number]) * 32 for number, name in enumerate(("caller", "A", "B", "C", "D"))}


class Scene:
    """A broker, and the processes that serve roles."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.broker = BrokerProcess(directory)
        self.serving: dict[str, subprocess.Popen[bytes]] = {}

    def start_broker(self) -> None:
        self.broker.start(principals=False, arguments=("--hold", "2"))
        for name, secret in SECRETS.items():
            self.broker.admit(name, secret, ["run/*"] if name == "caller" else [f"session/{name}"])
        self.broker.stats()

    def key(self, name: str) -> str:
        return f"{name}:{SECRETS[name].hex()}"

    def serve(self, role: str, rounds: int, pause: float = 0.0) -> None:
        words = [self.broker.endpoint, self.key(role), role, str(self.log(role)), str(rounds), str(pause)]
        self.serving[role] = subprocess.Popen([sys.executable, str(PROGRAM), *words])

    def log(self, role: str) -> Path:
        return self.directory / f"{role}.log"

    def asked(self, role: str) -> list[int]:
        """What the processes that served a role were asked, all of them together."""
        return [int(line) for line in self.log(role).read_text().split()] if self.log(role).exists() else []

    def session(self, **more: object) -> ap.Session:
        cast = {role: ap.Remote(role.name, url=self.broker.endpoint, key=self.key("caller")) for role in RING}
        return ap.Session(ring, cast, **more)  # type: ignore[arg-type]

    async def until_asked(self, role: str, times: int) -> None:
        end = time.monotonic() + LIMIT
        while len(self.asked(role)) < times:
            assert time.monotonic() < end, f"{role} was asked {self.asked(role)}"
            await asyncio.sleep(0.005)

    def kill(self, role: str) -> None:
        self.serving[role].kill()
        self.serving[role].wait(10)

    def close(self) -> None:
        for process in self.serving.values():
            process.kill()
            process.wait(10)
        self.broker.end()


@pytest.fixture
def scene() -> Iterator[Scene]:
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        made = Scene(Path(directory))
        try:
            made.start_broker()
            yield made
        finally:
            made.close()


def here(rounds: int) -> ap.Transcript:
    """The same run in one process."""
    return ap.Session(ring, {role: Passing(rounds) for role in RING}).run()


def numbers(first: int, rounds: int) -> list[int]:
    return list(range(first, first + 4 * rounds, 4))


def test_four_roles_in_four_processes_say_what_they_say_in_one(scene: Scene) -> None:
    for role in RING:
        scene.serve(role.name, 5)
    session = scene.session()
    assert session.run() == session.run() == here(5)
    assert scene.asked("A") == [*numbers(1, 6)] * 2


def test_a_role_whose_process_is_killed_and_started_again_is_asked_nothing_that_was_decided(scene: Scene) -> None:
    rounds = 12

    async def test() -> ap.Transcript:
        for role in RING:
            scene.serve(role.name, rounds, 0.01)
        run = scene.session().start()
        for number, role in enumerate("BAD", 1):
            await scene.until_asked(role, 3 * number)
            scene.kill(role)
            scene.serve(role, rounds, 0.01)
        async with asyncio.timeout(LIMIT):
            return await run.result()

    assert asyncio.run(test()) == here(rounds)
    for role in "ABCD":
        asked = scene.asked(role)
        assert sorted(set(asked)) == sorted(set(here_asked(role, rounds)))
        # What was under way when it died is asked once more, and nothing else.
        again = len(asked) - len(here_asked(role, rounds))
        assert 0 <= again <= (0 if role == "C" else 1)


def here_asked(role: str, rounds: int) -> list[int]:
    first = "ABCD".index(role) + 1
    spoken = numbers(first, rounds + 1 if role == "A" else rounds)
    return spoken + ([1] if role in "BC" else [])


def test_a_run_whose_own_process_is_killed_resumes_its_record_with_the_roles_elsewhere(scene: Scene) -> None:
    rounds = 12
    words = [scene.broker.endpoint, scene.key("caller"), str(scene.directory / "runs")]
    command = [sys.executable, str(PROGRAM.with_name("ring_caller.py")), *words]
    for role in RING:
        scene.serve(role.name, rounds, 0.01)
    for times in (3, 7):
        first = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        asyncio.run(scene.until_asked("C", times))
        first.kill()
        first.wait(10)
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True)
    assert done.stdout.splitlines() == [str(envelope) for envelope in here(rounds)]
    again = 0
    for role in "ABCD":
        asked = scene.asked(role)
        assert set(asked) == set(here_asked(role, rounds))
        again += len(asked) - len(here_asked(role, rounds))
    # At each kill one question was under way.
    assert 0 <= again <= 2


def test_a_broker_that_is_killed_and_started_again_takes_nothing_with_it(scene: Scene) -> None:
    rounds = 12

    async def test() -> ap.Transcript:
        for role in RING:
            scene.serve(role.name, rounds, 0.01)
        run = scene.session().start()
        await scene.until_asked("B", 4)
        scene.broker.end()
        scene.start_broker()
        async with asyncio.timeout(LIMIT):
            return await run.result()

    assert asyncio.run(test()) == here(rounds)
    assert sorted(scene.asked("C")) == sorted(here_asked("C", rounds))


def test_a_key_that_is_not_known_is_refused_on_both_sides(scene: Scene) -> None:
    with pytest.raises(HelloRefused):
        ap.serve(A, Passing(1), url=scene.broker.endpoint, key="A:" + "ff" * 32)
    cast = {role: ap.Remote(role.name, url=scene.broker.endpoint, key="caller:" + "ff" * 32) for role in RING}
    with pytest.raises(HelloRefused):
        ap.Session(ring, cast).run()


def test_a_role_that_is_served_already_is_not_served_again(scene: Scene) -> None:
    scene.serve("A", 1)

    async def test() -> None:
        await ap.Session(ap.Protocol(ap.send(A, B, Item)), {B: ap.Script([]), A: remote(scene)}).arun()

    with pytest.raises(ap.ProtocolMismatch):
        asyncio.run(test())
    with pytest.raises(AddressTaken) as caught:
        ap.serve(A, Passing(1), url=scene.broker.endpoint, key=scene.key("A"))
    assert caught.value.__context__ is None


def remote(scene: Scene) -> ap.Remote:
    return ap.Remote("A", url=scene.broker.endpoint, key=scene.key("caller"))


def test_a_key_that_is_taken_back_in_a_turn_is_told_as_what_it_is(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    unheard: list[dict[str, object]] = []

    async def test() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
        serving = asyncio.ensure_future(
            ap.aserve(A, Passing(3, str(scene.log("A")), 3600), url=scene.broker.endpoint, key=scene.key("A"))
        )
        cast = {role: remote(scene) if role == A else Passing(3) for role in RING}
        running = asyncio.ensure_future(ap.Session(ring, cast).arun())
        await scene.until_asked("A", 1)
        scene.broker.tell(t="forget", name="A")
        with pytest.raises(HelloRefused):
            await serving
        scene.broker.tell(t="forget", name="caller")
        with pytest.raises(HelloRefused):
            await running
        await asyncio.sleep(0.5)

    asyncio.run(test())
    assert "A is not served: the host no longer vouches for A" in caplog.text
    assert not unheard


def test_patience_ends_a_run_whose_broker_is_away(scene: Scene) -> None:
    scene.broker.kill()
    far = ap.Remote("A", url=scene.broker.endpoint, key=scene.key("caller"), patience=1)
    began = time.monotonic()
    with pytest.raises(ap.SessionError, match="nobody joined within 1 s: the broker has not answered yet"):
        ap.Session(ring, {role: far if role == A else Passing(1) for role in RING}).run()
    assert time.monotonic() - began < 4


def test_serve_blocks_and_says_so_inside_a_loop(scene: Scene) -> None:
    async def test() -> None:
        with pytest.raises(RuntimeError, match="aserve"):
            ap.serve(A, Passing(1), url=scene.broker.endpoint, key=scene.key("A"))

    asyncio.run(test())


class Listening:
    """A party that listens, and role B served from beyond this machine by a key of it."""

    def __init__(self, party: Party, rounds: int) -> None:
        (party.root / "party.toml").write_text('[listen]\nurl = "tcp://127.0.0.1:0"\n')
        party.up("--nodes", "1")
        self._keys = {}
        for name, claims in (("B", ()), ("caller", ("--claim", "run/*"))):
            done = party.run("key", "add", "--json", name, *claims)
            assert done.returncode == 0, done.stderr
            self._keys[name] = json.loads(done.stdout)
        self.url = self._keys["B"]["endpoint"]
        words = [self.url, self.key("B"), "B", str(party.root / "log"), str(rounds), "0"]
        party.start(*words, program=str(PROGRAM))

    def key(self, name: str) -> str:
        return f"{name}:{self._keys[name]['secret']}"


def test_a_role_from_beyond_this_machine_comes_in_by_a_key_of_the_party(party: Party) -> None:
    listening = Listening(party, 3)
    far = ap.Remote("B", url=listening.url, key=listening.key("caller"))
    cast = {role: far if role == B else Passing(3) for role in RING}
    assert ap.Session(ring, cast).run() == here(3)


def test_a_run_on_a_node_has_a_role_elsewhere_too(party: Party) -> None:
    listening = Listening(party, 2)
    file = party.root / "session.py"
    file.write_text(
        "import partyctl as ap\n"
        "from served_role import B, Passing, RING, ring\n"
        f"far = ap.Remote('B', url={listening.url!r}, key={listening.key('caller')!r})\n"
        "session = ap.Session(ring, {role: far if role == B else Passing(2) for role in RING})\n"
    )
    (party.root / "served_role.py").write_text(PROGRAM.read_text())
    done = party.run("run", "session.py")
    assert done.returncode == 0, done.stderr
    assert "on node/0" in done.stderr
    assert len(done.stdout.splitlines()) == len(here(2))
