"""The code host from within, its file already imported: plans, plays, and what goes wrong with one run of several."""

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType

import pytest
from fakes.quiet import quietly
from fakes.runs import A, B, Hanging, Ping, Pong, request_reply

import partyctl as ap
from partyctl.maps import Map, pack, unpack
from partyctl.node import codehost
from partyctl.node.codehost import CodeHost
from partyctl_actors.participants import Participant, Player, Seat
from partyctl_actors.protocol import load
from partyctl_actors.runs import Conductor
from partyctl_base.aio import AsyncChannel
from partyctl_base.channel import Channel
from partyctl_broker.local import LocalBus


class Unbindable:
    """A participant whose `bind` breaks."""

    def bind(self, seat: Seat) -> Player:
        raise RuntimeError("bind is broken")


class Scene:
    """A code host whose file holds one session, and the node's end of its channel."""

    def __init__(self, answerer: Participant) -> None:
        near, far = Channel.pair()
        self.node = AsyncChannel(near)
        self.host = CodeHost(AsyncChannel(far))
        self.bus = LocalBus()
        self.host._bus = self.bus  # type: ignore[assignment]
        self.host._path = Path("/mine.py")
        self.host._module = ModuleType("mine")
        vars(self.host._module)["session"] = ap.Session(
            request_reply, {A: ap.Script([Ping("a")]), B: answerer}, allowance=ap.Allowance(steps=9)
        )

    async def tells(self, **order: object) -> None:
        await self.node.send(pack(order))

    async def asks(self, **order: object) -> Map:
        await self.tells(**order)
        return await self.answer()

    async def answer(self) -> Map:
        received = await self.node.receive()
        assert received is not None
        return unpack(received.data)


def hosting(answerer: Participant, work: Callable[[Scene], Awaitable[None]]) -> None:
    async def host() -> None:
        scene = Scene(answerer)
        serving = asyncio.ensure_future(scene.host.serve())
        await work(scene)
        scene.node.close()
        assert await asyncio.wait_for(serving, 60) == 0

    quietly(host())


def test_a_plan_holds_the_protocol_the_allowance_and_the_agents_of_nodes() -> None:
    agent = ap.Agent("scripted", permissions=ap.NativePermissions.bypass(), approvals=ap.ApprovalPolicy.DENY)

    async def work(scene: Scene) -> None:
        planned = await scene.asks(t="run", run="r", name=None)
        plan = planned["plan"]
        assert isinstance(plan, dict)
        assert load(plan["protocol"]).id == request_reply.id
        assert plan["allowance"]["steps"] == 9
        assert list(plan["agents"]) == ["B"]

    hosting(agent, work)


@pytest.mark.parametrize("own", [{"journal": ap.MemoryJournal()}, {"tracer": ap.watching(print)}])
def test_a_session_that_keeps_its_own_books_is_refused(own: dict[str, object]) -> None:
    async def work(scene: Scene) -> None:
        session = ap.Session(request_reply, {A: ap.Script([Ping("a")]), B: ap.Script([Pong("b")])}, **own)  # type: ignore[arg-type]
        vars(scene.host._module)["session"] = session
        failed = await scene.asks(t="run", run="r", name=None)
        assert (failed["t"], failed["code"]) == ("failed", 7)
        assert all(f"own {name}" in str(failed["error"]) for name in own)

    hosting(ap.Script([]), work)


def test_options_that_are_no_data_fail_the_run_and_the_next_order_is_answered() -> None:
    agent = ap.Agent(
        "scripted",
        permissions=ap.NativePermissions.bypass(),
        approvals=ap.ApprovalPolicy.DENY,
        options={"path": Path("x")},
    )

    async def work(scene: Scene) -> None:
        for _ in range(2):
            failed = await scene.asks(t="run", run="r", name=None)
            assert (failed["t"], failed["run"], failed["code"]) == ("failed", "r", 7)
            assert "PosixPath" in str(failed["error"])

    hosting(agent, work)


def test_roles_are_played_to_the_end_of_the_run() -> None:
    async def work(scene: Scene) -> None:
        await scene.asks(t="run", run="r", name=None)
        conductor = Conductor(request_reply, "r")
        await conductor.open(scene.bus)
        await scene.tells(t="start", run="r", id="r")
        assert [envelope.label for envelope in await conductor.run()] == ["Ping", "Pong"]
        assert await scene.answer() == {"t": "played", "run": "r"}
        await scene.tells(t="over", run="r")

    hosting(ap.Script([Pong("b")]), work)


@pytest.mark.parametrize(("who", "told"), [(Unbindable(), "bind is broken")])
def test_a_role_that_cannot_be_played_is_told_at_once(who: Participant, told: str) -> None:
    async def work(scene: Scene) -> None:
        await scene.asks(t="run", run="r", name=None)
        failed = await scene.asks(t="start", run="r", id="r")
        assert (failed["t"], failed["run"]) == ("failed", "r")
        assert told in str(failed["error"])

    hosting(who, work)


def test_the_end_of_one_run_does_not_keep_another_waiting() -> None:
    async def work(scene: Scene) -> None:
        for run in ("slow", "quick"):
            await scene.asks(t="run", run=run, name=None)
        conductors = [Conductor(request_reply, run) for run in ("slow", "quick")]
        for conductor in conductors:
            await conductor.open(scene.bus)
        await scene.tells(t="start", run="slow", id="slow")
        slow = asyncio.ensure_future(conductors[0].run())
        await asyncio.sleep(0.1)
        began = asyncio.get_running_loop().time()
        await scene.tells(t="over", run="slow")
        await scene.asks(t="run", run="third", name=None)
        assert asyncio.get_running_loop().time() - began < 1.0
        conductors[0].cancel("enough")
        await asyncio.wait((slow,))
        slow.exception()
        conductors[1].close()

    hosting(Hanging(), work)


def test_what_a_run_left_behind_is_reaped_when_it_ends_and_what_is_waited_for_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(codehost, "REAP_EVERY", 0.01)
    # A child of the shell's; these tests run under a subreaper, as the code of a code host does.
    left = int(subprocess.run(["sh", "-c", "true & echo $!"], capture_output=True, check=True).stdout)

    async def watching(scene: Scene) -> None:
        with subprocess.Popen(["false"]) as ours:
            os.waitid(os.P_PID, ours.pid, os.WEXITED | os.WNOWAIT)
            with contextlib.suppress(ProcessLookupError):
                async with asyncio.timeout(20):
                    while True:
                        os.kill(left, 0)
                        await asyncio.sleep(0.01)
            assert ours.wait() == 1

    hosting(Hanging(), watching)
