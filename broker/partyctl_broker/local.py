"""The bus within one process: no broker, no file, the same port."""

import asyncio
import itertools

from partyctl_broker.errors import AddressTaken, BusClosed
from partyctl_broker.exchange import Exchange, OpenMailbox, check_payload, ticket
from partyctl_broker.port import Letter, Mailbox, Receiver
from partyctl_broker.wire import check_address


class LocalBus:
    """Connects the mailboxes opened on it, in one process and on one event loop. Every address may be claimed."""

    def __init__(self) -> None:
        self._exchange: Exchange | None = None
        self._mailboxes: dict[str, OpenMailbox] = {}
        self._ids = itertools.count(1)
        self._closed = False

    async def open(self, address: str, receiver: Receiver) -> Mailbox:
        """Claim an address. See `Bus.open`."""
        check_address(address)
        if self._closed:
            raise BusClosed("this bus is closed", where=address)
        if self._exchange is None:
            self._exchange = Exchange()
        if address in self._exchange:
            raise AddressTaken("this address cannot be opened", where=address, why="a living peer has the address")
        self._exchange.add(address, receiver)
        mailbox = self._mailboxes[address] = OpenMailbox(address, self)
        return mailbox

    async def close(self) -> None:
        """Close all mailboxes. Idempotent."""
        self._closed = True
        for mailbox in self._mailboxes.values():
            mailbox.invalidate("its bus is closed")
        self._mailboxes.clear()
        if self._exchange is not None:
            self._exchange.clear()

    # --- what a mailbox needs

    def post(self, source: str, destination: str, payload: bytes, correlation: int, confirm: bool) -> int:
        """Send a letter. See `Mailbox.send`."""
        check_address(destination)
        check_payload(payload, destination)
        assert self._exchange is not None
        letter_id = next(self._ids)
        paper = ticket(letter_id, self._exchange.receiver(source)) if confirm else None
        self._exchange.post(letter_id, Letter(source, destination, payload, correlation, paper))
        return letter_id

    def has_room(self, source: str, destination: str) -> bool:
        """Whether a letter would be taken now."""
        return self._exchange is None or self._exchange.has_room

    async def eased(self) -> None:
        """Let the loop deliver some letters."""
        await asyncio.sleep(0)

    def acknowledge(self, letter: Letter) -> None:
        """See `Mailbox.acknowledge`."""
        assert self._exchange is not None
        self._exchange.acknowledge(letter)

    def give_up(self, address: str) -> None:
        """Close a mailbox."""
        if self._exchange is not None and self._mailboxes.pop(address, None) is not None:
            self._exchange.remove(address, "it was closed")
