"""The roads into one bus: which letter is the next one, and which receipts are owed; pure.

The rules of a single road are in stream.py. The receipts leave through `push`, back along the road.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from partyctl_broker import wire
from partyctl_broker.control import Nack
from partyctl_broker.errors import Malformed
from partyctl_broker.port import Letter, Receiver, Ticket
from partyctl_broker.stream import WINDOW, WINDOW_BYTES, InStream, Verdict
from partyctl_broker.wire import HEAD_SIZE, HEADER_SIZE, TAIL_MARKS, Envelope, Kind, unpack_tail

FENCED_MAX: Final = 4096
"""Streams that are over, and of which not even a first letter may be taken any more."""

_HALF = WINDOW // 2
_HALF_BYTES = WINDOW_BYTES // 2
_REASONS = {
    "gap": "a letter before it is missing",
    "fenced": "it was meant for one that had the address before",
}


class Arrivals:
    """All streams in.

    Args:
        push: queue a pair (address frame, envelope) for the broker.
        receiver: who reads an address of ours; None if nobody does (any more).
        call: call a receiver; what it raises is its own affair.
        acked: called with (destination, source, stream, sequence) when an ACK came in.
        owed: called when a receipt is owed, so that `tick` will be called.
    """

    def __init__(
        self,
        push: Callable[[bytes, bytes], None],
        receiver: Callable[[str], Receiver | None],
        call: Callable[..., None],
        acked: Callable[[str, str, int, int], None],
        owed: Callable[[], None],
    ) -> None:
        self.dropped = 0
        """Letters that were duplicates, foreign, behind a gap, or to nobody."""
        self.pending: dict[InStream, None] = {}
        """The roads that are owed a receipt."""
        self._push, self._receiver, self._call, self._acked, self._owed = push, receiver, call, acked, owed
        self._roads: dict[bytes, InStream] = {}
        self._frames: dict[str, set[bytes]] = {}
        self._opened: dict[str, int] = {}
        self._fenced: OrderedDict[int, None] = OrderedDict()

    # --- addresses

    def open(self, address: str, life: int) -> None:
        """An address is ours since this life of the broker."""
        self._opened.setdefault(address, life)

    def close(self, address: str) -> None:
        """Nothing more is taken in for an address."""
        self._opened.pop(address, None)
        for frame in list(self._frames.get(address, ())):
            self._end(frame)

    def end(self, destination: str, source: str) -> None:
        """The other end of a road is gone."""
        self._end(wire.road(destination, source))

    def _end(self, frame: bytes) -> None:
        road = self._roads.pop(frame, None)
        if road is None:
            return
        self.pending.pop(road, None)
        self._fence(road.stream)
        frames = self._frames[road.destination]
        frames.discard(frame)
        if not frames:
            del self._frames[road.destination]

    def has(self, destination: str, source: str, stream: int) -> bool:
        """Whether this is the present stream of the road from `source` to `destination`."""
        road = self._roads.get(wire.road(destination, source))
        return road is not None and road.stream == stream

    def _fence(self, stream: int) -> None:
        if stream:
            self._fenced[stream] = None
            if len(self._fenced) > FENCED_MAX:
                self._fenced.popitem(last=False)

    # --- letters

    def next_letter(self, frame: bytes, envelope: bytes) -> bool:
        """Deliver a pair if it is the next plain letter of a road, as nearly all are; whether it was."""
        road = self._roads.get(frame)
        if road is None or envelope[:HEAD_SIZE] != road.head or len(envelope) < HEADER_SIZE:
            return False
        mark, sequence, mark2, correlation, nil = unpack_tail(envelope, HEAD_SIZE)
        if sequence != road.expected or (mark, mark2, nil) != TAIL_MARKS:
            return False
        road.expected = sequence + 1
        self._took(road, len(envelope))
        self._call(road.read, Letter(road.source, road.destination, envelope[HEADER_SIZE:], correlation))
        return True

    def letter(self, frame: bytes, source: str, destination: str, envelope: Envelope) -> None:
        """Any letter: judge it, and deliver it or say why not.

        Raises:
            Malformed: there is nobody to read it, or it has no sequence.
        """
        receiver = self._receiver(destination)
        if receiver is None or destination not in self._opened or not envelope.sequence:
            raise Malformed("a letter to nobody, or without a number", where=destination)
        road = self._roads.get(frame) or InStream(source, destination, receiver.letter)
        former, stream, sequence = road.stream, envelope.stream, envelope.sequence
        verdict = road.judge(stream, sequence, may_begin=self._may_begin(destination, envelope))
        if verdict is Verdict.TAKE:
            if former != stream:
                self._fence(former)
                self._roads[frame] = road
                self._frames.setdefault(destination, set()).add(frame)
            self._took(road, HEADER_SIZE + len(envelope.payload))
            self._deliver(road, receiver, envelope)
            return
        self.dropped += 1
        if verdict is Verdict.DUPLICATE:
            self._owe(road)
        elif verdict is Verdict.FOREIGN:
            self._refuse(source, destination, "fenced", stream, sequence, envelope.kind)
        elif road.gap != road.expected:
            road.gap = road.expected
            self._refuse(source, destination, "gap", stream, road.expected, envelope.kind)

    def ask(self, source: str, destination: str, envelope: Envelope) -> None:
        """The other end wants a receipt now."""
        road = self._roads.get(wire.road(destination, source))
        if road is not None and road.stream == envelope.stream:
            self._receipt(road, envelope.correlation)
        elif destination in self._opened:
            self._refuse(source, destination, "fenced", envelope.stream, envelope.sequence, Kind.ASK)

    def refuse_receipt(self, source: str, destination: str, stream: int) -> None:
        """A receipt came for a stream that this end knows nothing of."""
        self._refuse(source, destination, "fenced", stream, 0, Kind.RECEIPT)

    def _may_begin(self, destination: str, envelope: Envelope) -> bool:
        if envelope.stream in self._fenced:
            return False
        return not envelope.since or self._opened[destination] <= envelope.since

    def _deliver(self, road: InStream, receiver: Receiver, envelope: Envelope) -> None:
        if envelope.kind == Kind.ACK:
            self._acked(road.destination, road.source, int.from_bytes(envelope.payload), envelope.correlation)
            return
        ticket = Ticket(envelope.stream, envelope.sequence) if envelope.kind == Kind.ASSURED else None
        letter = Letter(road.source, road.destination, envelope.payload, envelope.correlation, ticket)
        self._call(receiver.letter, letter)

    def _refuse(self, source: str, destination: str, code: str, stream: int, sequence: int, kind: int) -> None:
        nack = Nack(destination, code, _REASONS[code], kind).encode()
        self._push(wire.road(source, destination), wire.seal(Kind.NACK, 0, sequence, nack, stream=stream))

    # --- receipts

    def _took(self, road: InStream, size: int) -> None:
        road.unread += 1
        road.bytes += size
        if not road.is_pending:
            self._owe(road)
        elif road.unread >= _HALF or road.bytes >= _HALF_BYTES:
            self._receipt(road)

    def _owe(self, road: InStream) -> None:
        road.is_pending = True
        self.pending[road] = None
        self._owed()

    def _receipt(self, road: InStream, asked: int = 0) -> None:
        self.pending.pop(road, None)
        receipt = wire.seal(Kind.RECEIPT, road.receipt(), asked, b"", stream=road.stream)
        self._push(wire.road(road.source, road.destination), receipt)

    def tick(self) -> bool:
        """Give the receipts that are due; whether any is owed still. Call it every TICK seconds while one is."""
        for road in [road for road in self.pending if road.tick()]:
            self._receipt(road)
        return bool(self.pending)

    def up(self) -> None:
        """A broker is back: say what arrived, and find out who else is back."""
        for road in self._roads.values():
            self._receipt(road)

    def unheard(self, destination: str, source: str) -> None:
        """A receipt did not get through; give it again."""
        road = self._roads.get(wire.road(destination, source))
        if road is not None:
            self._owe(road)
