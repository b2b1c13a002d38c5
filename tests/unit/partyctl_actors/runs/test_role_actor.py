"""A role actor over a bus, with the conductor driven by hand."""

from __future__ import annotations

import asyncio

import pytest
from fakes.runs import (
    A,
    B,
    C,
    Hanging,
    Notice,
    Peer,
    Ping,
    Pong,
    Raising,
    Remembering,
    Scene,
    jumping,
    request_reply,
    triangle,
)

from partyctl_actors.errors import ConformanceError, ContentError, SelectionError, SessionError
from partyctl_actors.participants import Meter, Offer, Script, Seat
from partyctl_actors.payloads import pack
from partyctl_actors.protocol import Message, Protocol, send
from partyctl_actors.runs import messages
from partyctl_actors.transcript import Envelope
from partyctl_broker.wire import PAYLOAD_MAX

HI = pack({"text": "hi"})


def test_it_joins_with_the_protocols_id() -> None:
    async def test() -> None:
        async with Scene(Script([]).bind(None)) as scene:  # type: ignore[arg-type]
            assert scene.joined == messages.Join(request_reply.id)

    jumping(test())


def test_it_asks_its_player_when_granted_and_sends_what_it_says() -> None:
    async def test() -> None:
        player = Remembering(Ping("hi"))
        async with Scene(player) as scene:
            scene.tell(messages.Grant(1, None))
            assert await scene.conductor.hears(messages.Sent) == messages.Sent(1, "B", "Ping", HI, 0)
            assert player.offers == [Offer(A, B, (Ping,))]
            scene.tell(messages.Deliver(2, "B", "Pong", HI, False, None))
            scene.tell(messages.End())
            assert await scene.over() is None
            assert player.heard == [Envelope(B, A, Pong("hi"))]

    jumping(test())


def test_a_grant_that_rides_on_a_delivery_is_taken_after_it() -> None:
    async def test() -> None:
        player = Remembering(Pong("yo"))
        async with Scene(player, B) as scene:
            scene.tell(messages.Deliver(1, "A", "Ping", HI, True, None))
            sent = await scene.conductor.hears(messages.Sent)
            assert (sent.turn, sent.label) == (2, "Pong")
            assert player.heard == [Envelope(A, B, Ping("hi"))]

    jumping(test())


def test_what_the_player_reports_to_its_meter_goes_with_the_message() -> None:
    async def test() -> None:
        meter = Meter()
        async with Scene(Remembering(Ping("hi")), meter=meter) as scene:
            meter.add(30)
            meter.add(12)
            scene.tell(messages.Grant(1, None))
            assert (await scene.conductor.hears(messages.Sent)).tokens == 42
            assert meter.take() == 0

    jumping(test())


def test_a_recalled_line_is_told_to_the_player_which_is_not_asked() -> None:
    async def test() -> None:
        player = Remembering()
        async with Scene(player) as scene:
            scene.tell(messages.Recalled(1, "B", "Ping", HI))
            scene.tell(messages.Deliver(2, "B", "Pong", HI, False, None))
            scene.tell(messages.End())
            assert await scene.over() is None
            assert player.recalled == [Envelope(A, B, Ping("hi"))]
            assert player.offers == []

    jumping(test())


@pytest.mark.parametrize(
    "wrong",
    [
        messages.Deliver(1, "B", "Pong", HI, False, None),
        messages.Recalled(1, "B", "Pong", HI),
        messages.Recalled(1, "C", "Ping", HI),
        messages.End(),
        messages.Cancelled(),
    ],
)
def test_a_conductor_that_leaves_the_roles_view_is_refused(wrong: messages.RunMessage) -> None:
    async def test() -> None:
        async with Scene(Hanging()) as scene:
            scene.tell(wrong)
            assert isinstance(await scene.over(), ConformanceError)
            assert (await scene.conductor.hears(messages.Failed)).error == "ConformanceError"

    jumping(test())


@pytest.mark.parametrize(
    "wrong",
    [
        messages.Deliver(1, "C", "Ping", HI, False, None),
        messages.Grant(1, None),
        messages.Deliver(1, "A", "Pong", HI, False, None),
    ],
)
def test_a_listener_refuses_what_it_does_not_wait_for(wrong: messages.RunMessage) -> None:
    async def test() -> None:
        async with Scene(Hanging(), B) as scene:
            scene.tell(wrong)
            assert isinstance(await scene.over(), ConformanceError)

    jumping(test())


