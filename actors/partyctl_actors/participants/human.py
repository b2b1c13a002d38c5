"""A role that a person plays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from partyctl_actors.participants.interface import BasePlayer, Offer, Seat
from partyctl_actors.protocol.message import Message
from partyctl_actors.transcript import Envelope


class HumanIo(Protocol):
    """How a person is asked: a `Desk`, a `Terminal`, or what you write for your own front end.

    If it also has `told(run_id, envelope)`, that is called with everything that is said to the role.
    """

    async def choose(self, run_id: str, offer: Offer) -> Message:
        """Ask in the name of a run, and wait for the answer. It is cancelled when the answer is no longer wanted."""
        ...


class Human:
    """A person, asked through `io`."""

    def __init__(self, io: HumanIo) -> None:
        if not callable(getattr(io, "choose", None)):
            raise TypeError(f"Human(io) needs a Desk or another object with choose(run_id, offer), not {io!r}")
        self.io = io

    def bind(self, seat: Seat) -> _Person:
        """See `Participant.bind`."""
        return _Person(self.io, seat.run_id)


class _Person(BasePlayer):
    def __init__(self, io: HumanIo, run_id: str) -> None:
        self._io = io
        self._run_id = run_id
        self._told: Callable[[str, Envelope], None] | None = getattr(io, "told", None)

    def hear(self, envelope: Envelope) -> None:
        if self._told is not None:
            self._told(self._run_id, envelope)

    async def author(self, offer: Offer) -> Message:
        return await self._io.choose(self._run_id, offer)
