"""One run at a node, on a local bus, with a code host that is played here."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from fakes.quiet import quietly
from fakes.runs import A, B, Hanging, Ping, Pong, request_reply

from partyctl.errors import CodeHostLost, RunFailed
from partyctl.maps import Map, unpack
from partyctl.node.job import Job, Order
from partyctl_actors.journals import MemoryJournal, Record
from partyctl_actors.participants import Participant, Script, Seat
from partyctl_actors.protocol import definition
from partyctl_actors.runs import RoleActor
from partyctl_broker.errors import LetterRefused
from partyctl_broker.local import LocalBus
from partyctl_broker.port import Letter

CAST: dict[str, Participant] = {"A": Script([Ping("a")]), "B": Script([Pong("b")])}


class FakeCode:
    """A code host whose file casts both roles.

    Args:
        bus: where its roles join.
        cast: who plays them.
        error: what it raises when its roles are to start.
    """

    def __init__(self, bus: LocalBus, cast: dict[str, Participant], error: Exception | None) -> None:
        self._bus = bus
        self._cast = cast
        self._error = error
        self.lent = 0
        self.over: list[object] = []

    @contextlib.asynccontextmanager
    async def lend(self) -> AsyncIterator["FakeCode"]:
        self.lent += 1
        try:
            yield self
        finally:
            self.lent -= 1

    async def ask(self, run: str, order: Map, *, limit: float | None) -> Map:
        if order["t"] == "run":
            names = ("steps", "unfoldings", "tokens", "wall_clock")
            plan: Map = {"protocol": definition(request_reply), "agents": {}, "people": {}}
            plan["id"] = "r"
            plan["allowance"] = dict.fromkeys(names)
            return {"t": "planned", "plan": plan}
        if self._error is not None:
            raise self._error
        run_id = str(order["id"])
        players = [(role, self._cast[role.name].bind(Seat(run_id, role, request_reply))) for role in (A, B)]
        await asyncio.gather(*(RoleActor(self._bus, run_id, role, request_reply, who).run() for role, who in players))
        return {"t": "played"}

    async def tell(self, order: Map) -> None:
        self.over.append(order["run"])


class NoWorkers:
    """A source of workers for runs without any."""

    async def client(self) -> object:
        raise AssertionError("no role needs a worker")

    async def close(self) -> None:
        pass


class Submitter:
    """Whoever asked for the run."""

    def __init__(self) -> None:
        self.heard: list[Map] = []

    def letter(self, letter: Letter) -> None:
        self.heard.append(unpack(letter.payload))

    def undelivered(self, letter_id: int, destination: str, why: str) -> None:
        pass

    def gone(self, address: str, unknown: tuple[int, ...], why: str) -> None:
        pass

    def link_lost(self, why: str) -> None:
        pass


class Narrow:
    """A mailbox that cannot send deliveries."""

    address = "node/0"

    def __init__(self, real: object) -> None:
        self._real = real

    def send(self, destination: str, payload: bytes, correlation: int = 0) -> int:
        if unpack(payload)["event"] == "delivered":
            raise LetterRefused("too large")
        return self._real.send(destination, payload, correlation)  # type: ignore[attr-defined, no-any-return]


def unhappened(kind: str, subject: str, cause: str, fields: Map) -> None:
    raise AssertionError(f"no agent plays, and {kind} happened")


def told(
    work: Callable[[Job], Awaitable[None]] | None = None,
    *,
    cast: dict[str, Participant] = CAST,
    error: Exception | None = None,
    narrow: bool = False,
) -> list[Map]:
    """What the submitter hears of a run; nothing of the run is left afterwards."""

    async def run() -> list[Map]:
        bus = LocalBus()
        submitter = Submitter()
        await bus.open("client/r", submitter)
        mailbox = await bus.open("node/0", Submitter())
        code = FakeCode(bus, cast, error)
        letters = Narrow(mailbox) if narrow else mailbox
        journal = MemoryJournal()

        def record(wished: str | None, protocol: str) -> tuple[str, Record]:
            assert wished == "r"
            return wished, journal.open(wished, protocol)

        job = Job(
            Order("order", None, "client/r"), bus, NoWorkers(), letters, code.lend, record, lambda: None, unhappened
        )  # type: ignore[arg-type]
        task = job.start()
        if work is not None:
            await work(job)
        await asyncio.wait_for(task, 60)
        await asyncio.sleep(0.1)
        assert (code.lent, code.over) == (0, ["order"])
        await bus.open("run/r", Submitter())  # free again
        await bus.close()
        return submitter.heard

    return quietly(run())


def test_a_run_is_told_from_its_start_to_its_end() -> None:
    events = told()
    assert [event["event"] for event in events] == ["started", "delivered", "delivered", "ended"]
    assert events[0]["place"] == "on node/0"
    assert events[-1] == {"event": "ended", "run": "r", "messages": 2}


@pytest.mark.parametrize(
    ("error", "code"),
    [(RunFailed("bind is broken", 7), 7), (CodeHostLost("/x.py", "exited with status 9", ""), 1), (KeyError("x"), 1)],
)
def test_what_breaks_in_the_code_host_ends_the_run_with_its_cause(error: Exception, code: int) -> None:
    events = told(error=error)
    assert [event["event"] for event in events] == ["started", "failed"]
    assert events[-1]["code"] == code
    assert str(error) in str(events[-1]["error"])


def test_a_run_that_is_cancelled_again_and_again_still_cleans_up() -> None:
    hanging = Hanging()

    async def cancel(job: Job) -> None:
        while not hanging.asked:
            await asyncio.sleep(0.1)
        assert job.waiting_for == "A"
        for _ in range(3):
            job.cancel()
            await asyncio.sleep(0)

    events = told(cancel, cast={"A": hanging, "B": CAST["B"]})
    assert events[-1] == {"event": "failed", "error": "the run was cancelled", "code": 130}
    assert len(hanging.cancelled) == 1
    assert hanging.closed == 1


def test_a_run_whose_submitter_cannot_be_told_what_happens_ends_and_says_why() -> None:
    events = told(narrow=True, cast={"A": CAST["A"], "B": Hanging()})
    assert [event["event"] for event in events] == ["started", "failed"]
    assert "cannot be told" in str(events[-1]["error"])