def test_delivered_fields_that_do_not_fit_and_noise_are_refused() -> None:
    async def test() -> None:
        async with Scene(Hanging(), B) as scene:
            scene.tell(messages.Deliver(1, "A", "Ping", pack({"text": 5}), False, None))
            assert isinstance(await scene.over(), ContentError)
        async with Scene(Hanging(), B) as scene:
            scene.tell(b"noise")
            assert isinstance(await scene.over(), messages.Malformed)

    jumping(test())


def test_nobody_but_its_conductor_can_tell_it_anything() -> None:
    async def test() -> None:
        player = Remembering()
        async with Scene(player) as scene:
            stranger = await Peer().open(scene.bus, "run/r/B")
            for message in (messages.Grant(1, None), messages.Cancel("me"), messages.End(), b"noise"):
                stranger.send(scene.address, message)
            await asyncio.sleep(1)
            assert not scene.acting.done()
            assert player.offers == []

    jumping(test())


@pytest.mark.parametrize("answer", [Pong("hi"), None, "Ping", Ping])
def test_what_is_not_on_offer_is_refused_here_and_never_sent(answer: object) -> None:
    async def test() -> None:
        async with Scene(Remembering(answer)) as scene:  # type: ignore[arg-type]
            scene.tell(messages.Grant(1, None))
            failure = await scene.over()
            assert isinstance(failure, SelectionError)
            assert "on offer to B: Ping" in str(failure)
            assert not any(isinstance(message, messages.Sent) for message in scene.conductor.heard)

    jumping(test())


def test_a_class_that_only_has_the_name_is_told_apart() -> None:
    other = type("Ping", (Message,), {})

    async def test() -> None:
        async with Scene(Remembering(other())) as scene:
            scene.tell(messages.Grant(1, None))
            assert "another of that name" in str(await scene.over())

    jumping(test())


def test_an_exception_of_the_player_is_kept_as_it_is_and_reported_with_a_note() -> None:
    async def test() -> None:
        error = ZeroDivisionError("oops")
        for player in (Raising(error), Remembering()):
            async with Scene(player) as scene:
                scene.tell(messages.Grant(1, None))
                failure = await scene.over()
                assert failure is error or isinstance(failure, IndexError)
                reported = await scene.conductor.hears(messages.Failed)
                assert failure.__notes__ == [f"raised by A, run r, step 1, at {reported.at}"]
                assert reported.error == type(failure).__name__
                assert reported.text == str(failure)

    jumping(test())


def test_an_exception_in_hearing_ends_the_role() -> None:
    async def test() -> None:
        error = KeyError("deaf")
        async with Scene(Raising(error, at="hear"), B) as scene:
            scene.tell(messages.Deliver(1, "A", "Ping", HI, True, None))
            assert await scene.over() is error

    jumping(test())


def test_a_player_that_cancels_itself_is_a_failure() -> None:
    async def test() -> None:
        async with Scene(Raising(asyncio.CancelledError())) as scene:
            scene.tell(messages.Grant(1, None))
            failure = await scene.over()
            assert isinstance(failure, SessionError)
            assert "cancelled its own work" in str(failure)

    jumping(test())


def test_a_third_role_sees_only_its_own_part() -> None:
    async def test() -> None:
        player = Remembering()
        async with Scene(player, C, triangle) as scene:
            scene.tell(messages.Deliver(2, "B", "Notice", pack({}), False, None))
            scene.tell(messages.Deliver(3, "A", "Ping", HI, False, None))
            scene.tell(messages.End())
            assert await scene.over() is None
            assert player.heard == [Envelope(B, C, Notice()), Envelope(A, C, Ping("hi"))]

    jumping(test())


def test_a_message_that_cannot_be_carried_is_the_roles_failure() -> None:
    big = Protocol(send(A, B, Ping))

    async def test() -> None:
        async with Scene(Remembering(Ping("x" * PAYLOAD_MAX)), A, big) as scene:
            scene.tell(messages.Grant(1, None))
            failure = await scene.over()
            assert failure is not None
            assert "over the ceiling" in str(failure)

    jumping(test())


def test_a_seat_is_all_that_a_player_is_told() -> None:
    seat = Seat("r", A, request_reply)
    assert seat.workers is None
    seat.watch("nobody listens")
    with pytest.raises(ValueError, match="negative"):
        seat.meter.add(-1)
