from __future__ import annotations

import asyncio

import pytest
from fakes.runs import A, B, Notice, Ping, Pong, Stop, jumping, rally, request_reply

from partyctl_actors.errors import ConformanceError, SelectionError
from partyctl_actors.participants import Offer, Policy, Script, Seat, View
from partyctl_actors.protocol import Message
from partyctl_actors.runs import Session
from partyctl_actors.transcript import Envelope


def thrice(view: View) -> Message:
    return Stop() if view.count(Pong) == 2 else Pong(f"{view.receiver} {len(view.got(Ping))} {len(view.sent(Pong))}")


def test_a_policy_decides_from_what_its_role_has_seen() -> None:
    transcript = Session(rally, {A: Script([Ping()] * 3), B: Policy(thrice)}).run()
    assert [e.message for e in transcript if e.sender == B] == [Pong("A 1 0"), Pong("A 2 1"), Stop()]


def test_a_policy_may_be_async() -> None:
    async def decide(view: View) -> Pong:
        await asyncio.sleep(0)
        newest = view.last(Ping)
        assert newest is not None
        assert view.offered == {Pong}
        return Pong(newest.text)

    assert Session(request_reply, {A: Script([Ping("x")]), B: Policy(decide)}).run().last(Pong) == Pong("x")


def test_what_was_said_in_an_earlier_life_is_seen() -> None:
    player = Policy(thrice).bind(Seat("r", B, rally))
    for number in range(2):
        player.hear(Envelope(A, B, Ping(str(number))))
        player.recall(Envelope(B, A, Pong(str(number))))
    assert asyncio.run(player.author(Offer(B, A, (Pong, Stop)))) == Stop()


def test_a_policy_that_returns_what_is_never_on_offer_is_refused() -> None:
    def decide(view: View) -> Notice:
        return Notice()

    def half(view: View) -> Stop:
        return Stop()

    with pytest.raises(ConformanceError, match="no such message"):
        Session(request_reply, {A: Script([Ping()]), B: Policy(decide)})
    Session(rally, {A: Script([Ping()]), B: Policy(half)})


def test_a_policy_is_a_function() -> None:
    with pytest.raises(TypeError, match="a function of a View"):
        Policy(Pong())  # type: ignore[arg-type]


def test_what_is_not_on_offer_is_refused_and_not_remembered() -> None:
    async def test() -> None:
        async def decide(view: View) -> Message:
            return Notice()

        with pytest.raises(SelectionError):
            await Session(request_reply, {A: Script([Ping()]), B: Policy(decide)}).arun()

    jumping(test())
