"""The node without its processes: orders, letters that are none, and a launcher that dies."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from fakes.launcher import FakeLauncher, FakeWorker
from fakes.quiet import quietly

from partyctl.errors import HostError
from partyctl.maps import Map, pack, unpack
from partyctl.node.node import LAUNCHER_LIMIT, Node
from partyctl_base.aio import AsyncChannel
from partyctl_base.channel import Channel
from partyctl_broker.local import LocalBus
from partyctl_broker.port import Letter

ORDER: Map = {"t": "run", "run": "run-1", "path": "/x.py", "digest": "d", "cwd": "/", "name": None, "config": ""}


class Submitter:
    """Whoever asks for runs."""

    def __init__(self) -> None:
        self.heard: list[Map] = []

    def letter(self, letter: Letter) -> None:
        self.heard.append(unpack(letter.payload))

    def undelivered(self, letter_id: int, destination: str, why: str) -> None:
        raise AssertionError(destination)

    def gone(self, address: str, unknown: tuple[int, ...], why: str) -> None:
        pass

    def link_lost(self, why: str) -> None:
        pass


class HostEnd:
    """The host's end of a node's channel: admits whoever asks, unless it is silent."""

    def __init__(self, channel: AsyncChannel, *, silent: bool = False) -> None:
        self.channel = channel
        self.heard: list[Map] = []
        self._silent = silent

    async def serve(self) -> None:
        while (received := await self.channel.receive()) is not None:
            message = unpack(received.data)
            self.heard.append(message)
            if message["t"] == "principal" and not self._silent:
                await self.channel.send(pack({"t": "principal", "name": message["name"], "secret": b"s"}))


class Field:
    """A node on a local bus, its host's end and a submitter."""

    def __init__(self, silent: bool) -> None:
        near, far = Channel.pair()
        self.host = HostEnd(AsyncChannel(near), silent=silent)
        self.node = Node("node/0", AsyncChannel(far))
        self.bus = LocalBus()
        self.submitter = Submitter()

    async def asks(self, order: Map | bytes, source: str = "client/run-1") -> list[Map]:
        """Send an order; what the submitter has heard a little later."""
        mailbox = await self.bus.open(source, self.submitter)
        mailbox.send("node/0", order if isinstance(order, bytes) else pack(order))
        await asyncio.sleep(0.1)
        self.mailbox = mailbox
        return self.submitter.heard


def noding(work: Callable[[Field], Awaitable[None]], *, silent: bool = False) -> Field:
    async def serve() -> Field:
        field = Field(silent)
        field.node._bus = field.bus
        field.node._mailbox = await field.bus.open("node/0", field.node)
        serving = [asyncio.ensure_future(field.node.serve()), asyncio.ensure_future(field.host.serve())]
        try:
            await work(field)
        finally:
            await field.host.channel.send(pack({"t": "stop"}))
            await asyncio.wait_for(asyncio.gather(*serving), 30)
            field.host.channel.close()
        return field

    return quietly(serve())


@pytest.mark.parametrize(
    "order",
    [
        b"",
        b"\xc1",
        b"\x90",
        pack({}),
        pack({"t": "run"}),
        pack({"t": "run", "run": "run-1"}),
        pack({"t": "run", "run": ["run-1"]}),
        pack(ORDER | {"run": "run-2"}),
    ],
)
def test_what_is_no_order_of_its_sender_is_answered_and_starts_nothing(order: bytes) -> None:
    async def work(field: Field) -> None:
        (answer,) = await field.asks(order)
        assert (answer["event"], answer["code"]) == ("failed", 1)
        assert field.node._jobs == {}

    noding(work)


def test_nobody_but_a_submitter_orders_anything() -> None:
    async def work(field: Field) -> None:
        assert await field.asks(ORDER, source="run/run-1/A") == []
        assert field.node._jobs == {}

    noding(work)


def test_a_second_order_for_a_run_that_goes_on_is_refused() -> None:
    async def work(field: Field) -> None:
        assert await field.asks(ORDER) == []
        field.mailbox.send("node/0", pack(ORDER))
        await asyncio.sleep(0.1)
        (answer,) = field.submitter.heard
        assert "under way already" in str(answer["error"])
        field.mailbox.send("node/0", pack({"t": "cancel", "run": "run-1"}))
        await asyncio.sleep(0.1)
        assert [answer["code"] for answer in field.submitter.heard] == [1, 130]
        assert field.node._jobs == {}

    noding(work)


def test_a_run_ends_with_its_submitter() -> None:
    async def work(field: Field) -> None:
        await field.asks(ORDER)
        assert len(field.node._jobs) == 1
        field.mailbox.close()
        await asyncio.sleep(0.1)
        assert field.node._jobs == {}

    noding(work)


def test_a_code_host_that_could_not_be_started_is_dismissed() -> None:
    async def dying(worker: FakeWorker) -> None:
        await worker.exits(9)

    async def work(field: Field) -> None:
        launcher = FakeLauncher(dying)
        field.node._launcher = launcher.client
        (answer,) = await field.asks(ORDER)
        assert "exited with status 9" in str(answer["error"])
        asked, dismissed = (message for message in field.host.heard if message["t"] in ("principal", "dismiss"))
        assert dismissed == {"t": "dismiss", "name": asked["name"]}
        assert field.node._admissions == {}
        await launcher.close()

    noding(work)


def test_a_host_that_admits_nobody_fails_the_run_in_time() -> None:
    async def work(field: Field) -> None:
        await field.asks(ORDER)
        await asyncio.sleep(30)
        (answer,) = field.submitter.heard
        assert "admitted no code host" in str(answer["error"])

    noding(work, silent=True)


def test_without_a_launcher_a_worker_is_waited_for_but_not_for_ever() -> None:
    async def work(field: Field) -> None:
        began = asyncio.get_running_loop().time()
        with pytest.raises(HostError, match="no launcher"):
            await field.node.client()
        assert asyncio.get_running_loop().time() - began == pytest.approx(LAUNCHER_LIMIT, abs=0.1)

    noding(work)


def test_a_dead_launcher_is_not_asked_again_and_its_successor_is_waited_for() -> None:
    async def work(field: Field) -> None:
        ends = [Channel.pair() for _ in range(2)]
        await field.host.channel.send(pack({"t": "launcher"}), (ends[0][0].fileno(),))
        first = await field.node.client()
        ends[0][1].close()
        await asyncio.sleep(0.1)
        waiting = asyncio.ensure_future(field.node.client())
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await field.host.channel.send(pack({"t": "launcher"}), (ends[1][0].fileno(),))
        assert await waiting is not first
        for near, far in ends:
            near.close()
            far.close()

    noding(work)


def test_status_is_answered_also_when_nothing_runs() -> None:
    async def work(field: Field) -> None:
        await field.host.channel.send(pack({"t": "status"}))
        await asyncio.sleep(0.1)
        assert field.host.heard == [{"t": "status", "runs": [], "workers": [], "sessions": []}]

    noding(work)
