"""A role that is played by a function of its history."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from partyctl_actors.participants.annotations import returned
from partyctl_actors.participants.conformity import fits, labels
from partyctl_actors.participants.function import is_async, run_function
from partyctl_actors.participants.interface import BasePlayer, Offer, Seat
from partyctl_actors.protocol.conformance import Says
from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.protocol import Protocol
from partyctl_actors.protocol.role import Role
from partyctl_actors.transcript import Envelope, Log, Transcript

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class View:
    """What a role has seen when it is to speak.

    Attributes:
        role: who is to speak.
        receiver: to whom.
        seen: what the role was told and what it said, oldest first.
        offered: the classes that may be said now.
    """

    role: Role
    receiver: Role
    seen: Transcript
    offered: frozenset[type[Message]]

    def last(self, kind: type[M]) -> M | None:
        """The newest message of this class, told or said; None if there is none."""
        return self.seen.last(kind)

    def sent(self, kind: type[M]) -> tuple[M, ...]:
        """The messages of this class that the role said, oldest first."""
        return tuple(e.message for e in self.seen if e.sender == self.role and isinstance(e.message, kind))

    def got(self, kind: type[M]) -> tuple[M, ...]:
        """The messages of this class that the role was told, oldest first."""
        return tuple(e.message for e in self.seen if e.receiver == self.role and isinstance(e.message, kind))

    def count(self, kind: type[Message]) -> int:
        """How many messages of this class the role saw."""
        return sum(isinstance(envelope.message, kind) for envelope in self.seen)


Decide: TypeAlias = Callable[[View], Message | Awaitable[Message]]
"""Returns what the role says; may be an `async def`. One that is not async runs in a thread."""


class Policy:
    """Decides from all that its role has seen, and remembers nothing else: `Policy(lambda view: Stop())`.

    Args:
        decide: called with a `View` each time the role is to speak.

    Raises:
        TypeError: it cannot be called.
    """

    def __init__(self, decide: Decide) -> None:
        if not callable(decide):
            raise TypeError(f"Policy(decide) is a function of a View, not {decide!r:.100}")
        self.decide = decide

    def check(self, protocol: Protocol, role: Role) -> None:
        """See `Checked.check`."""
        kinds = returned(self.decide)
        if kinds is not None:
            fits(protocol, role, Says(labels(protocol, role, kinds, "what the policy returns")))

    def bind(self, seat: Seat) -> _Decider:
        """See `Participant.bind`."""
        return _Decider(self.decide, seat)


class _Decider(BasePlayer):
    def __init__(self, decide: Decide, seat: Seat) -> None:
        self._decide = decide
        self._seen = Log(seat.protocol.messages)

    def hear(self, envelope: Envelope) -> None:
        self._seen.add(envelope)

    def recall(self, envelope: Envelope) -> None:
        self._seen.add(envelope)

    async def author(self, offer: Offer) -> Message:
        view = View(offer.role, offer.receiver, self._seen.snapshot(), frozenset(offer.messages))
        decide = self._decide
        message = await run_function(f"partyctl role {offer.role}", is_async(decide), lambda: decide(view))
        if type(message) in view.offered:
            self._seen.add(Envelope(offer.role, offer.receiver, message))
        return message
