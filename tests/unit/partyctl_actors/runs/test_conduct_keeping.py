"""The conductor with a record that keeps later: nothing follows from a decision until it would survive."""

from __future__ import annotations

import asyncio

import pytest
from fakes.runs import A, B, Peer, Ping, Pong, jumping, request_reply

from partyctl_actors.errors import Cancelled, JournalError
from partyctl_actors.journals import Record
from partyctl_actors.participants import Script
from partyctl_actors.payloads import pack
from partyctl_actors.runs import Conductor, Decision, Session, messages
from partyctl_broker.local import LocalBus

RUN = "run/r"
HI = pack({"text": "hi"})


class Slow:
    """A journal and its one record: keeps a decision when it is told to."""

    def __init__(self) -> None:
        self.under_way: list[tuple[Decision, asyncio.Future[None]]] = []
        self.kept: list[Decision] = []
        self.ending: str | None = None

    def open(self, run_id: str, protocol_id: str) -> Record:
        return self

    def append(self, decision: Decision) -> asyncio.Future[None]:
        assert not self.under_way
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.under_way.append((decision, future))
        return future

    def decisions(self) -> list[Decision]:
        return []

    def close(self, ending: str = "") -> None:
        if self.ending is None:
            self.ending = ending

    async def asked(self) -> None:
        while not self.under_way:
            await asyncio.sleep(0)

    async def settle(self, error: Exception | None = None) -> None:
        decision, future = self.under_way.pop()
        if error is not None:
            future.set_exception(error)
        else:
            self.kept.append(decision)
            future.set_result(None)
        for _ in range(5):
            await asyncio.sleep(0)


class Stage:
    """A conductor of request_reply with a slow record, its first decision under way, and its two roles by hand."""

    async def __aenter__(self) -> Stage:
        self.bus, self.record = LocalBus(), Slow()
        self.conductor = Conductor(request_reply, "r", record=self.record)
        await self.conductor.open(self.bus)
        self.conducting = asyncio.ensure_future(self.conductor.run())
        self.a = await Peer().open(self.bus, f"{RUN}/A")
        self.b = await Peer().open(self.bus, f"{RUN}/B")
        for peer in (self.a, self.b):
            peer.send(RUN, messages.Join(request_reply.id))
        await self.a.hears(messages.Grant)
        self.a.send(RUN, messages.Sent(1, "B", "Ping", HI, 0))
        await self.record.asked()
        return self

    async def __aexit__(self, *_: object) -> None:
        for peer in (self.a, self.b):
            peer.send(RUN, messages.Cancelled())
        await asyncio.gather(self.conducting, return_exceptions=True)
        await self.bus.close()

    def delivered(self) -> list[str]:
        return [message.label for message in self.b.heard if isinstance(message, messages.Deliver)]


def test_a_decision_is_delivered_only_when_it_is_kept() -> None:
    async def test() -> None:
        async with Stage() as stage:
            for _ in range(5):
                await asyncio.sleep(0)
            assert stage.delivered() == []
            assert len(stage.conductor.transcript) == 0
            await stage.record.settle()
            assert stage.delivered() == ["Ping"]

    jumping(test())


def test_what_happens_meanwhile_waits_for_it() -> None:
    async def test() -> None:
        async with Stage() as stage:
            stage.conductor.cancel("enough")
            stage.b.send(RUN, messages.Sent(2, "A", "Pong", HI, 0))
            await asyncio.sleep(0)
            assert not any(isinstance(message, messages.Cancel) for message in stage.a.heard)
            await stage.record.settle()
            assert stage.delivered() == ["Ping"]
            await stage.a.hears(messages.Cancel)
            for peer in (stage.a, stage.b):
                peer.send(RUN, messages.Cancelled())
            with pytest.raises(Cancelled, match="enough"):
                await stage.conducting
            assert [each.label for each in stage.record.kept] == ["Ping"]

    jumping(test())


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_decision_that_could_not_be_kept_is_not_delivered(cancelled: bool) -> None:
    async def test() -> None:
        async with Stage() as stage:
            if cancelled:
                stage.record.under_way.pop()[1].cancel()
            else:
                await stage.record.settle(JournalError("A decision could not be recorded", why="No space left"))
            await stage.a.hears(messages.Cancel)
            for peer in (stage.a, stage.b):
                peer.send(RUN, messages.Cancelled())
            with pytest.raises(JournalError, match="cancelled" if cancelled else "No space left"):
                await stage.conducting
            assert stage.delivered() == []

    jumping(test())


def test_a_run_ends_only_when_its_last_decision_is_kept_and_its_record_says_how() -> None:
    async def test() -> None:
        journal = Slow()
        run = Session(request_reply, {A: Script([Ping()]), B: Script([Pong()])}, journal=journal).start()
        for expected in (1, 2):
            await journal.asked()
            assert not run.done
            assert len(run.transcript) == expected - 1
            await journal.settle()
        assert len(await run.result()) == 2
        assert journal.ending == "complete"

    jumping(test())
