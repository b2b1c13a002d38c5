"""Delivery within one process: the mailboxes of a bus, and a queue between `send` and the receivers.

A receiver is never called from within `send`: letters wait in a queue that the event loop empties, so that two
mailboxes that answer each other do not grow a stack, and everybody else on the loop gets a turn.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, NoReturn, Protocol

from partyctl_broker.errors import BusClosed, BusFull, LetterRefused
from partyctl_broker.port import Letter, Receiver, Ticket
from partyctl_broker.stream import Ends
from partyctl_broker.wire import PAYLOAD_MAX, check_address

TURN: Final = 256
"""Calls made before other callbacks of the loop get their turn."""
QUEUE_MAX: Final = 100_000
"""Letters that wait for a receiver before the sender is refused."""
LOCAL: Final = 0
"""The stream in the ticket of a letter that never leaves the process; its sequence is the letter's id."""


def check_payload(payload: bytes, destination: str) -> None:
    """Raises LetterRefused if the payload is over the ceiling: no bus would carry it."""
    if len(payload) > PAYLOAD_MAX:
        raise LetterRefused(
            f"a letter of {len(payload)} bytes is over the ceiling of {PAYLOAD_MAX} bytes",
            where=destination,
            fix="Pass large content by file and send its path",
        )


class Exchange:
    """The mailboxes of one process. Needs a running loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._receivers: dict[str, Receiver] = {}
        self._contacts: dict[str, set[str]] = {}
        self._unconfirmed: dict[tuple[str, str], dict[int, None]] = {}
        self._queue: deque[tuple[Callable[..., None], tuple[object, ...]]] = deque()
        self._scheduled = False

    def __contains__(self, address: str) -> bool:
        return address in self._receivers

    @property
    def addresses(self) -> tuple[str, ...]:
        """The open addresses."""
        return tuple(self._receivers)

    def receiver(self, address: str) -> Receiver | None:
        """Who reads this address here."""
        return self._receivers.get(address)

    def add(self, address: str, receiver: Receiver) -> None:
        """Open an address; the caller has made sure it is free."""
        self._receivers[address] = receiver

    def remove(self, address: str, why: str) -> None:
        """Close an address; those here that exchanged letters with it hear `gone`, after its last letter."""
        self._receivers.pop(address, None)
        for other in sorted(self._contacts.pop(address, ())):
            self._contacts.get(other, set()).discard(address)
            self._later(self._tell_gone, other, address, why)

    def clear(self) -> None:
        """Close all addresses; nobody is told anything any more."""
        self._receivers.clear()
        self._contacts.clear()
        self._unconfirmed.clear()
        self._queue.clear()

    def post(self, letter_id: int, letter: Letter) -> None:
        """Queue a letter between two addresses of this process.

        Raises:
            BusFull: too many letters wait already.
        """
        if len(self._queue) >= QUEUE_MAX:
            raise BusFull("too many letters wait in this process", why=f"{QUEUE_MAX} wait", fix="Let the loop run")
        if letter.destination in self._receivers:
            self._contacts.setdefault(letter.source, set()).add(letter.destination)
            self._contacts.setdefault(letter.destination, set()).add(letter.source)
        if letter.ticket is not None:
            self._unconfirmed.setdefault((letter.source, letter.destination), {})[letter_id] = None
        self._later(self._deliver, letter_id, letter)

    @property
    def is_busy(self) -> bool:
        """Whether letters wait here."""
        return bool(self._queue)

    @property
    def has_room(self) -> bool:
        """Whether a letter would be taken now."""
        return len(self._queue) < QUEUE_MAX

    def acknowledge(self, letter: Letter) -> None:
        """Tell the sender in this process, if it is still there; see `Mailbox.acknowledge`."""
        if letter.ticket is not None and letter.ticket.stream == LOCAL:
            waiting = self._unconfirmed.get((letter.source, letter.destination), {})
            if letter.ticket.sequence in waiting:
                del waiting[letter.ticket.sequence]
                self._later(self._acknowledged, letter.source, letter.ticket.sequence)

    def link_lost(self, why: str) -> None:
        """Tell every receiver that the broker went away."""
        for receiver in list(self._receivers.values()):
            self._later(receiver.link_lost, why)

    def closed(self, address: str, ends: Ends, why: str) -> None:
        """Tell the reader of an address that it is closed for good, and what became of its letters."""
        receiver = self._receivers.get(address)
        if receiver is not None:
            for letter_id in ends.undelivered:
                self._later(receiver.undelivered, letter_id, "", why)
            self._later(receiver.gone, address, ends.unknown, why)

    def call(self, callback: Callable[..., None], *arguments: object) -> None:
        """Call a receiver; what it raises is its own affair and goes to the loop's exception handler."""
        try:
            callback(*arguments)
        except Exception as error:
            context = {"message": "a receiver of the bus raised", "exception": error}
            self._loop.call_exception_handler(context)

    def _deliver(self, letter_id: int, letter: Letter) -> None:
        receiver = self._receivers.get(letter.destination)
        if receiver is not None:
            receiver.letter(letter)
            return
        sender = self._receivers.get(letter.source)
        self._unconfirmed.get((letter.source, letter.destination), {}).pop(letter_id, None)
        if sender is not None:
            sender.undelivered(letter_id, letter.destination, "nobody has the address")

    def _acknowledged(self, address: str, letter_id: int) -> None:
        acknowledged = getattr(self._receivers.get(address), "acknowledged", None)
        if acknowledged is not None:
            acknowledged(letter_id)

    def _tell_gone(self, address: str, gone: str, why: str) -> None:
        receiver = self._receivers.get(address)
        unknown = self._unconfirmed.pop((address, gone), {})
        if receiver is not None:
            receiver.gone(gone, tuple(unknown), why)

    def _later(self, callback: Callable[..., None], *arguments: object) -> None:
        self._queue.append((callback, arguments))
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        queue = self._queue
        for _ in range(TURN):
            if not queue:
                break
            callback, arguments = queue.popleft()
            self.call(callback, *arguments)
        self._scheduled = bool(self._queue)
        if self._scheduled:
            self._loop.call_soon(self._turn)


