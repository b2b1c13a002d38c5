"""All roads of one bus: what joins its letters out and in, and what the broker and the other ends say about them.

No I/O: what leaves goes to `push`, and the shell calls `tick` when `wake` asked for it. Rules, besides those of a
single road (stream.py):

 1. When a broker is back, each road is asked after: letters without a receipt are sent again, a road with none gets an
    ASK, and each stream that came in gets a RECEIPT. For GRACE seconds "nobody has the address" is no answer. After
    that, or when the other end knows nothing of such a stream, the other end is gone.
 2. GONE is said back to the broker before anybody is told: what was sent before cannot reach the next holder of the
    address, what is sent afterwards can.
 3. A mailbox that was closed keeps its address until its letters have their receipts, so that they survive a broker.
"""

from collections.abc import Callable
from typing import Final

from partyctl_broker import wire
from partyctl_broker.arrivals import Arrivals
from partyctl_broker.control import Gone, Nack
from partyctl_broker.departures import Departures
from partyctl_broker.errors import Malformed
from partyctl_broker.port import Letter, Receiver
from partyctl_broker.stream import PAUSE_LAST, Ends, OutStream
from partyctl_broker.wire import Envelope, Kind

TICK: Final = 0.05
"""Seconds that a road is quiet before it gets its receipt."""
STALL: Final = 2.0
"""Seconds without a receipt after which one is asked for: a word of the broker may have been lost."""
GRACE: Final = 2.0
"""Seconds after a broker's return in which addresses may still come back."""
GRACE_PAUSE: Final = 0.2
"""Seconds between two attempts at an address that is not back yet, at most."""

_ABSENT = ("unknown", "gone")
_SEQUENCED = (Kind.DATA, Kind.ASSURED, Kind.ACK)


