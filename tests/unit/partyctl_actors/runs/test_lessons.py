"""What is easily got wrong in runs, and no test beside this shows."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from fakes.runs import A, B, C, Hanging, Notice, Ping, Pong, jumping, rally, request_reply

from partyctl_actors.errors import AllowanceExceeded, Cancelled
from partyctl_actors.participants import Agent, Desk, Human, Offer, Script, replies
from partyctl_actors.protocol import Message, Protocol, par, roles, send
from partyctl_actors.runs import Allowance, Decision, MemoryJournal, RunFailed, Session, watching

(D,) = roles("D")


def test_what_was_spent_before_a_restart_counts_and_a_refused_run_asks_nobody() -> None:
    journal, asked = MemoryJournal(), []

    def pong(offer: Offer, heard: object) -> Message:
        asked.append(offer)
        return Pong()

    cast = {A: Script([Ping()] * 9), B: pong}
    for _ in range(2):
        with pytest.raises(AllowanceExceeded) as caught:
            Session(rally, cast, journal=journal, id="r", allowance=Allowance(steps=4)).run()
        assert (caught.value.limit, caught.value.spent) == ("steps", 4)
        assert len(asked) == 2
    with pytest.raises(AllowanceExceeded):
        Session(rally, cast, journal=journal, id="r", allowance=Allowance(steps=6)).run()
    assert len(asked) == 3


def test_the_branches_of_a_par_have_one_allowance_together() -> None:
    turn = [Ping(), Ping(), Ping()]
    protocol = Protocol(par([send(A, B, Ping)] * 3, [send(C, D, Ping)] * 3))
    cast = {A: Script(turn), B: Script([]), C: Script(turn), D: Script([])}
    assert len(Session(protocol, cast, allowance=Allowance(steps=6)).run()) == 6
    with pytest.raises(AllowanceExceeded) as caught:
        Session(protocol, cast, allowance=Allowance(steps=3)).run()
    assert caught.value.spent == 3


def test_a_slow_branch_holds_up_neither_the_other_nor_what_it_says() -> None:
    protocol = Protocol(
        par([send(A, B, Ping), send(B, A, Pong)], [send(C, D, Ping), send(D, C, Pong)]), send(A, C, Notice)
    )

    async def test() -> None:
        desk = Desk()
        cast = {A: Human(desk), B: Script([Pong("ab")]), C: Script([Ping("c")]), D: Script([Pong("cd")])}
        run = Session(protocol, cast).start()
        while len(run.transcript) < 2 or not desk.offered:
            await asyncio.sleep(0)
        assert [str(envelope.sender) for envelope in run.transcript] == ["C", "D"]
        await desk.submit(Ping("a"))
        while not desk.offered:
            await asyncio.sleep(0)
        await desk.submit(Notice())
        transcript = await run.result()
        assert [str(envelope.sender) for envelope in transcript] == ["C", "D", "A", "B", "A"]
        assert transcript.ended_at == C

    jumping(test())


def test_the_limit_of_a_step_that_was_taken_before_a_restart_is_not_asked_for_again() -> None:
    journal = MemoryJournal()
    timed = Protocol(send(A, B, Ping, within=timedelta(seconds=1)), send(B, A, Pong))

    async def test() -> None:
        desk = Desk()
        run = Session(timed, {A: Script([Ping()]), B: Human(desk)}, journal=journal, id="r").start()
        while not desk.offered:
            await asyncio.sleep(0)
        await run.cancel()
        run = Session(timed, {A: Script([]), B: Human(desk)}, journal=journal, id="r").start()
        await asyncio.sleep(60)
        await desk.submit(Pong())
        assert len(await run.result()) == 2

    jumping(test())


class SlowJournal:
    """Its records take `seconds` to be durable."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.kept: list[Decision] = []

    def open(self, run_id: str, protocol_id: str) -> SlowJournal:
        return self

    def append(self, decision: Decision) -> asyncio.Future[None]:
        self.kept.append(decision)
        return asyncio.ensure_future(asyncio.sleep(self.seconds))

    def decisions(self) -> tuple[Decision, ...]:
        return tuple(self.kept)

    def close(self, ending: str = "") -> None:
        pass


def test_a_slow_journal_is_not_taken_for_a_slow_role() -> None:
    async def answer(offer: Offer, heard: object) -> Message:
        await asyncio.sleep(1.9)
        return offer.messages[0]()

    two = timedelta(seconds=2)
    timed = Protocol(send(A, B, Ping), send(B, A, Pong, within=two), send(A, B, Ping, within=two))

    async def test() -> None:
        cast = {A: Script([Ping(), Ping()]), B: answer}
        assert len(await Session(timed, cast, journal=SlowJournal(60)).arun()) == 3

    jumping(test())


def test_runs_of_one_session_have_ids_of_their_own() -> None:
    async def test() -> None:
        session = Session(request_reply, {A: Script([Ping()]), B: Script([Pong()])})
        one, other = session.start(), session.start()
        assert one.id != other.id
        assert await one.result() == await other.result()

    jumping(test())


def test_a_cancelled_run_is_told_to_its_tracer_and_to_everybody_though_one_fails_at_it() -> None:
    events: list[object] = []

    class Fragile(Hanging):
        async def cancel(self, reason: str) -> None:
            await super().cancel(reason)
            raise RuntimeError("it breaks")

    players = [Fragile(), Fragile()]
    protocol = Protocol(par([send(A, B, Ping)], [send(C, D, Ping)]))

    async def test() -> None:
        cast = {A: players[0], B: Script([]), C: players[1], D: Script([])}
        run = Session(protocol, cast, tracer=watching(events.append)).start()
        while not all(player.asked for player in players):
            await asyncio.sleep(0)
        await run.cancel("enough")
        with pytest.raises(Cancelled, match="enough"):
            await run.result()

    jumping(test())
    assert [player.cancelled for player in players] == [["enough"], ["enough"]]
    assert [player.closed for player in players] == [1, 1]
    (failed,) = [event for event in events if isinstance(event, RunFailed)]
    assert failed.role is None
    assert "enough" in failed.reason


def test_a_role_is_known_by_its_whole_name() -> None:
    asking, answering = roles("A.x", "B.y")
    offers: list[Offer] = []

    def answer(offer: Offer) -> Message:
        offers.append(offer)
        return Pong()

    protocol = Protocol(send(asking, answering, Ping), send(answering, asking, Pong))
    Session(protocol, {asking: Script([Ping()]), answering: Agent(replies(answer))}).run()
    assert [(offer.role, offer.receiver) for offer in offers] == [(answering, asking)]
