"""The conductor over a bus, with roles driven by hand."""

from __future__ import annotations

import asyncio

import pytest
from fakes.runs import A, B, Peer, Ping, Pong, jumping, request_reply

from partyctl_actors.errors import (
    Cancelled,
    ContentError,
    DeadlineExceeded,
    JournalError,
    ProtocolMismatch,
    SelectionError,
    SessionError,
)
from partyctl_actors.payloads import pack
from partyctl_actors.runs import (
    Allowance,
    Conductor,
    Decision,
    Delivered,
    Ending,
    MemoryJournal,
    RoleFailed,
    RunEnded,
    RunEvent,
    RunFailed,
    RunStarted,
    TurnGranted,
    conduct,
    messages,
)
from partyctl_broker.local import LocalBus

RUN = "run/r"
HI = pack({"text": "hi"})


class Stage:
    """A conductor of request_reply, and its two roles by hand."""

    def __init__(self, **options: object) -> None:
        self.events: list[RunEvent] = []
        self.bus = LocalBus()
        self.conductor = Conductor(request_reply, "r", on_event=self.events.append, **options)  # type: ignore[arg-type]
        self.a, self.b = Peer(), Peer()

    async def __aenter__(self) -> Stage:
        await self.conductor.open(self.bus)
        self.conducting = asyncio.ensure_future(self.conductor.run())
        await self.a.open(self.bus, f"{RUN}/A")
        await self.b.open(self.bus, f"{RUN}/B")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.conducting.cancel()
        await asyncio.gather(self.conducting, return_exceptions=True)
        await self.bus.close()

    def join(self, protocol: str = request_reply.id) -> None:
        for peer in (self.a, self.b):
            peer.send(RUN, messages.Join(protocol))

    async def begun(self) -> None:
        self.join()
        await self.a.hears(messages.Grant)

    def confirm(self) -> None:
        for peer in (self.a, self.b):
            peer.send(RUN, messages.Cancelled())


def say(turn: int, receiver: str, label: str, payload: bytes = HI) -> messages.Sent:
    return messages.Sent(turn, receiver, label, payload, 0)


def test_a_run_from_joining_to_the_end() -> None:
    async def test() -> None:
        async with Stage() as stage:
            stage.join()
            for peer in (stage.a, stage.b):
                await peer.hears(messages.Welcome)
            assert await stage.a.hears(messages.Grant) == messages.Grant(1, None)
            stage.a.send(RUN, say(1, "B", "Ping"))
            assert await stage.b.hears(messages.Deliver) == messages.Deliver(1, "A", "Ping", HI, True, None)
            assert len(stage.conductor.transcript) == 1
            stage.b.send(RUN, say(2, "A", "Pong"))
            assert await stage.a.hears(messages.Deliver) == messages.Deliver(2, "B", "Pong", HI, False, None)
            transcript = await stage.conducting
            for peer in (stage.a, stage.b):
                await peer.hears(messages.End)
            assert transcript.messages == (Ping, Pong)

    jumping(test())


def test_what_happens_is_told_in_order() -> None:
    async def test() -> list[RunEvent]:
        async with Stage() as stage:
            await stage.begun()
            stage.a.send(RUN, say(1, "B", "Ping"))
            await stage.b.hears(messages.Deliver)
            stage.b.send(RUN, say(2, "A", "Pong"))
            await stage.conducting
            return stage.events

    events = jumping(test())
    assert [event for event in events if not isinstance(event, Delivered)] == [
        RunStarted("r"),
        TurnGranted("r", 1, "A", "B"),
        TurnGranted("r", 2, "B", "A"),
        RunEnded("r", 2),
    ]
    assert [str(event.envelope) for event in events if isinstance(event, Delivered)] == [
        "A -> B: Ping(text='hi')",
        "B -> A: Pong(text='hi')",
    ]


