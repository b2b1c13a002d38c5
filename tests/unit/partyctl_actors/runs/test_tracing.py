"""What a tracer sees of a run."""

from __future__ import annotations

import pytest
from fakes.runs import (
    A,
    B,
    Hanging,
    Ping,
    Pong,
    request_reply,
)

from partyctl_actors.errors import (
    SessionError,
)
from partyctl_actors.participants import Offer, Script, Seat
from partyctl_actors.protocol import Message, Protocol, send
from partyctl_actors.runs import Delivered, RunEvent, RunFailed, Session, watching


def test_a_tracer_sees_each_delivery_as_it_happens() -> None:
    seen: list[str] = []

    def watch(event: RunEvent) -> None:
        if isinstance(event, Delivered):
            seen.append(str(event.envelope))

    transcript = Session(
        request_reply, {A: Script([Ping("hi")]), B: Script([Pong("yo")])}, tracer=watching(watch)
    ).run()
    assert seen == str(transcript).splitlines()


def test_a_tracer_that_raises_does_not_hurt_the_run(caplog: pytest.LogCaptureFixture) -> None:
    def fail(event: RunEvent) -> None:
        raise ValueError("tracer")

    session = Session(request_reply, {A: Script([Ping()]), B: Script([Pong()])}, tracer=watching(fail))
    assert len(session.run()) == 2
    assert "A tracer failed at RunStarted" in caplog.text


def test_a_failure_is_told_to_the_tracer_with_the_role() -> None:
    seen: list[RunEvent] = []
    session = Session(request_reply, {A: Script([]), B: Script([])}, tracer=watching(seen.append))
    with pytest.raises(SessionError):
        session.run()
    assert isinstance(seen[-1], RunFailed)
    assert (seen[-1].role, seen[-1].turn) == ("A", 1)
    assert "no line left" in seen[-1].reason


def test_what_a_player_reports_is_told_to_the_tracer() -> None:
    seen: list[RunEvent] = []

    class Telling(Hanging):
        def bind(self, seat: Seat) -> Telling:
            seat.watch("thinking")
            return self

        async def author(self, offer: Offer) -> Message:
            return Ping()

    one = Protocol(send(A, B, Ping))
    Session(one, {A: Telling(), B: Script([])}, tracer=watching(seen.append)).run()
    assert getattr(seen[0], "event", None) == "thinking"
    assert getattr(seen[0], "role", None) == "A"