class Roads:
    """The state of all roads of a bus.

    Args:
        push: queue a pair (address frame, envelope) for the broker.
        receiver: who reads an address of ours; None if nobody does (any more).
        call: call a receiver; what it raises is its own affair.
        wake: call `tick` in so many seconds, or earlier.
        new_stream: a random number of 64 bits, not 0.
        released: told an address whose mailbox was closed, when it has no letter under way any more.
        eased: told that there may be room for letters again.
        clock: the time in seconds.
    """

    def __init__(
        self,
        *,
        push: Callable[[bytes, bytes], None],
        receiver: Callable[[str], Receiver | None],
        call: Callable[..., None],
        wake: Callable[[float], None],
        new_stream: Callable[[], int],
        released: Callable[[str], None],
        eased: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self.departures = Departures(push, new_stream)
        self.arrivals = Arrivals(push, receiver, call, self._acked, self._owed)
        self.next_letter = self.arrivals.next_letter
        self._push, self._receiver, self._call, self._wake = push, receiver, call, wake
        self._released, self._eased, self._clock = released, eased, clock
        self._closing: set[str] = set()
        self._life = 0
        self._grace = self._stall = 0.0
        self._is_awake = False

    # --- addresses

    def open(self, address: str, life: int) -> None:
        """An address is ours, since this life of the broker if it was not before."""
        self.arrivals.open(address, life)

    def close(self, address: str) -> None:
        """Take nothing more in for it; release it when its letters have their receipts."""
        self.arrivals.close(address)
        self._closing.add(address)
        for stream in self.departures.of(address):
            self._hurry(stream)
        self._settle(address)

    def abandon(self, address: str) -> Ends:
        """Forget an address and all its roads; what became of its letters."""
        self._closing.discard(address)
        self.arrivals.close(address)
        return self.departures.end_all(address)

    def _hurry(self, stream: OutStream) -> None:
        if stream.letters and stream.sent == len(stream.letters):
            self.departures.ask(stream)

    def _settle(self, address: str) -> None:
        if address in self._closing and not any(stream.letters for stream in self.departures.of(address)):
            self.abandon(address)
            self._released(address)

    # --- letters out

    def send(
        self, letter_id: int, source: str, destination: str, payload: bytes, correlation: int, confirm: bool = False
    ) -> None:
        """Send a letter. Raises BusFull, LetterRefused."""
        kind = Kind.ASSURED if confirm else Kind.DATA
        self.departures.send(letter_id, source, destination, payload, correlation, kind)
        if not self._is_awake:
            self._stay_awake(STALL)

    def acknowledge(self, letter: Letter) -> None:
        """Say that the effect of a letter is durable or finished."""
        ticket = letter.ticket
        if ticket is not None and self.arrivals.has(letter.destination, letter.source, ticket.stream):
            word = ticket.stream.to_bytes(8)
            self.departures.send(0, letter.destination, letter.source, word, ticket.sequence, Kind.ACK)
            self._stay_awake(STALL)

    # --- what comes in

    def other(self, frame: bytes, data: bytes) -> Envelope | None:
        """Anything but the next plain letter of a road.

        Returns:
            What the broker says to the bus as a whole; None for all else, which is taken care of.

        Raises:
            Malformed: nobody sends this.
        """
        destination, source = wire.ends(frame)
        envelope = wire.unseal(data)
        kind = envelope.kind
        if source:
            self._from_peer(frame, source, destination, envelope)
        elif not destination:
            return envelope
        elif kind == Kind.NACK:
            nack = Nack.decode(envelope.payload)
            self._nacked(destination, nack.destination, nack, envelope)
        elif kind == Kind.GONE:
            gone = Gone.decode(envelope.payload)
            self._push(wire.road("", destination), wire.seal(Kind.GONE, 0, 0, Gone(gone.address, "").encode()))
            self._gone(destination, gone.address, gone.why)
        else:
            raise Malformed("a word of the broker that is none", where=destination)
        return None

    def _from_peer(self, frame: bytes, source: str, destination: str, envelope: Envelope) -> None:
        kind = envelope.kind
        if kind in _SEQUENCED:
            self.arrivals.letter(frame, source, destination, envelope)
        elif kind == Kind.RECEIPT:
            self._receipt(destination, source, envelope)
        elif kind == Kind.ASK:
            self.arrivals.ask(source, destination, envelope)
        elif kind == Kind.NACK:
            nack = Nack.decode(envelope.payload)
            if nack.code not in ("gap", "fenced"):
                raise Malformed("a peer speaks like the broker", where=source)
            self._nacked(destination, source, nack, envelope)
        else:
            raise Malformed("a peer speaks like the broker", where=source)

    def _receipt(self, own: str, other: str, envelope: Envelope) -> None:
        stream = self.departures.find(own, other)
        if stream is None or stream.stream != envelope.stream:
            self.arrivals.refuse_receipt(other, own, envelope.stream)
            return
        asked, have = envelope.correlation, envelope.sequence
        self.departures.received(stream, have)
        if have < asked and stream.sent and stream.flowing:
            # It was asked after the letter `asked`, so what it does not have by now is lost.
            self._go_back(stream, have + 1)
        self._progress(own, stream)

    def _progress(self, own: str, stream: OutStream) -> None:
        self._eased()
        if own in self._closing:
            self._hurry(stream)
            self._settle(own)

    def _acked(self, own: str, other: str, stream_id: int, sequence: int) -> None:
        stream = self.departures.find(own, other)
        if stream is None or stream.stream != stream_id:
            return
        self.departures.received(stream, sequence)
        letter_id, receiver = stream.unconfirmed.pop(sequence, 0), self._receiver(own)
        acknowledged = getattr(receiver, "acknowledged", None)
        if letter_id and acknowledged is not None:
            self._call(acknowledged, letter_id)
        self._progress(own, stream)

    # --- refusals and ends

    def _nacked(self, own: str, other: str, nack: Nack, envelope: Envelope) -> None:
        is_early = nack.code in _ABSENT and self._clock() < self._grace
        if nack.kind == Kind.RECEIPT:
            if not self.arrivals.has(own, other, envelope.stream):
                return
            if nack.code == "full" or is_early:
                self.arrivals.unheard(own, other)
            else:
                self._replaced(own, other, nack.why)
            return
        stream = self.departures.find(own, other)
        if stream is None or stream.stream != envelope.stream:
            return
        sequence = envelope.correlation
        if nack.kind == Kind.ASK and (nack.code == "full" or (stream.letters and nack.code in _ABSENT)):
            self._go_back(stream, stream.top + 1)  # the letters under way speak for themselves
        elif nack.code in ("full", "gap"):
            self._go_back(stream, sequence)
        elif is_early:
            self._go_back(stream, sequence, GRACE_PAUSE)
        elif nack.code == "fenced" and stream.base == 1 and (sequence > 1 or nack.kind == Kind.ASK):
            self._go_back(stream, 1)  # it may not know the stream only because the first letter did not get through
        elif nack.code == "fenced" or nack.kind == Kind.ASK:
            self._gone(own, other, nack.why)
        elif sequence > stream.base:
            # Either those before it went through and the other end is gone since, which we shall hear. Or this is about
            # an earlier attempt, and the present one may go through.
            self._go_back(stream, sequence)
        else:
            self._told(own, other, self.departures.end(own, other, refused=True), nack.why)
            self._settle(own)

    def _go_back(self, stream: OutStream, sequence: int, longest: float = PAUSE_LAST) -> None:
        self.departures.go_back(stream, sequence, self._clock(), longest)
        if stream.due is not None:
            self._stay_awake(max(0.0, stream.due - self._clock()))

    def _replaced(self, own: str, other: str, why: str) -> None:
        """Who wrote to us is not at its address any more. What is under way may reach who is now, or be refused."""
        stream = self.departures.find(own, other)
        if stream is None or not stream.letters:
            self._gone(own, other, why)
            return
        self.arrivals.end(own, other)
        self._tell_gone(own, other, (), why)

    def _gone(self, own: str, other: str, why: str) -> None:
        self.arrivals.end(own, other)
        ends = self.departures.end(own, other)
        self._told(own, other, Ends((), ends.undelivered), why)
        self._tell_gone(own, other, ends.unknown, why)
        self._settle(own)

    def _told(self, own: str, other: str, ends: Ends, why: str) -> None:
        self._eased()
        if ends.unknown:
            self._tell_gone(own, other, ends.unknown, why)
        receiver = self._receiver(own)
        if receiver is not None:
            for letter_id in ends.undelivered:
                self._call(receiver.undelivered, letter_id, other, why)

    def _tell_gone(self, own: str, other: str, unknown: tuple[int, ...], why: str) -> None:
        receiver = self._receiver(own)
        if receiver is not None:
            self._call(receiver.gone, other, unknown, why)

    # --- the link and the time

    def up(self, life: int) -> None:
        """A broker of this life is there and knows our addresses."""
        if self._life:
            self._grace = self._clock() + GRACE
        self._life = life
        self.arrivals.up()
        self.departures.up(life)
        self._stay_awake(STALL)

    def down(self) -> None:
        """The link is lost, and what waited to be sent with it."""
        self.departures.down()

    def tick(self) -> None:
        """Some time has passed."""
        self._is_awake = False
        now = self._clock()
        if not self.departures.is_up:
            return  # everything is looked after again when a broker is there
        waits = [TICK] if self.arrivals.tick() else []
        pause = self.departures.resume(now)
        if pause is not None:
            waits.append(pause)
        if self.departures.is_busy:
            if now >= self._stall:
                self._stall = now + STALL
                self.departures.ask_stalled()
            waits.append(max(TICK, self._stall - now))
        if waits:
            self._stay_awake(min(waits))

    def _owed(self) -> None:
        self._stay_awake(TICK)

    def _stay_awake(self, seconds: float) -> None:
        self._is_awake = True
        self._wake(seconds)
