"""The bus as its users see it: addresses, letters, and what becomes of them.

A bus connects mailboxes. Between two mailboxes letters keep their order and arrive once, whatever happens to the bus
between them. Every letter ends in one of three ways: its receiver gets it, its sender hears `undelivered` (it certainly
was not delivered), or its sender hears that the receiver is `gone` and finds it among the `unknown`; none of those is
delivered later. That a letter arrived says nothing about what came of it: a receiver that has something to say about
that acknowledges it. Nothing above this port may know which bus carries it.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


class Ticket(NamedTuple):
    """By what an acknowledgement finds back to its letter; for the bus alone."""

    stream: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Letter:
    """One message between two addresses.

    Args:
        source: the address it was sent from; checked by the bus, so it can be trusted.
        destination: the address it was sent to.
        payload: its content, opaque to the bus.
        correlation: a number that the sender chose, to say what this letter belongs to or answers; 0 for none.
        ticket: what `acknowledge` needs; None if its sender asked for no acknowledgement.
    """

    source: str
    destination: str
    payload: bytes
    correlation: int = 0
    ticket: Ticket | None = field(default=None, compare=False, repr=False)


class Receiver(Protocol):
    """Who reads a mailbox. Called on the event loop, never from within `send`; must not block."""

    def letter(self, letter: Letter) -> None:
        """A letter came in."""
        ...

    def undelivered(self, letter_id: int, destination: str, why: str) -> None:
        """The letter was certainly not delivered."""
        ...

    def gone(self, address: str, unknown: tuple[int, ...], why: str) -> None:
        """The peer behind an address that this one exchanged letters with is gone.

        With the mailbox's own address: this mailbox is closed for good, as its bus gave up, was shown out, or the
        address went to somebody else while there was no broker.

        Args:
            address: the address it had.
            unknown: the ids of letters of which nobody knows whether they arrived, and of those that arrived but were
                sent with `confirm` and not acknowledged. None of them is delivered later.
            why: what became of the peer.
        """
        ...

    def link_lost(self, why: str) -> None:
        """The broker went away. Nothing is to be done: the bus comes back by itself, and what was sent waits for it.
        Called once per loss."""
        ...


class ConfirmedReceiver(Receiver, Protocol):
    """A receiver whose mailbox sends with `confirm`."""

    def acknowledged(self, letter_id: int) -> None:
        """The effect of the letter is durable or finished, says who got it."""
        ...


class Mailbox(Protocol):
    """One address on the bus, as its owner holds it."""

    @property
    def address(self) -> str:
        """The address others send to."""
        ...

    def send(self, destination: str, payload: bytes, correlation: int = 0, *, confirm: bool = False) -> int:
        """Send a letter; its id, by which `undelivered`, `gone` and `acknowledged` name it. Does not wait.

        Args:
            destination: the address it goes to.
            payload: what it holds.
            correlation: a number for the receiver.
            confirm: hear `acknowledged` when the receiver acknowledges it; until then it counts as unknown if the
                receiver goes. The mailbox's receiver must be a ConfirmedReceiver.

        Raises:
            LetterRefused: the payload is too large, the destination is no address, or nobody could hear the
                acknowledgement.
            BusFull: too much waits for this destination already, or for all together. Nothing was sent.
            BusClosed: the mailbox or its bus is closed.
        """
        ...

    async def room(self, destination: str) -> None:
        """Wait until a letter to this destination would be taken. The limit is the caller's.

        Raises:
            BusClosed: the mailbox or its bus is closed.
        """
        ...

    def acknowledge(self, letter: Letter) -> None:
        """Tell the sender of a letter that its effect is durable or finished. Does nothing if it did not ask for it,
        or is gone."""
        ...

    def close(self) -> None:
        """Give the address up. Those who exchanged letters with it hear `gone`, after its last letter. Idempotent.

        The bus keeps the address until what was sent has arrived, for a limited time; nobody hears what became of it.
        """
        ...


class Bus(Protocol):
    """Where mailboxes are opened."""

    async def open(self, address: str, receiver: Receiver) -> Mailbox:
        """Claim an address and read its mail.

        Raises:
            AddressTaken: a living peer has it.
            AddressForbidden: no rule gives it to this principal.
            BusTimeout: the broker did not answer in time.
            BusClosed: the bus is closed.
        """
        ...

    async def close(self) -> None:
        """Give up all addresses and leave. Idempotent."""
        ...
