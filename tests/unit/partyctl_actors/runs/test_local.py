"""What a run in one process brings with it and takes away again."""

from __future__ import annotations

from typing import ClassVar

import pytest
from fakes.runs import (
    A,
    B,
    Hanging,
    Ping,
    Pong,
    Stop,
    rally,
    request_reply,
)

from partyctl_actors.errors import (
    SessionError,
)
from partyctl_actors.participants import Agent, Offer, Script, Seat, replies
from partyctl_actors.protocol import Message
from partyctl_actors.runs import MemoryJournal, Session


class Workers:
    """A source of workers that remembers whether it was closed."""

    made: ClassVar[list[Workers]] = []

    def __init__(self) -> None:
        self.closed = False
        Workers.made.append(self)

    async def client(self) -> object:
        return "the launcher"

    async def close(self) -> None:
        self.closed = True


def test_a_source_of_workers_is_made_only_when_one_is_wanted_and_closed_with_the_run() -> None:
    class Embedded(Session):
        _workers = Workers  # type: ignore[assignment]

    class Working(Hanging):
        def bind(self, seat: Seat) -> Working:
            self.seat = seat
            return self

        async def author(self, offer: Offer) -> Message:
            assert self.seat.workers is not None
            assert await self.seat.workers.client() == await self.seat.workers.client()
            return Pong()

    Workers.made.clear()
    Embedded(request_reply, {A: Script([Ping()]), B: Script([Pong()])}).run()
    assert Workers.made == []
    Embedded(request_reply, {A: Script([Ping()]), B: Working()}).run()
    assert [source.closed for source in Workers.made] == [True]


def test_an_id_with_a_journal_resumes_where_the_record_ends() -> None:
    journal = MemoryJournal()
    script = Script([Ping("1"), Ping("2")])
    first = Session(rally, {A: script, B: Script([Pong()])}, journal=journal, id="one")
    with pytest.raises(SessionError, match="no line left"):
        first.run()
    again = Session(rally, {A: script, B: Script([Pong("not said"), Stop()])}, journal=journal, id="one")
    assert [envelope.message for envelope in again.run()] == [Ping("1"), Pong(), Ping("2"), Stop()]
    nobody = Session(rally, {A: Hanging(), B: Hanging()}, journal=journal, id="one")
    assert len(nobody.run()) == 4


def test_a_journal_without_an_id_records_each_run_by_itself() -> None:
    journal = MemoryJournal()
    session = Session(request_reply, {A: Script([Ping()]), B: Agent(replies([Pong()]))}, journal=journal)
    assert session.run() == session.run()
