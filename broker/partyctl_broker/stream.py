"""Letters from one address to another, numbered, so that none is lost, doubled or reordered; pure.

Rules:
 1. A sender numbers its letters to an address from 1, in a stream of a random id. It keeps each until it has a receipt.
 2. A receiver takes the next one it expects. A lower one is a duplicate, a higher one comes after a gap: both are
    dropped, as the sender goes back to the gap and sends again from there, in order.
 3. A stream that the receiver does not know begins with 1, and the one before it is over for ever. Any other letter of
    an unknown stream is foreign: it was meant for one that had the address before, and is refused.
 4. So is a first letter that is sent again after the broker it was first sent to has died, if the receiver has the
    address only since a later broker: nobody knows whether an earlier holder got it.
 5. A receipt opens the window and promises nothing. It is given when half the window is used, when the road is quiet,
    or when it is asked for.
 6. At most WINDOW letters and WINDOW_BYTES are under way; more wait at the sender, within KEEP and KEEP_BYTES.
 7. A letter that the broker had no room for stops the stream for a while, longer each time, until a receipt comes.
 8. When a stream ends early, each of its letters is either certainly not delivered, or unknown: it was under way, or
    it was under way once and nobody can tell any more what became of it.
"""

from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final, NamedTuple

from partyctl_broker import wire
from partyctl_broker.port import Letter
from partyctl_broker.wire import Kind

WINDOW: Final = 1024
WINDOW_BYTES: Final = 4 * 1024 * 1024
"""What may be under way on one road without a receipt; a single larger letter may."""
KEEP: Final = 4096
KEEP_BYTES: Final = 16 * 1024 * 1024
"""What one road keeps, under way or not, before its sender is refused."""
PAUSE_FIRST: Final = 0.01
PAUSE_LAST: Final = 1.0
"""Seconds that a stream stops after a refusal; doubles until a receipt comes."""
QUIET_TICKS: Final = 20
"""Ticks after which a receipt is given although the road was never quiet."""


class Ends(NamedTuple):
    """What became of the letters of a stream that ended early; letter ids."""

    unknown: tuple[int, ...]
    undelivered: tuple[int, ...]


class OutStream:
    """The sender's end.

    Args:
        stream: its id, not 0.
        frame: the address frame of its road.
        life: the broker's life that it begins in; 0 while there is no broker.
    """

    __slots__ = (
        "_head",
        "_high",
        "base",
        "doubt",
        "due",
        "flight",
        "flowing",
        "frame",
        "letters",
        "pause",
        "sent",
        "since",
        "size",
        "stream",
        "unconfirmed",
    )

    def __init__(self, stream: int, frame: bytes, life: int) -> None:
        self.stream = stream
        self.frame = frame
        self.base = 1
        """The sequence of the first letter without a receipt."""
        self.letters: deque[tuple[int, bytes]] = deque()
        """(letter id, envelope) from `base` on. The id of what the bus itself says is 0."""
        self.size = 0
        """Bytes of all of them."""
        self.sent = 0
        """How many of them are under way."""
        self.flight = 0
        """Bytes of those."""
        self.doubt = 0
        """Up to here letters were under way when the link was lost: even if one is refused now, it may have arrived."""
        self.unconfirmed: dict[int, int] = {}
        """Sequence -> letter id of those whose sender waits for an ACK."""
        self.flowing = life != 0
        """Whether letters may leave."""
        self.due: float | None = None
        """When a stream that was stopped goes on."""
        self.pause = PAUSE_FIRST
        self.since = life
        """The broker's life that the first letter was first sent in."""
        self._head = wire.head(Kind.DATA, stream)
        self._high = 0

    @property
    def top(self) -> int:
        """The sequence of the last letter."""
        return self.base + len(self.letters) - 1

    @property
    def is_full(self) -> bool:
        """Whether a letter would be one too many."""
        return len(self.letters) >= KEEP or self.size >= KEEP_BYTES

    def add(self, letter_id: int, correlation: int, payload: bytes, kind: Kind = Kind.DATA) -> bytes | None:
        """A letter more; its envelope if it may leave at once."""
        letters = self.letters
        waiting = len(letters)
        sequence = self.base + waiting
        if kind:
            envelope = wire.seal(kind, sequence, correlation, payload, stream=self.stream)
            if kind == Kind.ASSURED:
                self.unconfirmed[sequence] = letter_id
        else:
            envelope = wire.seal_letter(self._head, sequence, correlation, payload)
        letters.append((letter_id, envelope))
        size = len(envelope)
        self.size += size
        if not self.flowing or self.sent != waiting or not self._fits(size):
            return None
        self.sent = waiting + 1
        self.flight += size
        self._high = sequence
        return envelope

    def flow(self, life: int) -> Iterator[bytes]:
        """The envelopes that may leave now.

        Args:
            life: the life of the broker they go to.
        """
        while self.flowing and self.sent < len(self.letters):
            envelope = self.letters[self.sent][1]
            if not self._fits(len(envelope)):
                return
            self.flight += len(envelope)
            if self.base + self.sent == 1:
                envelope = self._first(envelope, life)
            self.sent += 1
            self._high = max(self._high, self.base + self.sent - 1)
            yield envelope

    def _fits(self, size: int) -> bool:
        return not self.sent or (self.sent < WINDOW and self.flight + size <= WINDOW_BYTES)

    def _first(self, envelope: bytes, life: int) -> bytes:
        """The first letter says since when it is under way, if it was to another broker."""
        if not self.since:
            self.since = life
        if self.since == life:
            return envelope
        kind, stream, sequence, correlation, trace, payload, _ = wire.unseal(envelope)
        return wire.seal(Kind(kind), sequence, correlation, payload, stream=stream, trace=trace, since=self.since)

    def received(self, sequence: int) -> bool:
        """A receipt for all up to `sequence`; whether it told anything new."""
        count = min(sequence, self._high) - self.base + 1
        if count <= 0:
            return False
        for number in range(count):
            size = len(self.letters.popleft()[1])
            self.size -= size
            if number < self.sent:
                self.flight -= size
        self.base += count
        self.sent = max(0, self.sent - count)
        self.pause = PAUSE_FIRST
        return True

    def go_back(self, sequence: int, now: float, longest: float = PAUSE_LAST) -> None:
        """A letter was not taken for want of room: stop, and later send again from it on."""
        index = max(0, sequence - self.base)
        if index < self.sent:
            self.flight -= sum(len(self.letters[number][1]) for number in range(index, self.sent))
            self.sent = index
        if self.flowing:
            self.flowing = False
            self.due = now + min(self.pause, longest)
            self.pause = min(self.pause * 2, PAUSE_LAST)

    def go_on(self) -> None:
        """The pause is over."""
        self.flowing, self.due = True, None

    def lost(self) -> None:
        """The link is lost: all that was under way may or may not have arrived."""
        self.doubt = max(self.doubt, self.base + self.sent - 1)
        self.sent = self.flight = 0
        self.flowing, self.due, self.pause = False, None, PAUSE_FIRST

    def refuse(self) -> Ends:
        """The first letter under way was refused for good, and so nobody takes those after it."""
        return self._over(0)

    def over(self) -> Ends:
        """The other end is gone."""
        return self._over(self.sent)

    def _over(self, under_way: int) -> Ends:
        doubtful = max(under_way, self.doubt - self.base + 1)
        letters = list(self.letters)
        before = tuple(letter_id for sequence, letter_id in self.unconfirmed.items() if sequence < self.base)
        self.letters.clear()
        self.unconfirmed.clear()
        self.size = self.flight = self.sent = 0
        self.flowing, self.due = False, None
        return Ends(before + _ids(letters[:doubtful]), _ids(letters[doubtful:]))