@pytest.mark.parametrize(
    ("wrong", "kind", "text"),
    [
        (say(1, "B", "Pong"), SelectionError, "A said what was not on offer"),
        (say(7, "B", "Ping"), SelectionError, "A said what was not on offer"),
        (say(1, "B", "Ping", pack({"text": 5})), ContentError, "A sent a message whose fields do not fit"),
        (messages.End(), SelectionError, "only a conductor sends"),
        (b"noise", SelectionError, "cannot be read"),
    ],
)
def test_an_illegal_message_ends_the_run_names_the_role_and_stops_everybody(
    wrong: messages.RunMessage | bytes, kind: type[Exception], text: str
) -> None:
    async def test() -> None:
        async with Stage() as stage:
            await stage.begun()
            stage.a.send(RUN, wrong)
            assert await stage.b.hears(messages.Cancel)
            assert not stage.conducting.done()
            stage.confirm()
            with pytest.raises(kind, match=text):
                await stage.conducting
            assert isinstance(stage.events[-1], RunFailed)
            assert stage.events[-1].role == "A"
            assert len(stage.conductor.transcript) == 0

    jumping(test())


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (say(2, "A", "Ping"), "on offer: Pong"),
        (say(2, "A", "Nonsense"), "on offer: Pong"),
        (say(2, "B", "Pong"), "receiver is A"),
        (say(1, "A", "Pong"), "turn 2"),
    ],
)
def test_the_sender_of_an_illegal_message_is_told_what_was_expected_and_nothing_else_changes(
    wrong: messages.Sent, expected: str
) -> None:
    journal = MemoryJournal()

    async def test() -> None:
        async with Stage(record=journal.open("r", request_reply.id)) as stage:
            await stage.begun()
            stage.a.send(RUN, say(1, "B", "Ping"))
            assert await stage.b.hears(messages.Deliver)
            stage.b.send(RUN, wrong)
            assert expected in (await stage.b.hears(messages.Cancel)).reason
            stage.b.send(RUN, say(2, "A", "Pong"))  # the right one is too late: the run ends with blame
            stage.confirm()
            with pytest.raises(SelectionError, match="B"):
                await stage.conducting
            assert not any(isinstance(heard, messages.Deliver) for heard in stage.a.heard)
            assert [envelope.label for envelope in stage.conductor.transcript] == ["Ping"]

    jumping(test())
    kept, decisions = journal.read("r")
    assert [decision.label for decision in decisions] == ["Ping"]
    assert "B" in kept.ending


def test_a_message_said_twice_is_one_too_many_and_is_kept_once() -> None:
    journal = MemoryJournal()

    async def test() -> None:
        async with Stage(record=journal.open("r", request_reply.id)) as stage:
            await stage.begun()
            for _ in range(2):
                stage.a.send(RUN, say(1, "B", "Ping"))
            assert "turn of B" in (await stage.a.hears(messages.Cancel)).reason
            stage.confirm()
            with pytest.raises(SelectionError, match="A"):
                await stage.conducting
            assert [isinstance(heard, messages.Deliver) for heard in stage.b.heard].count(True) == 1

    jumping(test())
    assert [decision.label for decision in journal.read("r")[1]] == ["Ping"]


def test_a_message_after_the_end_comes_back_to_its_sender_and_changes_nothing() -> None:
    journal = MemoryJournal()

    async def test() -> None:
        async with Stage(record=journal.open("r", request_reply.id)) as stage:
            await stage.begun()
            stage.a.send(RUN, say(1, "B", "Ping"))
            await stage.b.hears(messages.Deliver)
            stage.b.send(RUN, say(2, "A", "Pong"))
            transcript = await stage.conducting
            stage.conductor.close()
            stage.b.lost.clear()
            stage.b.send(RUN, say(3, "A", "Pong"))
            while RUN not in stage.b.lost:
                await asyncio.sleep(0)
            assert len(transcript) == 2

    jumping(test())
    kept, decisions = journal.read("r")
    assert (kept.ending, len(decisions)) == ("complete", 2)


def test_a_role_cannot_speak_for_another() -> None:
    async def test() -> None:
        async with Stage() as stage:
            await stage.begun()
            stage.b.send(RUN, say(1, "B", "Ping"))
            stage.confirm()
            with pytest.raises(SelectionError, match="B said what was not on offer"):
                await stage.conducting

    jumping(test())


