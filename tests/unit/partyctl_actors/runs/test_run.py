"""`start`: a handle on a run in the background."""

from __future__ import annotations

import asyncio

import pytest
from fakes.runs import (
    A,
    B,
    Hanging,
    Ping,
    Pong,
    jumping,
    request_reply,
    scripted,
)

from partyctl_actors.errors import (
    Cancelled,
    ConformanceError,
)
from partyctl_actors.participants import Desk, Human, Script
from partyctl_actors.runs import Session, Transcript


def test_start_returns_while_the_run_goes_on() -> None:
    async def test() -> None:
        desk = Desk()
        run = Session(request_reply, {B: Human(desk)}).start(A, Ping("hi"))
        while not desk.offered:
            await asyncio.sleep(0)
        assert not run.done
        assert [str(envelope) for envelope in run.transcript] == ["A -> B: Ping(text='hi')"]
        await desk.submit(Pong("yo"))
        assert (await run.result()).last(Pong) == Pong("yo")
        assert run.done
        await run.cancel()
        assert (await run.result()).last(Pong) == Pong("yo")

    jumping(test())


def test_start_runs_a_full_cast() -> None:
    async def test() -> Transcript:
        return await scripted().start().result()

    assert len(jumping(test())) == 2


def test_start_without_a_loop_is_a_runtime_error() -> None:
    with pytest.raises(RuntimeError, match="start"):
        scripted().start()


def test_start_with_half_of_its_arguments_says_which() -> None:
    async def test() -> None:
        with pytest.raises(TypeError, match="needs the message"):
            Session(request_reply, {B: Script([])}).start(A)
        with pytest.raises(TypeError, match="needs the role"):
            scripted().start(opening=Ping())
        with pytest.raises(ConformanceError, match="Nobody plays A"):
            Session(request_reply, {B: Script([])}).start()

    jumping(test())


@pytest.mark.parametrize("at_once", [True, False])
def test_a_cancelled_run_raises_cancelled_and_every_role_was_told(at_once: bool) -> None:
    player = Hanging()

    async def test() -> None:
        run = Session(request_reply, {A: player, B: Script([])}).start()
        while not at_once and not player.asked:
            await asyncio.sleep(0)
        await run.cancel("changed my mind")
        await run.cancel()
        assert run.done
        with pytest.raises(Cancelled, match="changed my mind"):
            await run.result()

    jumping(test())
    assert at_once or player.cancelled == ["changed my mind"]


def test_giving_up_the_wait_for_a_result_does_not_stop_the_run() -> None:
    async def test() -> None:
        desk = Desk()
        run = Session(request_reply, {A: Script([Ping()]), B: Human(desk)}).start()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run.result(), 1)
        assert not run.done
        await desk.submit(Pong())
        await run.result()

    jumping(test())


def test_a_failed_run_that_nobody_asks_about_is_no_warning() -> None:
    async def test() -> None:
        run = Session(request_reply, {A: Script([]), B: Script([])}).start()
        while not run.done:
            await asyncio.sleep(0)

    jumping(test())
