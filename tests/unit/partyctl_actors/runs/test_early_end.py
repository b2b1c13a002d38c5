"""What ends a run in one process early, and what becomes of its roles."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections.abc import Sequence
from datetime import timedelta

import pytest
from fakes.runs import (
    A,
    B,
    C,
    Hanging,
    Ping,
    Pong,
    Raising,
    jumping,
    rally,
    request_reply,
    triangle,
)

from partyctl_actors.errors import (
    AllowanceExceeded,
    ConformanceError,
    DeadlineExceeded,
    ModelError,
    SelectionError,
    SessionError,
)
from partyctl_actors.participants import Agent, Desk, Human, Offer, Participant, Player, Script, Seat, replies
from partyctl_actors.protocol import Message, Protocol, send
from partyctl_actors.runs import Allowance, RunEnded, RunStarted, Session, watching
from partyctl_actors.transcript import Envelope


def test_an_exception_of_a_participant_arrives_as_it_is_with_a_note() -> None:
    error = ZeroDivisionError("oops")
    session = Session(request_reply, {A: Script([Ping()]), B: Raising(error)})
    with pytest.raises(ZeroDivisionError) as caught:
        session.run()
    assert caught.value is error
    assert len(error.__notes__) == 1
    assert error.__notes__[0].startswith("raised by B, run run-")
    # The line of the user's code, which is everything that is neither ours nor installed: here, a test's participant.
    assert re.search(r", step 2, at .*/tests/fakes/runs.py:\d+, in author$", error.__notes__[0])


@pytest.mark.parametrize(
    ("player", "kind"),
    [
        (Script([]), SessionError),
        (lambda offer, heard: Ping(), SelectionError),
        (Agent(replies([])), ModelError),
        (Agent(replies(lambda offer: Ping())), SelectionError),
        (Raising(KeyError("deaf"), at="hear"), KeyError),
        (lambda offer, heard: None, SelectionError),
    ],
)
def test_a_role_that_cannot_go_on_ends_the_run_with_its_error(player: Participant, kind: type[Exception]) -> None:
    with pytest.raises(kind) as caught:
        Session(request_reply, {A: Script([Ping()]), B: player}).run()
    assert "raised by B" in caught.value.__notes__[0]


def test_the_other_roles_are_told_when_one_fails() -> None:
    watching_role = Hanging()

    async def test() -> None:
        session = Session(triangle, {A: Script([Ping()]), B: Raising(ValueError("no")), C: watching_role})
        with pytest.raises(ValueError, match="no"):
            await session.arun()

    jumping(test())
    assert watching_role.cancelled == ["B: no"]
    assert watching_role.closed == 1


def test_what_a_participant_raises_when_it_is_bound_arrives_as_it_is() -> None:
    class Unbound:
        def bind(self, seat: Seat) -> Player:
            raise LookupError("no such model")

    async def test() -> None:
        with pytest.raises(LookupError, match="no such model"):
            await Session(request_reply, {A: Script([Ping()]), B: Unbound()}).arun()

    jumping(test())


def test_an_exhausted_allowance_has_limit_spent_and_allowed() -> None:
    session = Session(rally, {A: Script([Ping()] * 9), B: Script([Pong()] * 9)}, allowance=Allowance(steps=3))
    with pytest.raises(AllowanceExceeded) as caught:
        session.run()
    assert (caught.value.limit, caught.value.spent, caught.value.allowed) == ("steps", 3, 3)


def test_the_wall_clock_stops_the_step_after_a_long_one() -> None:
    async def slow(offer: Offer) -> Message:
        await asyncio.sleep(10)
        return offer.messages[0]()

    async def test() -> None:
        session = Session(rally, {A: Agent(replies(slow)), B: Agent(replies(slow))}, allowance=Allowance(wall_clock=25))
        with pytest.raises(AllowanceExceeded, match="30 of 25 spent"):
            await session.arun()

    jumping(test())


@pytest.mark.parametrize("player", [Hanging(), Hanging(stubborn=False), Human(Desk())])
def test_a_deadline_ends_the_run(player: Participant) -> None:
    timed = Protocol(send(A, B, Ping, within=timedelta(seconds=5)))

    async def test() -> None:
        with pytest.raises(DeadlineExceeded, match="A did not speak in time"):
            await Session(timed, {A: player, B: Script([])}).arun()
        assert asyncio.get_running_loop().time() == pytest.approx(5)

    jumping(test())


def test_a_function_that_blocks_its_thread_does_not_hold_up_the_deadline() -> None:
    release = threading.Event()

    def block(offer: Offer, heard: Sequence[object]) -> Message:
        release.wait(30)
        return Ping()

    timed = Protocol(send(A, B, Ping, within=timedelta(milliseconds=50)))
    try:
        with pytest.raises(DeadlineExceeded):
            Session(timed, {A: block, B: Script([])}).run()
    finally:
        release.set()


@pytest.mark.parametrize("where", ["author", "later", "hear", "cancel", "close", "bind"])
def test_sys_exit_in_a_participant_fails_its_run_and_no_other(where: str) -> None:
    async def test() -> None:
        other = asyncio.ensure_future(Session(request_reply, {A: Slow(), B: Script([Pong()])}).arun())
        failing = Session(request_reply, {A: Script([Ping()]), B: Exiting(where)}).arun()
        if where in ("cancel", "close"):
            with contextlib.suppress(ValueError):
                await failing
        else:
            with pytest.raises(SessionError, match=r"asked for the end.*SystemExit: 3") as caught:
                await failing
            assert isinstance(caught.value.__cause__, SystemExit)
            assert any(note.startswith("raised by B") for note in caught.value.__notes__)
        assert len(await other) == 2

    jumping(test())


class Slow(Hanging):
    async def author(self, offer: Offer) -> Message:
        await asyncio.sleep(60)
        return Ping()


class Exiting(Hanging):
    """Exits where it is told to."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self._where = where

    def _at(self, where: str) -> None:
        if where == self._where:
            raise SystemExit(3)

    def bind(self, seat: Seat) -> Exiting:
        self._at("bind")
        return self

    def hear(self, envelope: Envelope) -> None:
        self._at("hear")

    async def author(self, offer: Offer) -> Message:
        self._at("author")
        await asyncio.sleep(0)
        self._at("later")
        if self._where == "cancel":
            raise ValueError("failed")
        return Pong()

    async def cancel(self, reason: str) -> None:
        self._at("cancel")

    async def close(self) -> None:
        self._at("close")


