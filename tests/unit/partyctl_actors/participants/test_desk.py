from __future__ import annotations

import asyncio
import threading

import pytest
from fakes.runs import A, B, Ping, Pong, Stop, jumping, request_reply

from partyctl_actors.errors import SelectionError, SessionError
from partyctl_actors.participants import Desk, Human, Offer, Script
from partyctl_actors.protocol import Message
from partyctl_actors.runs import Session

PING, EITHER = Offer(A, B, (Ping,)), Offer(B, A, (Pong, Stop))


async def asked(desk: Desk, run: str, offer: Offer) -> asyncio.Future[Message]:
    question = asyncio.ensure_future(desk.choose(run, offer))
    await asyncio.sleep(0)
    return question


def test_what_is_offered_is_empty_until_something_is_asked() -> None:
    async def test() -> None:
        desk = Desk()
        assert (desk.offered, desk.waiting()) == ((), ())
        question = await asked(desk, "1", EITHER)
        assert (desk.offered, desk.waiting()) == ((Pong, Stop), (EITHER,))
        await desk.submit(Stop())
        assert desk.offered == ()
        assert await question == Stop()

    jumping(test())


def test_two_runs_on_one_desk_do_not_lose_each_other() -> None:
    async def test() -> None:
        desk = Desk()
        first, second = await asked(desk, "1", EITHER), await asked(desk, "2", EITHER)
        assert (desk.offered, desk.runs) == ((Pong, Stop), ("1", "2"))
        with pytest.raises(SelectionError, match=r"Several runs ask for Pong.*1 or 2.*run="):
            await desk.submit(Pong("for whom?"))
        await desk.submit(Pong("for the second"), run="2")
        with pytest.raises(SessionError, match=r"run 2.*answered already"):
            await desk.submit(Pong("for the second, again"), run="2")
        await desk.submit(Pong("for the first"))
        assert (await first, await second) == (Pong("for the first"), Pong("for the second"))

    jumping(test())


def test_an_answer_finds_the_question_that_offers_it_and_may_name_its_run() -> None:
    async def test() -> None:
        desk = Desk()
        first, second, third = [
            await asked(desk, run, offer) for run, offer in (("1", PING), ("2", EITHER), ("3", EITHER))
        ]
        await desk.submit(Pong("3"), run="3")
        await desk.submit(Pong("2"))
        await desk.submit(Ping("1"))
        assert [await first, await second, await third] == [Ping("1"), Pong("2"), Pong("3")]

    jumping(test())


def test_a_message_that_is_not_on_offer_is_refused_and_the_question_stays() -> None:
    async def test() -> None:
        desk = Desk()
        question = await asked(desk, "1", EITHER)
        with pytest.raises(SelectionError, match=r"Ping is not on offer.*Pong or Stop"):
            await desk.submit(Ping())
        assert desk.offered == (Pong, Stop)
        await desk.submit(Stop())
        assert await question == Stop()

    jumping(test())


def test_an_answer_without_a_question_and_a_second_answer_say_so() -> None:
    async def test() -> None:
        desk = Desk()
        with pytest.raises(SessionError, match="Nothing is asked"):
            await desk.submit(Pong())
        question = await asked(desk, "1", EITHER)
        with pytest.raises(SessionError, match=r"Nothing is asked.*run 2"):
            await desk.submit(Pong(), run="2")
        await desk.submit(Pong())
        with pytest.raises(SessionError, match="answered already"):
            await desk.submit(Pong())
        await question

    jumping(test())


def test_a_question_that_is_no_longer_wanted_is_taken_off_the_desk() -> None:
    async def test() -> None:
        desk = Desk()
        question = await asked(desk, "1", EITHER)
        question.cancel()
        await asyncio.gather(question, return_exceptions=True)
        assert desk.offered == ()

    jumping(test())


def test_an_answer_may_come_from_another_loop() -> None:
    desk = Desk()

    async def answer() -> None:
        while not desk.offered:
            await asyncio.sleep(0.001)
        await desk.submit(Pong("from afar"))

    other = threading.Thread(target=lambda: asyncio.run(answer()))
    other.start()
    transcript = Session(request_reply, {A: Script([Ping()]), B: Human(desk)}).run()
    other.join(30)
    assert transcript.last(Pong) == Pong("from afar")


def test_a_human_needs_something_to_be_asked_through() -> None:
    with pytest.raises(TypeError, match="needs a Desk"):
        Human("me")  # type: ignore[arg-type]


def test_ones_own_front_end_needs_one_method() -> None:
    class Console:
        async def choose(self, run_id: str, offer: Offer) -> Message:
            return offer.messages[0](f"{offer.role} to {offer.receiver}")

    transcript = Session(request_reply, {A: Script([Ping()]), B: Human(Console())}).run()
    assert transcript.last(Pong) == Pong("B to A")
