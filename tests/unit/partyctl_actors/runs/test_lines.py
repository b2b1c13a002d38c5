"""The lines between a conductor and its roles within one process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from partyctl_actors.participants import BasePlayer, Offer, Script, Seat
from partyctl_actors.protocol import Message, Protocol, roles, send
from partyctl_actors.runs import Session, messages
from partyctl_actors.runs.lines import TURN, DirectLines
from partyctl_actors.transcript import Envelope
from partyctl_broker.errors import LetterRefused
from partyctl_broker.wire import PAYLOAD_MAX

A, B = roles("A", "B")


class Words(Message):
    """Something that can be changed from within."""

    words: list[str]


class Word(Message):
    """Something that cannot."""

    word: str


class Ear:
    """An end of a line that remembers what it was told."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def told(self, *what: object) -> None:
        self.heard.append(what[-1])

    def lost(self, *what: object) -> None:
        self.heard.append(what[-1])


class Changing(BasePlayer):
    """Says a message, and what it hears it changes if it can."""

    def __init__(self, say: Callable[[], Message]) -> None:
        self.said: list[Message] = []
        self.heard: list[Message] = []
        self._say = say

    def bind(self, seat: Seat) -> Changing:
        return self

    def author(self, offer: Offer) -> Message:
        self.said.append(self._say())
        return self.said[-1]

    def hear(self, envelope: Envelope) -> None:
        self.heard.append(envelope.message)
        words = getattr(envelope.message, "words", None)
        if words is not None:
            words.append("changed")


def test_what_can_be_changed_from_within_is_copied_on_its_way() -> None:
    speaker, hearer = Changing(lambda: Words(["kept"])), Changing(lambda: Words([]))
    transcript = Session(Protocol(send(A, B, Words)), {A: speaker, B: hearer}).run()
    assert speaker.said == [Words(["kept"])]
    assert hearer.heard == [Words(["kept", "changed"])]
    assert [envelope.message for envelope in transcript] == [Words(["kept"])]


def test_what_cannot_be_changed_is_shared() -> None:
    speaker, hearer = Changing(lambda: Word("same")), Changing(lambda: Word(""))
    Session(Protocol(send(A, B, Word)), {A: speaker, B: hearer}).run()
    assert hearer.heard[0] is speaker.said[0]


def test_what_no_bus_would_carry_is_refused_here_too() -> None:
    with pytest.raises(LetterRefused, match="over the ceiling"):
        Session(Protocol(send(A, B, Word)), {A: Script([Word("x" * PAYLOAD_MAX)]), B: Script([])}).run()


def test_many_calls_let_others_on_the_loop_have_their_turn() -> None:
    async def test() -> None:
        lines, role = DirectLines(), Ear()
        conductor = lines.conductor(Ear())
        lines.role("A", role)
        for _ in range(TURN + 1):
            conductor.send("A", messages.Welcome())
        await asyncio.sleep(0)
        assert len(role.heard) == TURN
        await asyncio.sleep(0)
        assert len(role.heard) == TURN + 1

    asyncio.run(test())


def test_one_who_raises_keeps_nobody_from_the_rest() -> None:
    class Raising(Ear):
        def told(self, *what: object) -> None:
            raise ValueError("told")

    async def test() -> None:
        problems: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context["exception"]))
        lines, role = DirectLines(), Ear()
        conductor = lines.conductor(Ear())
        lines.role("A", Raising())
        lines.role("B", role)
        conductor.send("A", messages.Welcome())
        conductor.send("B", messages.Welcome())
        for _ in range(2):
            await asyncio.sleep(0)
        assert role.heard == [messages.Welcome()]
        assert [str(problem) for problem in problems] == ["told"]

    asyncio.run(test())


def test_who_hangs_up_is_missed_by_the_other_end_once() -> None:
    async def test() -> None:
        lines, conductor, role = DirectLines(), Ear(), Ear()
        to_roles = lines.conductor(conductor)
        gone = lines.role("A", Ear())
        lines.role("B", role)
        gone.close()
        gone.close()
        assert conductor.heard == ["it was closed"]
        to_roles.send("A", messages.Welcome())
        assert conductor.heard == ["it was closed", "it is not there"]
        to_roles.close()
        to_roles.close()
        await asyncio.sleep(0)
        assert role.heard == ["it was closed"]
        assert len(conductor.heard) == 2

    asyncio.run(test())