def test_a_bind_that_gives_no_player_is_refused_by_name() -> None:
    class Forgetful:
        def bind(self, seat: Seat) -> None:
            pass

    with pytest.raises(ConformanceError, match=r"bind.. gives the player of the role .B, run .*returned None"):
        Session(request_reply, {A: Script([Ping()]), B: Forgetful()}).run()  # type: ignore[dict-item]


@pytest.mark.parametrize("event", [RunStarted, RunEnded])
def test_sys_exit_in_a_tracer_is_the_failure_of_its_run(event: type) -> None:
    def watch(seen: object) -> None:
        if isinstance(seen, event):
            raise SystemExit(3)

    with pytest.raises(SessionError, match="SystemExit: 3"):
        Session(request_reply, {A: Script([Ping()]), B: Script([Pong()])}, tracer=watching(watch)).run()


def test_cancelling_arun_stops_every_role_first() -> None:
    player = Hanging()

    async def test() -> None:
        running = asyncio.ensure_future(Session(request_reply, {A: player, B: Script([])}).arun())
        while not player.asked:
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    jumping(test())
    assert (player.cancelled, player.closed) == (["its caller was cancelled"], 1)


def test_tokens_that_players_report_are_charged_without_wrapping_them() -> None:
    class Spending(Hanging):
        def bind(self, seat: Seat) -> Spending:
            self.seat = seat
            return self

        async def author(self, offer: Offer) -> Message:
            self.seat.meter.add(50)
            return offer.messages[0]()

    session = Session(rally, {A: Spending(), B: Spending()}, allowance=Allowance(tokens=100))
    with pytest.raises(AllowanceExceeded) as caught:
        session.run()
    assert (caught.value.limit, caught.value.spent) == ("tokens", 100)
