"""`ask`: the caller plays one role by one opening message."""

from __future__ import annotations

import pytest
from fakes.runs import (
    A,
    B,
    C,
    Counting,
    Notice,
    Ping,
    Pong,
    Stop,
    rally,
    request_reply,
    scripted,
    triangle,
)

from partyctl_actors.errors import (
    ConformanceError,
    ProjectionError,
    SessionError,
)
from partyctl_actors.participants import Agent, Offer, Script, replies
from partyctl_actors.protocol import Message, Protocol, Role, choose, send
from partyctl_actors.runs import Session, Transcript


def test_ask_returns_what_was_expected() -> None:
    session = Session(request_reply, {B: Agent(replies([Pong("yo")]))})
    assert session.ask(A, Ping("hi"), expect=Pong) == Pong("yo")


def test_a_second_ask_gets_its_own_answer() -> None:
    def echo(offer: Offer, heard: Transcript) -> Message:
        question = heard.last(Ping)
        assert question is not None
        return Pong(question.text)

    session = Session(request_reply, {B: echo})
    assert session.ask(A, Ping("one"), expect=Pong) == Pong("one")
    assert session.ask(A, Ping("two"), expect=Pong) == Pong("two")


def test_ask_drives_the_run_to_its_end_and_returns_the_newest() -> None:
    twice = Protocol(send(A, B, Ping), send(B, A, Pong), send(B, A, Pong), send(B, C, Notice))
    session = Session(twice, {B: Script([Pong("1"), Pong("2"), Notice()]), C: Script([])})
    assert session.ask(A, Ping(), expect=Pong) == Pong("2")


@pytest.mark.parametrize(
    ("protocol", "role", "opening", "expect", "why"),
    [
        (request_reply, A, Pong(), Pong, "opens with Ping"),
        (request_reply, B, Pong(), Ping, "does not speak first"),
        (request_reply, A, Ping(), Notice, "can never be told Notice"),
        (request_reply, A, Ping(), Ping, "can never be told Ping"),
        (rally, A, Ping(), Stop, "speaks again in each turn of a loop"),
        (Protocol(send(A, B, Ping), send(A, B, Pong), send(B, A, Stop)), A, Ping(), Stop, "more than once"),
        (Protocol(choose(A, B, {Ping: [], Pong: []}), send(B, A, Stop)), A, Ping(), Stop, "opens with Ping or Pong"),
    ],
)
def test_ask_refuses_a_caller_that_is_more_than_one_opening(
    protocol: Protocol, role: Role, opening: Message, expect: type[Message], why: str
) -> None:
    counting = Counting()
    cast = {other: counting for other in protocol.roles if other != role}
    with pytest.raises(ProjectionError, match=why) as caught:
        Session(protocol, cast).ask(role, opening, expect=expect)
    assert (caught.value.role, caught.value.where, counting.bound) == (role, "ask()", 0)


def test_ask_refuses_a_role_that_is_cast() -> None:
    with pytest.raises(ProjectionError, match="played by the cast already"):
        scripted().ask(A, Ping(), expect=Pong)


def test_ask_names_what_is_wrong_with_its_arguments() -> None:
    session = Session(triangle, {B: Script([]), C: Script([])})
    with pytest.raises(ConformanceError, match="no role X"):
        session.ask(Role("X"), Ping(), expect=Pong)
    with pytest.raises(TypeError, match="opening is a message"):
        session.ask(A, Ping, expect=Pong)  # type: ignore[arg-type]
    with pytest.raises(ConformanceError, match="Nobody plays B"):
        Session(request_reply, {A: Script([])}).run()


def test_ask_says_what_arrived_when_the_expected_did_not() -> None:
    either = Protocol(send(A, B, Ping), choose(B, A, {Pong: [], Stop: []}))
    with pytest.raises(SessionError, match=r"without Pong for A.*told Stop"):
        Session(either, {B: Script([Stop()])}).ask(A, Ping(), expect=Pong)