def ticket(letter_id: int, receiver: Receiver | None) -> Ticket:
    """The ticket of a local letter whose sender wants an acknowledgement.

    Raises:
        LetterRefused: nobody could hear it.
    """
    if not hasattr(receiver, "acknowledged"):
        raise LetterRefused("nobody here hears acknowledgements", fix="Give the mailbox a ConfirmedReceiver")
    return Ticket(LOCAL, letter_id)


class Office(Protocol):
    """What a mailbox needs of its bus."""

    def post(self, source: str, destination: str, payload: bytes, correlation: int, confirm: bool) -> int:
        """Send a letter; its id."""
        ...

    def has_room(self, source: str, destination: str) -> bool:
        """Whether a letter would be taken now."""
        ...

    async def eased(self) -> None:
        """Wait until there may be more room than now."""
        ...

    def acknowledge(self, letter: Letter) -> None:
        """See `Mailbox.acknowledge`."""
        ...

    def give_up(self, address: str) -> None:
        """Close a mailbox."""
        ...


class OpenMailbox:
    """A mailbox of either bus.

    Args:
        address: its address.
        office: its bus.
    """

    def __init__(self, address: str, office: Office) -> None:
        self._address = address
        self._office = office
        self._post = office.post
        self._closed = ""

    @property
    def address(self) -> str:
        return self._address

    def send(self, destination: str, payload: bytes, correlation: int = 0, *, confirm: bool = False) -> int:
        if self._closed:
            self._refuse()
        return self._post(self._address, destination, payload, correlation, confirm)

    async def room(self, destination: str) -> None:
        check_address(destination)
        while not self._closed and not self._office.has_room(self._address, destination):
            await self._office.eased()
        if self._closed:
            self._refuse()

    def acknowledge(self, letter: Letter) -> None:
        if not self._closed:
            self._office.acknowledge(letter)

    def close(self) -> None:
        if not self._closed:
            self.invalidate("it was closed")
            self._office.give_up(self._address)

    def invalidate(self, why: str) -> None:
        """Refuse to send from now on."""
        self._closed = self._closed or why

    def _refuse(self) -> NoReturn:
        raise BusClosed("this mailbox is closed", where=self._address, why=self._closed)
