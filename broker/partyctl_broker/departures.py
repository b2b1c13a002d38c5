"""The roads out of one bus: what was sent, what waits, and what becomes of it; pure.

What leaves goes to `push`. The rules of a single road are in stream.py.
"""

from collections.abc import Callable, Iterator
from typing import Final

from partyctl_broker import wire
from partyctl_broker.errors import BusFull
from partyctl_broker.stream import PAUSE_LAST, Ends, OutStream
from partyctl_broker.wire import HEADER_SIZE, Kind

ROADS_MAX: Final = 65_536
LETTERS_MAX: Final = 100_000
BYTES_MAX: Final = 64 * 1024 * 1024
"""What all roads together keep before a sender is refused."""

_FULL = "the receiver does not read, and too much waits for it already"


class Departures:
    """All streams out.

    Args:
        push: queue a pair (address frame, envelope) for the broker.
        new_stream: a random number of 64 bits, not 0.
    """

    def __init__(self, push: Callable[[bytes, bytes], None], new_stream: Callable[[], int]) -> None:
        self.letters = 0
        """Letters without a receipt."""
        self.bytes = 0
        """Bytes of those."""
        self.is_up = False
        """Whether there is a broker."""
        self._push, self._new_stream = push, new_stream
        self._streams: dict[str, dict[str, OutStream]] = {}
        self._count = 0
        self._life = 0
        self._marks: dict[OutStream, int] = {}
        self._paused: dict[OutStream, None] = {}
        self._unproven: dict[OutStream, None] = {}

    @property
    def is_busy(self) -> bool:
        """Whether a receipt is waited for."""
        return self.letters > 0 or bool(self._unproven)

    @property
    def is_full(self) -> bool:
        """Whether all roads together keep as much as they may."""
        return self.letters >= LETTERS_MAX or self.bytes >= BYTES_MAX

    def of(self, source: str) -> list[OutStream]:
        """The streams from an address."""
        return list(self._streams.get(source, {}).values())

    def find(self, source: str, destination: str) -> OutStream | None:
        """The present stream of a road."""
        return self._streams.get(source, {}).get(destination)

    def has_room(self, source: str, destination: str) -> bool:
        """Whether a letter would be taken now."""
        stream = self.find(source, destination)
        return not self.is_full and (stream is None or not stream.is_full)

    def send(
        self, letter_id: int, source: str, destination: str, payload: bytes, correlation: int, kind: Kind = Kind.DATA
    ) -> None:
        """Send a letter, or keep it until there is room for it on its way.

        Raises:
            BusFull: too much waits already.
            LetterRefused: the destination is no address.
        """
        streams = self._streams.get(source)
        stream = None if streams is None else streams.get(destination)
        if stream is None:
            stream = self._begin(source, destination)
        # What the bus itself says always goes in: there is no more of it than letters that came.
        if letter_id and (stream.is_full or self.is_full):
            raise BusFull(_FULL, where=destination, fix="Wait for room(), or give up")
        envelope = stream.add(letter_id, correlation, payload, kind)
        self.letters += 1
        self.bytes += HEADER_SIZE + len(payload)
        if envelope is not None:
            self._push(stream.frame, envelope)

    def flow(self, stream: OutStream) -> None:
        """Send what may leave."""
        for envelope in stream.flow(self._life):
            self._push(stream.frame, envelope)

    def ask(self, stream: OutStream) -> None:
        """Ask the other end what it has."""
        top = stream.top
        self._push(stream.frame, wire.seal(Kind.ASK, top, top, b"", stream=stream.stream))

    def received(self, stream: OutStream, sequence: int) -> bool:
        """A receipt came; whether it told anything new."""
        self._unproven.pop(stream, None)
        letters, size = len(stream.letters), stream.size
        if not stream.received(sequence):
            return False
        self._less(letters - len(stream.letters), size - stream.size)
        self.flow(stream)
        return True

    def end(self, source: str, destination: str, *, refused: bool = False) -> Ends:
        """The other end of a road is gone, or `refused` by the broker: nobody has it."""
        stream = self.find(source, destination)
        if stream is None:
            return Ends((), ())
        self._less(len(stream.letters), stream.size)
        self._forget(source, destination)
        return stream.refuse() if refused else stream.over()

    def end_all(self, source: str) -> Ends:
        """An address is given up, and all its roads."""
        ends = [self.end(source, destination) for destination in list(self._streams.get(source, {}))]
        unknown = tuple(letter for end in ends for letter in end.unknown)
        return Ends(unknown, tuple(letter for end in ends for letter in end.undelivered))

    # --- the link and the time

    def up(self, life: int) -> None:
        """A broker is there: send what has no receipt. A road that waits for none is asked after."""
        returned, self._life, self.is_up = self._life != 0, life, True
        for stream in self._all():
            stream.go_on()
            self.flow(stream)
            if returned and not stream.letters:
                self._unproven[stream] = None
                self.ask(stream)

    def down(self) -> None:
        """The link is lost, and what waited for it with it."""
        self.is_up = False
        for stream in self._all():
            stream.lost()

    def go_back(self, stream: OutStream, sequence: int, now: float, longest: float = PAUSE_LAST) -> None:
        """Stop, and later send again from a letter on."""
        stream.go_back(sequence, now, longest)
        if stream.due is not None:
            self._paused[stream] = None

    def resume(self, now: float) -> float | None:
        """Go on with the streams whose pause is over; seconds until the next one is, None if none pauses."""
        for stream in list(self._paused):
            if stream.due is None or stream.due <= now:
                del self._paused[stream]
                if stream.due is not None:
                    stream.go_on()
                    self.flow(stream)
                if stream in self._unproven:
                    self.ask(stream)
        return min((stream.due - now for stream in self._paused if stream.due is not None), default=None)

    def ask_stalled(self) -> None:
        """Ask after each road that had no receipt since this was called last."""
        marks: dict[OutStream, int] = {}
        for stream in self._all():
            if stream.sent or stream in self._unproven:
                marks[stream] = stream.base
                if self._marks.get(stream) == stream.base:
                    self.ask(stream)
        self._marks = marks

    def _all(self) -> Iterator[OutStream]:
        return (stream for streams in list(self._streams.values()) for stream in list(streams.values()))

    def _less(self, letters: int, size: int) -> None:
        self.letters -= letters
        self.bytes -= size

    def _begin(self, source: str, destination: str) -> OutStream:
        wire.check_address(destination)
        if self._count >= ROADS_MAX:
            raise BusFull(f"this bus writes along {ROADS_MAX} roads already", where=destination)
        stream = OutStream(self._new_stream(), wire.road(destination, source), self._life if self.is_up else 0)
        self._streams.setdefault(source, {})[destination] = stream
        self._count += 1
        return stream

    def _forget(self, source: str, destination: str) -> None:
        streams = self._streams[source]
        stream = streams.pop(destination)
        self._unproven.pop(stream, None)
        self._paused.pop(stream, None)
        self._count -= 1
        if not streams:
            del self._streams[source]
