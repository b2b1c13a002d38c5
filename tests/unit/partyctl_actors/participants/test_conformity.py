from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Union

import pytest
from fakes.runs import A, B, Notice, Ping, Pong, Stop, rally, request_reply

from partyctl_actors.errors import ConformanceError
from partyctl_actors.participants import Agent, BasePlayer, Offer, Participant, Script, Seat, replies
from partyctl_actors.participants.annotations import returned
from partyctl_actors.protocol import Message, Protocol, Role
from partyctl_actors.protocol import Message as AnyMessage
from partyctl_actors.runs import Session
from partyctl_actors.transcript import Transcript


def one(offer: Offer, heard: Transcript) -> Pong: ...  # type: ignore[empty-body]
def either(offer: Offer, heard: Transcript) -> Pong | Stop: ...  # type: ignore[empty-body]
def older(offer: Offer, heard: Transcript) -> Union[Pong, Stop]: ...  # type: ignore[empty-body]  # noqa: UP007
def awaited(offer: Offer, heard: Transcript) -> Awaitable[Pong]: ...  # type: ignore[empty-body]
def marked(offer: Offer, heard: Transcript) -> Annotated[Pong, "hi"]: ...  # type: ignore[empty-body]
def anything(offer: Offer, heard: Transcript) -> AnyMessage: ...  # type: ignore[empty-body]
def partly(offer: Offer, heard: Transcript) -> Pong | AnyMessage: ...  # type: ignore[empty-body]
def unknown(offer: Offer, heard: Transcript) -> Nothing: ...  # type: ignore[name-defined]  # noqa: F821
async def coroutine(offer: Offer, heard: Transcript) -> Pong: ...  # type: ignore[empty-body]


class Callable_:  # noqa: N801
    def __call__(self, offer: Offer, heard: Transcript) -> Pong: ...  # type: ignore[empty-body]

    def method(self, offer: Offer, heard: Transcript) -> Pong: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    ("function", "kinds"),
    [
        (one, {Pong}),
        (either, {Pong, Stop}),
        (older, {Pong, Stop}),
        (awaited, {Pong}),
        (marked, {Pong}),
        (coroutine, {Pong}),
        (Callable_(), {Pong}),
        (Callable_().method, {Pong}),
        (anything, None),
        (partly, None),
        (unknown, None),
        (lambda offer, heard: Pong(), None),
        (print, None),
    ],
)
def test_a_function_says_by_its_annotation_what_it_returns(
    function: Callable[..., object], kinds: set[type[Message]] | None
) -> None:
    assert returned(function) == kinds


def silent(offer: Offer, heard: Transcript) -> Notice:
    return Notice()


def asking(offer: Offer, heard: Transcript) -> Ping:
    return Ping()


class Picky(BasePlayer):
    def check(self, protocol: Protocol, role: Role) -> None:
        raise ConformanceError("I play no such role", role=role, where="Picky", fix="Ask another")

    def bind(self, seat: Seat) -> Picky:
        return self

    def author(self, offer: Offer) -> Message:
        return Pong()


@pytest.mark.parametrize(
    ("player", "why"),
    [
        (Script([Ping()]), "line 1, Ping, is never on offer there"),
        (Script([Notice()]), "no such message"),
        (Script([Pong(), Stop(), Pong()]), ""),
        (Agent(replies([Ping()])), "line 1, Ping, is never on offer"),
        (Agent(replies(lambda offer: Ping())), ""),
        (silent, "no such message"),
        (asking, "it says Ping, and Pong or Stop is on offer somewhere"),
        (one, ""),
        (Picky(), "I play no such role"),
    ],
)
def test_a_participant_that_cannot_play_its_role_is_refused_before_anything_runs(player: Participant, why: str) -> None:
    def make() -> object:
        return Session(rally, {A: Script([Ping()]), B: player})

    if not why:
        assert make()
        return
    with pytest.raises(ConformanceError, match=why) as caught:
        make()
    assert caught.value.role == B
    assert caught.value.where
    assert caught.value.recipe == caught.value.fix != ""


def test_another_class_of_the_same_name_is_told_apart() -> None:
    class Pong(Message):  # shadows the protocol's
        """Another."""

    with pytest.raises(ConformanceError, match="another class of that name"):
        Session(request_reply, {A: Script([Ping()]), B: Script([Pong()])})