def test_a_stranger_is_ignored() -> None:
    async def test() -> None:
        async with Stage() as stage:
            stranger = await Peer().open(stage.bus, f"{RUN}/X")
            await stage.begun()
            for message in (say(1, "B", "Ping"), messages.Join("?"), b"noise", messages.Cancelled()):
                stranger.send(RUN, message)
            stage.a.send(RUN, say(1, "B", "Ping"))
            assert (await stage.b.hears(messages.Deliver)).sender == "A"
            assert stage.conductor.verdict is None

    jumping(test())


def test_a_role_whose_mailbox_closes_ends_the_run_with_its_name() -> None:
    async def test() -> None:
        async with Stage() as stage:
            await stage.begun()
            stage.b.mailbox.close()
            assert await stage.a.hears(messages.Cancel)
            stage.a.send(RUN, messages.Cancelled())
            with pytest.raises(SessionError, match="B is gone"):
                await stage.conducting

    jumping(test())


def test_a_broker_that_is_started_again_does_not_end_the_run() -> None:
    async def test() -> None:
        async with Stage() as stage:
            await stage.begun()
            stage.conductor.link_lost("the broker went away")
            await asyncio.sleep(0)
            assert stage.conductor.verdict is None
            stage.conductor.cancel("enough")
            stage.confirm()
            with pytest.raises(Cancelled):
                await stage.conducting

    jumping(test())


def test_a_conductor_whose_own_mailbox_is_closed_for_good_ends_the_run() -> None:
    async def test() -> None:
        async with Stage() as stage:
            await stage.begun()
            stage.conductor.gone(RUN, (), "the broker went away")
            stage.confirm()
            with pytest.raises(SessionError, match=r"link to the roles is gone.*the broker went away"):
                await stage.conducting

    jumping(test())


def test_roles_that_do_not_join_are_named_at_the_limit() -> None:
    async def test() -> None:
        async with Stage() as stage:
            stage.a.send(RUN, messages.Join(request_reply.id))
            await stage.a.hears(messages.Cancel)
            stage.a.send(RUN, messages.Cancelled())
            with pytest.raises(SessionError, match=r"B did not join the run.*within 30 s"):
                await stage.conducting
            assert asyncio.get_running_loop().time() == pytest.approx(30, abs=0.1)

    jumping(test())


def test_a_role_of_another_protocol_is_refused() -> None:
    async def test() -> None:
        async with Stage() as stage:
            stage.join("another")
            await stage.a.hears(messages.Cancel)
            await stage.b.hears(messages.Cancel)
            stage.confirm()
            with pytest.raises(ProtocolMismatch, match="A follows another protocol"):
                await stage.conducting

    jumping(test())


def test_a_failure_reported_from_elsewhere_is_an_error_with_role_type_and_text() -> None:
    async def test() -> None:
        async with Stage() as stage:
            await stage.begun()
            stage.a.send(RUN, messages.Failed(1, "ZeroDivisionError", "division by zero", "", "", "", ""))
            stage.confirm()
            with pytest.raises(RoleFailed, match=r"A failed.*ZeroDivisionError: division by zero") as caught:
                await stage.conducting
            assert (caught.value.role, caught.value.error) == ("A", "ZeroDivisionError")

    jumping(test())


def test_an_error_of_ours_reported_from_elsewhere_keeps_its_class() -> None:
    async def test() -> None:
        async with Stage() as stage:
            await stage.begun()
            stage.a.send(RUN, messages.Failed(1, "DeadlineExceeded", "x", "A was late", "here", "it slept", "wait"))
            stage.confirm()
            with pytest.raises(DeadlineExceeded, match=r"A was late.*here.*it slept.*wait") as caught:
                await stage.conducting
            assert caught.value.__notes__ == ["raised by A, run r, step 1"]

    jumping(test())


def test_cancelling_is_told_to_every_role_and_awaited() -> None:
    async def test() -> None:
        async with Stage() as stage:
            await stage.begun()
            stage.conductor.cancel("no longer wanted")
            assert await stage.a.hears(messages.Cancel) == messages.Cancel("no longer wanted")
            assert await stage.b.hears(messages.Cancel) == messages.Cancel("no longer wanted")
            assert not stage.conducting.done()
            stage.confirm()
            with pytest.raises(Cancelled, match="no longer wanted"):
                await stage.conducting

    jumping(test())


