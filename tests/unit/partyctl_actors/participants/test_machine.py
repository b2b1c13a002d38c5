from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from fakes.runs import A, B, Notice, Ping, Pong, Stop, rally, request_reply, triangle

from partyctl_actors.errors import ConformanceError, DeadlineExceeded
from partyctl_actors.participants import Machine, Script
from partyctl_actors.protocol import Protocol, send
from partyctl_actors.protocol.protocol import Protocol as AProtocol
from partyctl_actors.runs import Session


def echo(request: Ping) -> Pong:
    return Pong(request.text)


async def async_echo(request: Ping) -> Pong:
    await asyncio.sleep(0)
    return Pong(request.text)


class Echo:
    def __call__(self, request: Ping) -> Pong:
        return Pong(request.text)


@pytest.mark.parametrize("handler", [echo, async_echo, Echo(), lambda request: Pong(request.text)])
def test_a_table_answers_what_it_is_asked(handler: Callable[[Ping], Pong]) -> None:
    transcript = Session(request_reply, {A: Script([Ping("hi")]), B: Machine({Ping: handler})}).run()
    assert transcript.last(Pong) == Pong("hi")


def test_each_request_of_a_loop_is_answered_anew() -> None:
    def answer(request: Ping) -> Pong | Stop:
        return Stop() if request.text == "3" else Pong(request.text)

    transcript = Session(rally, {A: Script([Ping(str(n)) for n in range(9)]), B: Machine({Ping: answer})}).run()
    assert len(transcript) == 8


def wrong(request: Ping) -> Notice:
    return Notice()


@pytest.mark.parametrize(
    ("protocol", "table", "why"),
    [
        (request_reply, {}, "no answer to Ping"),
        (request_reply, {Ping: echo, Pong: echo}, "Pong is never asked"),
        (rally, {Ping: wrong}, "the protocol has no such message"),
        (triangle, {Ping: wrong}, "after Ping from A this role tells C"),
        (Protocol(send(B, A, Pong)), {}, "this role speaks first"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_when_the_session_is_made(
    protocol: AProtocol, table: dict[object, object], why: str
) -> None:
    cast = {role: Machine(table) if role == B else Script([]) for role in protocol.roles}  # type: ignore[arg-type]
    with pytest.raises(ConformanceError, match=why) as caught:
        Session(protocol, cast)
    assert caught.value.role == B
    assert caught.value.where
    assert caught.value.recipe


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({"Ping": echo}, "keyed by classes of messages"),
        ({Ping("x"): echo}, "keyed by classes of messages"),
        ({Ping: "Pong"}, "is a function"),
        ({Ping: lambda: Pong()}, "called with one argument"),
    ],
)
def test_a_table_is_of_classes_and_functions(table: dict[type, object], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        Machine(table)  # type: ignore[arg-type]


def test_a_handler_that_blocks_ends_with_its_time_and_not_with_itself() -> None:
    release = threading.Event()

    def block(request: Ping) -> Pong:
        threading.current_thread().name = "blocked " + threading.current_thread().name
        release.wait(60)
        return Pong()

    protocol = Protocol(send(A, B, Ping), send(B, A, Pong, within=timedelta(milliseconds=20)))
    with pytest.raises(DeadlineExceeded):
        Session(protocol, {A: Script([Ping()]), B: Machine({Ping: block})}).run()
    (left,) = [thread for thread in threading.enumerate() if thread.name == "blocked partyctl role B"]
    assert left.daemon
    release.set()
    left.join(30)
