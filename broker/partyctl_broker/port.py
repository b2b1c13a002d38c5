"""The bus as its users see it: addresses, letters, and what becomes of them.

A bus connects mailboxes. Between two mailboxes letters keep their order. Every letter ends in one of three ways: its
receiver gets it, its sender hears `undelivered` (it certainly was not delivered), or its sender hears that the road
or the receiver is `gone` or the `link_lost` (what was under way is unknown). Nothing above this port may know which
bus carries it.
"""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Letter:
    """One message between two addresses.

    Args:
        source: the address it was sent from; checked by the bus, so it can be trusted.
        destination: the address it was sent to.
        payload: its content, opaque to the bus.
        correlation: a number that the sender chose, to say what this letter belongs to or answers; 0 for none.
    """

    source: str
    destination: str
    payload: bytes
    correlation: int = 0


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

        Args:
            address: the address it had.
            unknown: the ids of letters of which nobody knows whether they arrived.
            why: what became of the peer.
        """
        ...

    def link_lost(self, why: str) -> None:
        """The broker went away: what was under way is unknown. Called once per loss; the bus comes back by itself."""
        ...


class Mailbox(Protocol):
    """One address on the bus, as its owner holds it."""

    @property
    def address(self) -> str:
        """The address others send to."""
        ...

    def send(self, destination: str, payload: bytes, correlation: int = 0) -> int:
        """Send a letter; its id, by which `undelivered` and `gone` name it. Does not wait.

        Raises:
            LetterRefused: the payload is too large, or the destination is no address.
            BusFull: too much waits for the broker already.
            BusClosed: the mailbox or its bus is closed.
        """
        ...

    def close(self) -> None:
        """Give the address up. Those who exchanged letters with it hear `gone`. Idempotent."""
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