def test_roles_that_never_confirm_are_given_up_and_named() -> None:
    async def test() -> None:
        async with Stage() as stage:
            await stage.begun()
            stage.conductor.cancel("no longer wanted")
            with pytest.raises(Cancelled) as caught:
                await stage.conducting
            assert caught.value.__notes__ == ["did not confirm that they stopped: A, B"]
            assert asyncio.get_running_loop().time() == pytest.approx(5, abs=0.1)

    jumping(test())


def test_a_caller_that_is_cancelled_stops_the_roles_first() -> None:
    async def test() -> None:
        async with Stage() as stage:
            await stage.begun()
            stage.conducting.cancel()
            assert await stage.b.hears(messages.Cancel)
            stage.confirm()
            with pytest.raises(asyncio.CancelledError):
                await stage.conducting
            assert stage.conductor.verdict is not None
            assert stage.conductor.verdict.ending is Ending.CANCELLED

    jumping(test())


def test_a_run_cancelled_before_it_is_open_asks_nobody() -> None:
    async def test() -> None:
        conductor = Conductor(request_reply, "r")
        conductor.cancel("changed my mind")
        bus = LocalBus()
        await conductor.open(bus)
        with pytest.raises(Cancelled, match="changed my mind"):
            await conductor.run()
        await bus.close()

    jumping(test())


class FullDisk:
    """A record that keeps nothing."""

    def append(self, decision: Decision) -> None:
        raise OSError(28, "No space left on device")

    def decisions(self) -> list[Decision]:
        return []

    def close(self, ending: str = "") -> None:
        return


@pytest.mark.parametrize("last", [False, True])
def test_a_decision_that_cannot_be_recorded_is_not_delivered(last: bool) -> None:
    async def test() -> None:
        record = FullDisk()
        if last:
            kept = MemoryJournal().open("r", request_reply.id)
            kept.append(Decision(1, "A", "B", "Ping", HI, 0))
            record.decisions = kept.decisions  # type: ignore[assignment, method-assign]
        async with Stage(record=record) as stage:
            stage.join()
            asked, turn, receiver, label = (stage.b, 2, "A", "Pong") if last else (stage.a, 1, "B", "Ping")
            await asked.hears(messages.Deliver if last else messages.Grant)
            asked.send(RUN, say(turn, receiver, label))
            await stage.a.hears(messages.Cancel)
            stage.confirm()
            with pytest.raises(JournalError, match="No space left on device"):
                await stage.conducting
            assert len(stage.conductor.transcript) == int(last)

    jumping(test())


def test_a_recorded_run_is_replayed_and_asks_nobody() -> None:
    async def test() -> None:
        journal = MemoryJournal()
        record = journal.open("r", request_reply.id)
        record.append(Decision(1, "A", "B", "Ping", HI, 0))
        record.append(Decision(2, "B", "A", "Pong", HI, 0))
        async with Stage(record=record) as stage:
            stage.join()
            transcript = await stage.conducting
            assert await stage.a.hears(messages.Recalled) == messages.Recalled(1, "B", "Ping", HI)
            assert await stage.b.hears(messages.Recalled) == messages.Recalled(2, "A", "Pong", HI)
            assert [str(envelope) for envelope in transcript] == ["A -> B: Ping(text='hi')", "B -> A: Pong(text='hi')"]
            assert not any(isinstance(message, messages.Grant) for message in stage.a.heard)

    jumping(test())


def test_afterwards_the_address_is_free_and_the_record_can_be_opened() -> None:
    async def test() -> None:
        bus = LocalBus()
        journal = MemoryJournal()
        for _ in range(2):
            record = journal.open("r", request_reply.id)
            running = asyncio.ensure_future(
                conduct(bus, request_reply, "r", allowance=Allowance(steps=0), record=record)
            )
            await asyncio.sleep(0)
            peers = [await Peer().open(bus, f"{RUN}/{role}") for role in (A, B)]
            for peer in peers:
                peer.send(RUN, messages.Join(request_reply.id))
            for peer in peers:
                await peer.hears(messages.Cancel)
                peer.mailbox.close()
            with pytest.raises(SessionError, match="allowance of steps"):
                await running
        await bus.close()

    jumping(test())
