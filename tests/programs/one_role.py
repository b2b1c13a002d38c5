"""Plays role B of a small run in a process of its own: ENDPOINT SECRET BEHAVIOUR."""

import asyncio
import sys

from partyctl_actors.participants import Function, Offer, Seat
from partyctl_actors.protocol import Message, Protocol, roles, send
from partyctl_actors.runs import RoleActor
from partyctl_broker.peer import ZmqBus

A, B = roles("A", "B")


class Question(Message):
    """A question."""

    text: str


class Answer(Message):
    """An answer."""

    text: str


protocol = Protocol(send(A, B, Question), send(B, A, Answer))
other_protocol = Protocol(send(A, B, Question))


async def answering(offer: Offer, heard: object) -> Message:
    return Answer("from afar")


async def answering_slowly(offer: Offer, heard: object) -> Message:
    await asyncio.sleep(0.25)
    return Answer("from afar")


async def failing(offer: Offer, heard: object) -> Message:
    raise ZeroDivisionError("over there")


async def hanging(offer: Offer, heard: object) -> Message:
    await asyncio.sleep(3600)
    return Answer("too late")


async def main(endpoint: str, secret: str, behaviour: str) -> int:
    bus = await ZmqBus.connect(endpoint, "p", bytes.fromhex(secret))
    played = other_protocol if behaviour == "other" else protocol
    function = {"fail": failing, "hang": hanging, "slow": answering_slowly}.get(behaviour, answering)
    player = Function(function).bind(Seat("r", B, played))
    actor = RoleActor(bus, "r", B, played, player)
    await actor.run()
    await bus.close()
    return 0 if actor.failure is None else 3


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:])))
