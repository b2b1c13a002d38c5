"""A run whose conductor and role A are here and whose role B is in a process of its own, through a real broker."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs.one_role import A, Answer, Question, protocol

from partyctl_actors.errors import ProtocolMismatch, SessionError
from partyctl_actors.participants import Script, Seat
from partyctl_actors.runs import Conductor, Delivered, Limits, RoleActor, RoleFailed, RunEvent, Transcript
from partyctl_broker.peer import ZmqBus
from tests.functional.broker.conftest import SECRET, BrokerProcess

PROGRAM = Path(__file__).parents[2] / "programs" / "one_role.py"
LIMIT = 20.0
"""Seconds a run of these tests may take."""


@pytest.fixture
def broker() -> Iterator[BrokerProcess]:
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        process = BrokerProcess(Path(directory)).start()
        yield process
        process.end()


class Scene:
    """The run, and the process of its other role."""

    def __init__(self, broker: BrokerProcess, behaviour: str | None, *, join: float = 15.0) -> None:
        self.broker = broker
        self.behaviour = behaviour
        self.limits = Limits(join=join, stop=2.0, player=1.0)
        self.delivered = asyncio.Event()
        self.child: asyncio.subprocess.Process | None = None
        self.status: int | None = None

    async def play(self) -> Transcript:
        bus = await ZmqBus.connect(self.broker.endpoint, "p", SECRET)
        conductor = Conductor(protocol, "r", on_event=self.note, limits=self.limits)
        await conductor.open(bus)
        seat = Seat("r", A, protocol)
        actor = RoleActor(bus, "r", A, protocol, Script([Question("why?")]).bind(seat), limits=self.limits)
        acting = asyncio.ensure_future(actor.run())
        if self.behaviour is not None:
            arguments = (str(PROGRAM), self.broker.endpoint, SECRET.hex(), self.behaviour)
            self.child = await asyncio.create_subprocess_exec(sys.executable, *arguments)
        try:
            async with asyncio.timeout(LIMIT):
                return await conductor.run()
        finally:
            await acting
            await bus.close()
            await self.ended()

    async def ended(self) -> None:
        """The other process ends by itself; one that does not is killed, and has no status."""
        if self.child is None:
            return
        try:
            self.status = await asyncio.wait_for(self.child.wait(), 10)
        except TimeoutError:
            self.child.kill()
            await self.child.wait()

    def note(self, event: RunEvent) -> None:
        if isinstance(event, Delivered):
            self.delivered.set()


def test_a_role_in_another_process_plays_its_part(broker: BrokerProcess) -> None:
    async def test() -> None:
        scene = Scene(broker, "answer")
        transcript = await scene.play()
        assert [envelope.message for envelope in transcript] == [Question("why?"), Answer("from afar")]
        assert scene.status == 0

    asyncio.run(test())


def test_an_exception_over_there_arrives_with_role_type_and_text(broker: BrokerProcess) -> None:
    async def test() -> None:
        scene = Scene(broker, "fail")
        with pytest.raises(
            RoleFailed,
            match=r"B failed \(run r, step 2, at .*one_role.py:\d+, in failing\): ZeroDivisionError: over there",
        ):
            await scene.play()
        assert scene.status == 3

    asyncio.run(test())


def test_a_role_of_another_protocol_is_refused_and_ends(broker: BrokerProcess) -> None:
    async def test() -> None:
        scene = Scene(broker, "other")
        with pytest.raises(ProtocolMismatch, match="B follows another protocol"):
            await scene.play()
        assert scene.status == 0

    asyncio.run(test())


def test_a_role_whose_process_is_killed_ends_the_run_with_its_name(broker: BrokerProcess) -> None:
    async def test() -> None:
        scene = Scene(broker, "hang")
        playing = asyncio.ensure_future(scene.play())
        await asyncio.wait_for(scene.delivered.wait(), LIMIT)
        assert scene.child is not None
        scene.child.kill()
        began = asyncio.get_running_loop().time()
        with pytest.raises(SessionError, match="B is gone"):
            await playing
        assert asyncio.get_running_loop().time() - began < 3

    asyncio.run(test())


def test_a_cancelled_run_ends_the_role_over_there(broker: BrokerProcess) -> None:
    async def test() -> None:
        scene = Scene(broker, "hang")
        playing = asyncio.ensure_future(scene.play())
        await asyncio.wait_for(scene.delivered.wait(), LIMIT)
        playing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await playing
        assert scene.status == 0

    asyncio.run(test())


def test_a_role_that_never_starts_is_named(broker: BrokerProcess) -> None:
    async def test() -> None:
        with pytest.raises(SessionError, match="B did not join the run"):
            await Scene(broker, None, join=0.3).play()

    asyncio.run(test())


def test_a_broker_that_is_killed_and_started_again_does_not_end_the_run(broker: BrokerProcess) -> None:
    async def test() -> None:
        scene = Scene(broker, "slow")
        playing = asyncio.ensure_future(scene.play())
        await asyncio.wait_for(scene.delivered.wait(), LIMIT)
        broker.kill()
        assert broker.control is not None
        broker.control.close()
        await asyncio.sleep(0.5)  # the answer is given while there is no broker
        broker.start(arguments=())
        transcript = await playing
        assert [envelope.message for envelope in transcript] == [Question("why?"), Answer("from afar")]
        assert scene.status == 0

    asyncio.run(test())


def test_a_role_that_dies_while_there_is_no_broker_ends_the_run_with_its_name(broker: BrokerProcess) -> None:
    async def test() -> None:
        scene = Scene(broker, "hang")
        playing = asyncio.ensure_future(scene.play())
        await asyncio.wait_for(scene.delivered.wait(), LIMIT)
        broker.kill()
        assert broker.control is not None
        assert scene.child is not None
        broker.control.close()
        scene.child.kill()
        broker.start(arguments=())
        with pytest.raises(SessionError, match="B is gone"):
            await playing

    asyncio.run(test())
