from __future__ import annotations

import asyncio
import threading

import pytest
from fakes.runs import A, B, Ping, Pong, jumping, request_reply

from partyctl_actors.errors import ConformanceError
from partyctl_actors.participants import Function, Offer, Seat
from partyctl_actors.participants.function import in_thread, is_async
from partyctl_actors.protocol import Message
from partyctl_actors.transcript import Envelope, Transcript

OFFER = Offer(B, A, (Pong,))


def player(function: object) -> object:
    bound = Function(function).bind(Seat("r", B, request_reply))  # type: ignore[arg-type]
    bound.hear(Envelope(A, B, Ping("hi")))
    return bound.author(OFFER)


def echo(offer: Offer, heard: Transcript) -> Message:
    question = heard.last(Ping)
    assert question is not None
    return offer.messages[0](f"{question.text} in {threading.current_thread().name}")


async def async_echo(offer: Offer, heard: Transcript) -> Message:
    return echo(offer, heard)


class Callable:
    async def __call__(self, offer: Offer, heard: Transcript) -> Message:
        return echo(offer, heard)


def test_a_plain_function_is_called_in_a_thread_named_after_its_role() -> None:
    assert asyncio.run(player(echo)) == Pong("hi in partyctl role B")  # type: ignore[arg-type]


@pytest.mark.parametrize("function", [async_echo, Callable()])
def test_an_async_function_is_awaited_on_the_loop(function: object) -> None:
    assert is_async(function)
    assert jumping(player(function)) == Pong("hi in MainThread")  # type: ignore[arg-type]


def test_a_function_may_return_an_awaitable() -> None:
    assert asyncio.run(player(lambda offer, heard: async_echo(offer, heard))) == Pong("hi in MainThread")  # type: ignore[arg-type]


@pytest.mark.parametrize("function", [lambda: None, lambda offer: None, lambda a, b, c: None])
def test_a_function_of_other_parameters_is_refused_before_it_is_called(function: object) -> None:
    with pytest.raises(ConformanceError, match=r"called with \(offer, heard\)"):
        Function(function)  # type: ignore[arg-type]


def test_what_is_raised_in_a_thread_arrives_as_it_is() -> None:
    error = ZeroDivisionError("oops")

    def fail() -> None:
        raise error

    with pytest.raises(ZeroDivisionError) as caught:
        asyncio.run(in_thread("test", fail))
    assert caught.value is error


def test_a_thread_that_ends_after_its_loop_harms_nobody() -> None:
    release, ended = threading.Event(), threading.Event()

    def slow() -> None:
        release.wait(30)
        threading.current_thread().name = "late"
        ended.set()

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(in_thread("test", slow), 0.01)

    asyncio.run(give_up())
    release.set()
    assert ended.wait(30)
    for thread in threading.enumerate():
        if thread.name == "late":
            thread.join(30)
