"""A deputy and who is served, over one local bus and a clock that jumps."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from fakes.runs import A, B, Hanging, Notice, Ping, Pong, Raising, Stop, jumping, rally, request_reply

from partyctl_actors.errors import (
    AllowanceExceeded,
    Cancelled,
    ConformanceError,
    ContentError,
    DeadlineExceeded,
    ProtocolMismatch,
    SelectionError,
    SessionError,
)
from partyctl_actors.participants import Agent, Answer, Function, Machine, Offer, Participant, Player, Script, Seat
from partyctl_actors.protocol import Message, Protocol, definition, send
from partyctl_actors.remote import INVITING, Deputy, Invitation, Served
from partyctl_actors.runs import Allowance, RoleFailed, Run, Session, messages
from partyctl_actors.runs.messages import Malformed, encode
from partyctl_actors.transcript import Envelope, Transcript
from partyctl_broker.errors import BusTimeout, HelloDeferred, HelloRefused, LetterRefused
from partyctl_broker.local import LocalBus
from partyctl_broker.port import Bus, Letter, Mailbox
from partyctl_broker.wire import PAYLOAD_MAX

PLACE = "session/b"


class World:
    """One bus, on which role B is served or not."""

    def __init__(self, *, patience: float = 60.0) -> None:
        self.bus = LocalBus()
        self.patience = patience
        self.connected = 0
        self.trouble: list[Exception] = []
        self.served: Served | None = None
        self.deputies: list[Deputy] = []

    def bind(self, seat: Seat) -> Player:
        self.deputies.append(Deputy(seat, PLACE, self.connect, self.patience))
        return self.deputies[-1]

    @contextlib.asynccontextmanager
    async def connect(self) -> AsyncIterator[Bus]:
        self.connected += 1
        if self.trouble:
            raise self.trouble.pop(0)
        yield self.bus

    async def serve(self, participant: Participant, protocol: Protocol | None = None) -> Served:
        self.served = Served(B, participant, protocol=protocol, workers=None)
        self.served.opened(await self.bus.open(PLACE, self.served))
        return self.served

    async def die(self) -> None:
        """What a kill is to the others: everything of it is gone."""
        served = self.served
        assert served is not None
        assert served.mailbox is not None
        served.mailbox.close()
        served.mailbox = None
        await served.close()


class Asked:
    """Answers Pong with a number, and remembers what it was asked. At `hang` it waits for ever."""

    def __init__(self, hang: int = 0) -> None:
        self.hang = hang
        self.asked: list[str] = []
        self.reached = asyncio.Event()

    async def __call__(self, offer: Offer, heard: Transcript) -> Message:
        question = next(envelope for envelope in reversed(heard) if envelope.label == "Ping")
        self.asked.append(str(question.payload["text"]))
        if len(heard) == self.hang:
            self.reached.set()
            await asyncio.sleep(3600 * 24)
        kinds = {kind.label: kind for kind in offer.messages}
        return kinds["Stop"]() if len(heard) == 4 else kinds["Pong"](f"{len(heard)}")


def pings() -> Script:
    return Script([Ping(str(number)) for number in range(1, 9)])


def start(world: World, **more: object) -> Run:
    return Session(rally, {A: pings(), B: world}, **more).start()  # type: ignore[arg-type]


SAID = [Ping("1"), Pong("1"), Ping("2"), Pong("2"), Ping("3"), Pong("3"), Ping("4"), Stop()]


def said(transcript: Transcript) -> list[Message]:
    return [envelope.message for envelope in transcript]


def test_a_served_role_plays_as_if_it_were_here() -> None:
    async def test() -> None:
        for protocol in (None, rally):
            world = World()
            await world.serve(Function(Asked()), protocol)
            run = start(world)
            assert said(await run.result()) == SAID
            await asyncio.sleep(1)
            assert world.served is not None
            assert world.served.runs == []

    jumping(test())


def test_runs_at_once_are_played_apart() -> None:
    async def test() -> None:
        world = World()
        participant = Counted()
        await world.serve(participant)
        transcripts = await asyncio.gather(*[start(world).result() for _ in range(5)])
        assert [said(transcript) for transcript in transcripts] == [SAID] * 5
        assert participant.bound == 5

    jumping(test())


class Counted:
    def __init__(self) -> None:
        self.bound = 0

    def bind(self, seat: Seat) -> Player:
        self.bound += 1
        return Function(Asked()).bind(seat)


@pytest.mark.parametrize("hang", [1, 3])
def test_whoever_comes_back_is_asked_nothing_that_was_decided(hang: int) -> None:
    async def test() -> None:
        world = World()
        before, after = Asked(hang), Asked()
        await world.serve(Function(before))
        run = start(world)
        await before.reached.wait()
        await world.die()
        await asyncio.sleep(5)
        assert not run.done
        await world.serve(Function(after))
        assert said(await run.result()) == SAID
        assert before.asked == [str(number) for number in range(1, hang + 1)]
        assert after.asked == [str(number) for number in range(hang, 5)]

    jumping(test())


def test_a_script_over_there_goes_on_behind_what_it_said() -> None:
    async def test() -> None:
        world = World()
        lines = [Pong("a"), Pong("b"), Stop()]
        hanging = Asked(2)
        await world.serve(Function(hanging), rally)
        run = start(world)
        await hanging.reached.wait()
        await world.die()
        await world.serve(Script(lines), rally)
        assert said(await run.result())[1::2] == [Pong("1"), Pong("b"), Stop()]

    jumping(test())


def test_a_run_waits_for_who_is_not_there_yet_and_no_longer_than_it_may() -> None:
    async def test() -> None:
        world = World(patience=30.0)
        run = start(world)
        await asyncio.sleep(20)
        await world.serve(Function(Asked()))
        assert said(await run.result()) == SAID

        lonely = World(patience=30.0)
        began = asyncio.get_running_loop().time()
        with pytest.raises(SessionError, match=r"B is not served.*session/b.*within 30 s"):
            await start(lonely).result()
        assert asyncio.get_running_loop().time() - began == pytest.approx(30)

    jumping(test())


def test_patience_begins_anew_when_who_had_joined_is_gone() -> None:
    async def test() -> None:
        world = World(patience=30.0)
        hanging = Asked(hang=1)
        await world.serve(Function(hanging))
        run = start(world)
        await hanging.reached.wait()
        await asyncio.sleep(3600)
        await world.die()
        await asyncio.sleep(20)
        await world.serve(Function(Asked()))
        assert said(await run.result()) == SAID

    jumping(test())


def test_a_broker_that_is_never_there_ends_the_question_when_patience_does() -> None:
    async def test() -> None:
        world = World(patience=3.0)
        world.connect = never  # type: ignore[method-assign]
        began = asyncio.get_running_loop().time()
        with pytest.raises(SessionError, match="within 3 s: the broker has not answered yet"):
            await start(world).result()
        assert asyncio.get_running_loop().time() - began == pytest.approx(3.0, abs=0.1)

    jumping(test())


@contextlib.asynccontextmanager
async def never() -> AsyncIterator[Bus]:
    await asyncio.sleep(3600)
    yield LocalBus()


def test_a_broker_that_is_away_is_come_back_to_and_one_that_refuses_is_not() -> None:
    async def test() -> None:
        world = World()
        world.trouble = [BusTimeout("no broker"), HelloDeferred("not now")]
        await world.serve(Function(Asked()))
        assert said(await start(world).result()) == SAID
        assert world.connected == 3
        world.trouble = [HelloRefused("not you")]
        with pytest.raises(HelloRefused):
            await start(world).result()

    jumping(test())


def test_a_bus_that_is_gone_for_good_is_replaced() -> None:
    async def test() -> None:
        world = World()
        hanging = Asked(2)
        await world.serve(Function(hanging))
        run = start(world, id="r")
        await hanging.reached.wait()
        await world.die()
        old, world.bus = world.bus, LocalBus()
        await old.close()
        # A local bus does not say so.
        world.deputies[0].gone("run/r/B/deputy", (), "the broker was away for too long")
        await world.serve(Function(Asked()))
        assert said(await run.result()) == SAID
        assert world.connected == 2

    jumping(test())


async def answer_other(offer: Offer, heard: Transcript) -> Message:
    return Notice()


async def answer_ping(offer: Offer, heard: Transcript) -> Message:
    return Ping()


@pytest.mark.parametrize(
    ("participant", "protocol", "error", "text"),
    [
        (Raising(ZeroDivisionError("over there")), None, RoleFailed, "ZeroDivisionError: over there"),
        (Raising(KeyError("deaf"), at="hear"), None, RoleFailed, "deaf"),
        (Raising(SessionError("Enough", fix="Go home")), None, SessionError, "Enough.*Go home"),
        (Function(answer_other), rally, SelectionError, "B said what was not on offer"),
        (Function(answer_ping), None, SelectionError, "B said what was not on offer"),
        (Script([Notice()]), rally, ConformanceError, "no such message"),
        (Machine({Ping: lambda ping: Pong()}), None, ConformanceError, "another class of that name"),
        (Script([]), request_reply, ProtocolMismatch, "served for another protocol"),
    ],
)
def test_what_goes_wrong_over_there_ends_the_run_with_the_role_named(
    participant: Participant, protocol: Protocol | None, error: type[Exception], text: str
) -> None:
    async def test() -> None:
        world = World()
        await world.serve(participant, protocol)
        with pytest.raises(error, match=text) as caught:
            await start(world).result()
        assert any("raised by B" in note for note in caught.value.__notes__)

    jumping(test())


def test_tokens_spent_over_there_are_counted_here() -> None:
    class Model:
        async def complete(self, request: object) -> Answer:
            return Answer('{"label": "Pong", "payload": {}}', tokens=40)

    async def test() -> None:
        world = World()
        await world.serve(Agent(Model()))
        with pytest.raises(AllowanceExceeded) as caught:
            await start(world, allowance=Allowance(tokens=100)).result()
        assert (caught.value.limit, caught.value.spent) == ("tokens", 120)

    jumping(test())


def test_a_run_that_is_cancelled_or_late_stops_the_role_over_there() -> None:
    async def test() -> None:
        world, hanging = World(), Hanging()
        await world.serve(hanging)
        run = start(world)
        while not hanging.asked:
            await asyncio.sleep(0.01)
        await run.cancel("enough")
        with pytest.raises(Cancelled):
            await run.result()
        assert hanging.cancelled == ["enough"]
        assert hanging.closed == 1

        protocol = Protocol(send(A, B, Ping), send(B, A, Pong, within=timedelta(seconds=3)))
        with pytest.raises(DeadlineExceeded):
            await Session(protocol, {A: Script([Ping()]), B: world}).arun()
        assert hanging.closed == 2

    jumping(test())


def test_a_run_whose_process_dies_is_left_by_the_role() -> None:
    async def test() -> None:
        world, hanging = World(), Hanging()
        served = await world.serve(hanging)
        caller = Caller()
        mailbox = await world.bus.open("run/r/B/deputy", caller)
        caller.invite(mailbox, "r")
        await asyncio.sleep(1)
        assert served.runs == ["r"]
        mailbox.close()
        await asyncio.sleep(10)
        assert served.runs == []
        assert hanging.closed == 1

    jumping(test())


class Caller:
    """A deputy that is driven by hand."""

    def __init__(self) -> None:
        self.heard: list[messages.RunMessage] = []

    def invite(self, mailbox: Mailbox, run: str, role: str = "B", protocol: str = rally.id) -> None:
        mailbox.send(PLACE, Invitation(run, role, protocol, definition(rally)).encode(), INVITING)

    def letter(self, letter: Letter) -> None:
        self.heard.append(messages.decode(letter.payload))

    def undelivered(self, letter_id: int, destination: str, why: str) -> None: ...

    def gone(self, address: str, unknown: tuple[int, ...], why: str) -> None: ...

    def link_lost(self, why: str) -> None: ...


@pytest.mark.parametrize(
    ("source", "run", "role", "protocol", "text"),
    [
        ("run/r/B/deputy", "other", "B", rally.id, "Here B is served"),
        ("run/r/B/deputy", "r", "A", rally.id, "Here B is served"),
        ("desk/x", "r", "B", rally.id, "Here B is served"),
        ("run/r/B", "r", "B", rally.id, "Here B is served"),
        ("run/r/B/deputy", "r", "B", request_reply.id, "another protocol"),
    ],
)
def test_only_the_address_of_the_role_in_a_run_may_invite(
    source: str, run: str, role: str, protocol: str, text: str
) -> None:
    async def test() -> None:
        world = World()
        served = await world.serve(Function(Asked()))
        caller = Caller()
        mailbox = await world.bus.open(source, caller)
        caller.invite(mailbox, run, role, protocol)
        mailbox.send(PLACE, b"no letter of ours")
        await asyncio.sleep(1)
        assert served.runs == []
        (failed,) = caller.heard
        assert isinstance(failed, messages.Failed)
        assert text in failed.text

    jumping(test())


def test_an_invitation_that_comes_while_the_place_is_opened_is_not_lost() -> None:
    async def test() -> None:
        world = World()
        served = Served(B, Function(Asked()), protocol=None, workers=None)
        mailbox = await world.bus.open(PLACE, served)
        run = start(world)
        await asyncio.sleep(5)
        served.opened(mailbox)
        assert said(await run.result()) == SAID

    jumping(test())


def test_who_is_invited_again_begins_anew() -> None:
    async def test() -> None:
        world, hanging = World(), Hanging()
        served = await world.serve(hanging)
        caller = Caller()
        mailbox = await world.bus.open("run/r/B/deputy", caller)
        for _ in range(2):
            caller.invite(mailbox, "r")
            await asyncio.sleep(1)
        assert caller.heard == [messages.Join(rally.id)] * 2
        assert served.runs == ["r"]
        await served.close()

    jumping(test())


def test_a_message_that_fits_into_no_letter_ends_the_run_at_once() -> None:
    async def test() -> None:
        world = World()
        await world.serve(Function(Asked()))
        # There is room for the message, and not for what goes with it.
        text = "x" * (PAYLOAD_MAX - 20)
        with pytest.raises(LetterRefused):
            await Session(rally, {A: Script([Ping(text)]), B: world}).arun()
        assert asyncio.get_running_loop().time() < 5

    jumping(test())


class Liar:
    """Serves B, and says what no role says."""

    def __init__(self, *lies: messages.RunMessage | bytes) -> None:
        self.lies = lies
        self.mailbox: Mailbox | None = None

    def letter(self, letter: Letter) -> None:
        assert self.mailbox is not None
        answers: list[messages.RunMessage | bytes] = []
        if letter.correlation == INVITING:
            answers = [messages.Join(rally.id)]
        elif isinstance(messages.decode(letter.payload), messages.Deliver):
            answers = list(self.lies)
        for answer in answers:
            self.mailbox.send(letter.source, answer if isinstance(answer, bytes) else encode(answer))

    def undelivered(self, letter_id: int, destination: str, why: str) -> None: ...

    def gone(self, address: str, unknown: tuple[int, ...], why: str) -> None: ...

    def link_lost(self, why: str) -> None: ...


def sent(
    *, turn: int = 2, to: str = "A", label: str = "Pong", payload: bytes = b"\x80", tokens: int = 0
) -> messages.Sent:
    return messages.Sent(turn, to, label, payload, tokens)


@pytest.mark.parametrize(
    ("lie", "error", "text"),
    [
        (sent(turn=3), SelectionError, "without being asked"),
        (sent(to="C"), SelectionError, "it spoke to C"),
        (sent(tokens=-1), SelectionError, "-1 tokens"),
        (sent(label="Ping"), SelectionError, "it said Ping; on offer: Pong, Stop"),
        (sent(payload=b"\x81\xa1x\x01"), ContentError, "fields do not fit"),
        (sent(payload=b"\xc1"), ContentError, "fields do not fit"),
        (messages.Join("another"), ProtocolMismatch, "another protocol"),
        (messages.End(), SelectionError, "only a conductor sends"),
        (b"what", Malformed, "cannot be read"),
    ],
)
def test_what_no_role_says_ends_the_run_with_the_role_named(
    lie: messages.RunMessage | bytes, error: type[Exception], text: str
) -> None:
    async def test() -> None:
        world, liar = World(), Liar(lie)
        liar.mailbox = await world.bus.open(PLACE, liar)
        with pytest.raises(error, match=text):
            await start(world).result()

    jumping(test())


def test_an_invitation_is_read_as_it_was_written_or_not_at_all() -> None:
    invitation = Invitation("r", "B", "id", {"a": [1, None]})
    assert Invitation.decode(invitation.encode()) == invitation
    for wrong in (b"", b"\x90", b"\x94\x01\x02\x03\x04", b"\xc1", encode(messages.End())):
        with pytest.raises(Malformed):
            Invitation.decode(wrong)


def test_a_long_history_is_told_as_far_as_there_is_room_and_then_the_rest() -> None:
    lines = 3000

    async def test() -> None:
        world = World()
        hanging = Late(lines)
        await world.serve(hanging)
        session = Session(rally, {A: Script([Ping("x" * 2000)] * (lines + 1)), B: world})
        run = session.start()
        await hanging.reached.wait()
        await world.die()
        after = Late(lines)
        after.reached.set()
        await world.serve(after)
        assert len(await run.result()) == 2 * lines
        assert after.asked == 1

    jumping(test())


class Late:
    """Says Stop at its last line, and before it does so the first time it hangs there."""

    def __init__(self, lines: int) -> None:
        self.lines = lines
        self.reached = asyncio.Event()
        self.asked = 0

    def bind(self, seat: Seat) -> _Late:
        return _Late(self)


class _Late(Hanging):
    def __init__(self, late: Late) -> None:
        super().__init__()
        self.late = late
        self.heard = 0

    def hear(self, envelope: Envelope) -> None:
        self.heard += 1

    async def author(self, offer: Offer) -> Message:
        self.late.asked += 1
        kinds = {kind.label: kind for kind in offer.messages}
        if self.heard < self.late.lines:
            return kinds["Pong"]()
        if not self.late.reached.is_set():
            self.late.reached.set()
            await super().author(offer)
        return kinds["Stop"]()
