"""Who plays a role, and what is asked of them.

A participant is a value that a cast names; it may be cast in many runs at once. `bind` makes the player of one role in
one run, and whatever is used up by playing lives in that player. To write one's own: a class with `bind`, and a class
with the five methods of `Player` (`BasePlayer` has harmless versions of all but `author`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.role import Role
from partyctl_actors.transcript import Envelope

if TYPE_CHECKING:
    from partyctl_actors.protocol.protocol import Protocol as RunProtocol
    from partyctl_actors.supervision.turn_log import SqliteTurnLog
    from partyctl_confinement.client import LauncherClient


@dataclass(frozen=True, slots=True)
class Offer:
    """What a role may say now.

    Attributes:
        role: who is to speak.
        receiver: to whom.
        messages: the classes that may be sent, in the order of declaration.
    """

    role: Role
    receiver: Role
    messages: tuple[type[Message], ...]


class Meter:
    """Counts the tokens that a player spends, so that the run's allowance holds without any wrapping."""

    def __init__(self) -> None:
        self._tokens = 0

    def add(self, tokens: int) -> None:
        """Report tokens spent, input and output together."""
        if tokens < 0:
            raise ValueError(f"tokens spent cannot be negative: {tokens}")
        self._tokens += tokens

    def take(self) -> int:
        """The tokens reported since the last call."""
        tokens, self._tokens = self._tokens, 0
        return tokens


class WorkerSource(Protocol):
    """Where worker processes come from."""

    async def client(self) -> LauncherClient:
        """The launcher's client; the first call starts what is needed for it."""
        ...

    async def close(self) -> None:
        """End what was started."""
        ...


def unwatched(event: object) -> None:
    """Nobody listens."""


@dataclass(frozen=True, slots=True)
class Seat:
    """One role in one run, as its player knows it.

    Attributes:
        run_id: the run.
        role: the role.
        protocol: what is run.
        workers: where worker processes come from; None where there are none.
        watch: told, on the event loop, what the player wants known while it works, such as a provider's events.
        meter: told what the player spends.
        log: opens the log of the agent session of a run and role, off the loop; None where the record is not durable.
    """

    run_id: str
    role: Role
    protocol: RunProtocol
    workers: WorkerSource | None = None
    watch: Callable[[object], None] = unwatched
    meter: Meter = field(default_factory=Meter)
    log: Callable[[str, str], SqliteTurnLog] | None = None


class Player(Protocol):
    """Plays one role in one run. Called on the event loop, one call at a time, except `cancel`."""

    def author(self, offer: Offer) -> Message | Awaitable[Message]:
        """What the role says now: one of `offer.messages`. An `async def` will do; so will a message at once.

        May be cancelled when the deadline passes or the run stops.
        """
        ...

    def hear(self, envelope: Envelope) -> None:
        """Something was said to the role."""
        ...

    def recall(self, envelope: Envelope) -> None:
        """The role said this in an earlier life of the run; it is not asked for it again."""
        ...

    async def cancel(self, reason: str) -> None:
        """The run stops early: end the work that goes on elsewhere. `author` was cancelled before."""
        ...

    async def close(self) -> None:
        """The role is over, one way or the other: let go of everything."""
        ...


@runtime_checkable
class Participant(Protocol):
    """Can play a role."""

    def bind(self, seat: Seat) -> Player:
        """The player of one role in one run. Has no effect of its own."""
        ...


class BasePlayer:
    """A player that listens to nothing and holds nothing; a subclass adds `author`."""

    def hear(self, envelope: Envelope) -> None:
        """See `Player.hear`."""

    def recall(self, envelope: Envelope) -> None:
        """See `Player.recall`."""

    async def cancel(self, reason: str) -> None:
        """See `Player.cancel`."""

    async def close(self) -> None:
        """See `Player.close`."""