def _ids(letters: list[tuple[int, bytes]]) -> tuple[int, ...]:
    return tuple(letter_id for letter_id, _ in letters if letter_id)


class Verdict(Enum):
    """What a receiver does with a letter."""

    TAKE = "take"
    DUPLICATE = "duplicate"
    GAP = "gap"
    FOREIGN = "foreign"


class InStream:
    """The receiver's end of a road: its present stream, and what of it has no receipt yet.

    Args:
        source: the other address.
        destination: our own.
        read: who takes its letters.
    """

    __slots__ = (
        "age",
        "bytes",
        "destination",
        "expected",
        "gap",
        "head",
        "is_pending",
        "read",
        "seen",
        "source",
        "stream",
        "unread",
    )

    def __init__(self, source: str, destination: str, read: Callable[[Letter], None]) -> None:
        self.read = read
        self.source = source
        self.destination = destination
        self.stream = 0
        self.head = b""
        """What every plain letter of the stream begins with."""
        self.expected = 1
        self.unread = 0
        """Letters since the last receipt."""
        self.bytes = 0
        """Bytes of those."""
        self.gap = 0
        """The sequence whose absence was told."""
        self.is_pending = False
        """Whether a receipt is owed."""
        self.seen = 0
        self.age = 0

    def judge(self, stream: int, sequence: int, *, may_begin: bool) -> Verdict:
        """What to do with a letter; if it is taken, the next one is expected.

        Args:
            stream, sequence: what its header says.
            may_begin: whether a stream of this id may begin here.
        """
        if stream != self.stream:
            if sequence != 1 or not stream or not may_begin:
                return Verdict.FOREIGN
            self.stream, self.head = stream, wire.head(Kind.DATA, stream)
            self.expected, self.gap, self.unread, self.bytes = 1, 0, 0, 0
        if sequence == self.expected:
            self.expected += 1
            return Verdict.TAKE
        return Verdict.DUPLICATE if sequence < self.expected else Verdict.GAP

    def tick(self) -> bool:
        """Some time has passed; whether it is time for a receipt."""
        self.age += 1
        quiet = self.seen == self.expected
        self.seen = self.expected
        return quiet or self.age >= QUIET_TICKS

    def receipt(self) -> int:
        """Give one: the sequence up to which all was taken."""
        self.unread = self.bytes = self.age = 0
        self.is_pending = False
        return self.expected - 1
