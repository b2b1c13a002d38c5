"""Sessions in one process: what the constructor refuses, how runs begin and end."""

from __future__ import annotations

import asyncio

import pytest
from fakes.runs import (
    A,
    B,
    C,
    Counting,
    Ping,
    Pong,
    Stop,
    jumping,
    rally,
    request_reply,
    scripted,
    triangle,
)

from partyctl_actors.errors import (
    ConformanceError,
)
from partyctl_actors.participants import Agent, Offer, Script, replies
from partyctl_actors.protocol import Message, Protocol, Role, loop, repeat, send
from partyctl_actors.runs import Session, Transcript

# --- the constructor ---


def test_making_a_session_calls_nobody() -> None:
    counting = Counting()
    Session(request_reply, {A: counting, B: counting})
    assert counting.bound == 0


@pytest.mark.parametrize("nobody", [object(), None, "Script", 5, Script])
def test_what_is_no_participant_is_a_type_error_that_names_it(nobody: object) -> None:
    with pytest.raises(TypeError, match="A is played by"):
        Session(request_reply, {A: nobody, B: Script([])})  # type: ignore[dict-item]


def test_a_role_that_the_protocol_does_not_have_is_named_with_the_nearest() -> None:
    with pytest.raises(ConformanceError, match=r"no role Bee.*roles are A, B"):
        Session(request_reply, {A: Script([]), B: Script([]), Role("Bee"): Script([])})


def test_one_role_may_be_missing_but_not_two() -> None:
    assert Session(triangle, {A: Script([]), B: Script([])}).missing == (C,)
    with pytest.raises(ConformanceError, match="Nobody plays B, C"):
        Session(triangle, {A: Script([])})


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"protocol": "A -> B"}, "protocol"),
        ({"cast": [Script([])]}, "cast"),
        ({"cast": {"A": Script([])}}, "keyed by roles"),
        ({"allowance": 5}, "allowance"),
        ({"journal": "file"}, "journal"),
        ({"tracer": print}, "watching"),
        ({"id": "a/b"}, "id"),
        ({"id": ""}, "id"),
    ],
)
def test_an_argument_of_another_kind_is_named(arguments: dict[str, object], named: str) -> None:
    usual: dict[str, object] = {"protocol": request_reply, "cast": {A: Script([]), B: Script([])}}
    with pytest.raises(TypeError, match=named):
        Session(**(usual | arguments))  # type: ignore[arg-type]


# --- run and arun ---


def test_two_runs_of_one_session_are_independent() -> None:
    session = scripted()
    first, second = session.run(), session.run()
    assert first == second
    assert [str(envelope) for envelope in first] == ["A -> B: Ping(text='hi')", "B -> A: Pong(text='yo')"]


def test_a_second_run_asks_its_participants_anew() -> None:
    asked: list[Offer] = []

    def answer(offer: Offer) -> Message:
        asked.append(offer)
        return Pong(str(len(asked)))

    session = Session(request_reply, {A: Script([Ping()]), B: Agent(replies(answer))})
    assert session.run().last(Pong) == Pong("1")
    assert session.run().last(Pong) == Pong("2")


def test_two_hundred_runs_of_one_session_at_once_do_not_mix() -> None:
    async def test() -> list[Transcript]:
        session = Session(rally, {A: Script([Ping(str(n)) for n in range(5)]), B: Script([Pong()] * 4 + [Stop()])})
        return await asyncio.gather(*(session.arun() for _ in range(200)))

    transcripts = jumping(test())
    assert all(transcript == transcripts[0] for transcript in transcripts)
    assert len(transcripts[0]) == 10


def test_a_missing_role_is_named_by_run() -> None:
    with pytest.raises(ConformanceError, match=r"Nobody plays B \(run\(\)\)"):
        Session(request_reply, {A: Script([])}).run()


def test_run_inside_a_loop_names_arun() -> None:
    async def test() -> None:
        with pytest.raises(RuntimeError, match="arun"):
            scripted().run()
        with pytest.raises(RuntimeError, match="aask"):
            Session(request_reply, {B: Script([Pong()])}).ask(A, Ping(), expect=Pong)

    jumping(test())


def test_a_long_line_of_sends_runs() -> None:
    steps = [send(A, B, Ping) if n % 2 == 0 else send(B, A, Pong) for n in range(2000)]
    session = Session(Protocol(*steps), {A: Script([Ping()] * 1000), B: Script([Pong()] * 1000)})
    assert len(session.run()) == 2000


def test_an_endless_run_leaves_the_loop_to_others() -> None:
    endless = Protocol(loop(send(A, B, Ping), send(B, A, Pong), repeat()))

    async def test() -> int:
        session = Session(endless, {A: Agent(replies(lambda offer: Ping())), B: Agent(replies(lambda offer: Pong()))})
        run = session.start()
        for _ in range(1000):
            await asyncio.sleep(0)
        assert not run.done
        await run.cancel()
        return len(run.transcript)

    assert jumping(test()) > 0
