"""The bus through the broker: one connection, any number of addresses.

A peer says HELLO with its principal's secret and its claims, and says it again for each further address. When the
broker goes away every mailbox hears `link_lost` once, and a new link says HELLO with all claims until a broker
answers; then whatever has no receipt is sent again (roads.py). Letters sent meanwhile wait here, within bounds.
Letters between two mailboxes of this bus never leave the process.
"""

import asyncio
import itertools
import os
from dataclasses import dataclass
from typing import Final

import zmq

from partyctl_broker import wire
from partyctl_broker.control import CLAIMS_MAX, Bye, Hello, Nack, Welcome
from partyctl_broker.endpoint import Target, ipc_path
from partyctl_broker.errors import AddressTaken, BusClosed, BusTimeout, HelloDeferred, HelloRefused, Malformed
from partyctl_broker.exchange import Exchange, OpenMailbox, check_payload, ticket
from partyctl_broker.link import Link
from partyctl_broker.outbox import Outbox
from partyctl_broker.port import Letter, Mailbox, Receiver
from partyctl_broker.roads import Roads
from partyctl_broker.waiting import Timers, Waiters, resolve
from partyctl_broker.wire import Envelope, Kind

PATIENCE: Final = 30.0
"""Seconds without a broker after which the bus gives up."""
RETRY: Final = 0.2
"""Seconds between two HELLOs to a broker that refuses: a new broker may not know its principals yet."""
LEAVE: Final = 5.0
"""Seconds that a closed mailbox keeps its address while letters of it have no receipt."""
CLOSE: Final = 2.0
"""The same for all mailboxes of a bus that closes."""
LINGER: Final = 500
"""Milliseconds that a closing bus goes on sending what was handed over."""
REDIAL: Final = 0.02
"""Seconds from the loss of a link to the next one."""


@dataclass(slots=True)
class _Opening:
    receiver: Receiver
    opened: "asyncio.Future[None]"


class ZmqBus:
    """A bus whose mailboxes reach those of other processes through the broker. Made by `connect`."""

    def __init__(self, endpoint: str, principal: str, secret: bytes, timeout: float, patience: float) -> None:
        self._endpoint, self._principal, self._secret = endpoint, principal, secret
        self._timeout, self._patience = timeout, patience
        self._loop = asyncio.get_running_loop()
        self._exchange = Exchange()
        self._incarnation = os.urandom(16)
        self._ids = itertools.count(1)
        self._mailboxes: dict[str, OpenMailbox] = {}
        self._openings: dict[str, _Opening] = {}
        self._outbox = Outbox()
        self._room = Waiters()
        self._roads = Roads(
            push=self._push,
            receiver=self._exchange.receiver,
            call=self._exchange.call,
            wake=self._wake,
            new_stream=_new_stream,
            released=self._released,
            eased=self._room.wake,
            clock=self._loop.time,
        )
        self._is_next_letter = self._roads.next_letter
        self._leaving: dict[str, asyncio.Future[None]] = {}
        self._flushing = self._heard = self._up = False
        self._closed = ""
        self._refusal = ""
        self._hello = 0
        self._first: asyncio.Future[None] = self._loop.create_future()
        self._timers = Timers()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._link: Link | None = None
        self._dropped = 0

    @staticmethod
    async def connect(
        endpoint: str, principal: str, secret: bytes, *, timeout: float = 5.0, patience: float = PATIENCE
    ) -> "ZmqBus":
        """A bus over the broker at `endpoint`; waits for it to be there and to answer.

        Args:
            endpoint: ipc://PATH or tcp://ADDRESS:PORT.
            principal: whom the host vouches for.
            secret: what proves it, 32 bytes.
            timeout: seconds that connecting, and later each `open`, may take.
            patience: seconds without a broker after which the bus gives up and closes itself.

        Raises:
            HelloRefused: the broker does not know the principal by this secret.
            HelloDeferred: it does not let the principal in now.
            BusTimeout: no broker answered in time.
            EndpointError: the endpoint is none.
        """
        ipc_path(endpoint)
        bus = ZmqBus(endpoint, principal, secret, timeout, patience)
        try:
            bus._dial()
            async with asyncio.timeout(timeout):
                await bus._first
        except TimeoutError:
            await bus.close()
            raise BusTimeout(
                f"no broker answered within {timeout:g} s", where=endpoint, fix="Look whether the party is up"
            ) from None
        except BaseException:
            await bus.close()
            raise
        return bus

    async def open(self, address: str, receiver: Receiver) -> Mailbox:
        """Claim an address. See `Bus.open`."""
        wire.check_address(address)
        if self._closed:
            raise BusClosed("this bus is closed", where=address, why=self._closed)
        if address in self._mailboxes or address in self._openings:
            raise AddressTaken("this address cannot be opened", where=address, why="this bus has it already")
        opening = self._openings[address] = _Opening(receiver, self._loop.create_future())
        try:
            async with asyncio.timeout(self._timeout):
                if address in self._leaving:
                    await asyncio.shield(self._leaving[address])
                if self._up:
                    self._say_hello((address,))
                await opening.opened
        except BaseException as error:
            if self._openings.pop(address, None) is not None or address in self._mailboxes:
                self._drop_mailbox(address, "it was never opened")
            if isinstance(error, TimeoutError):
                why = f"the broker did not answer within {self._timeout:g} s"
                raise BusTimeout("this address cannot be opened", where=address, why=why) from None
            raise
        return self._mailboxes[address]

    async def close(self) -> None:
        """Leave: wait until what was sent has arrived, for at most CLOSE, say BYE, close. Idempotent."""
        if self._closed:
            return
        self._closed = "it was closed"
        self._exchange.clear()
        for address, mailbox in list(self._mailboxes.items()):
            mailbox.invalidate("its bus is closed")
            del self._mailboxes[address]
            self._leave(address)
        self._room.wake()
        if self._leaving:
            await asyncio.wait(self._leaving.values(), timeout=CLOSE)
        if self._up:
            self._push(wire.TO_BROKER, wire.seal(Kind.BYE, 0, 0, Bye().encode()))
            self._flush()
        deadline = self._loop.time() + LINGER / 1000
        while self._up and self._outbox and self._loop.time() < deadline:
            await asyncio.sleep(0.01)  # for room in the socket, which only a burst just before the end needs
        was_up = self._up
        self._shut(self._closed, LINGER if was_up else 0)
        # Blocks while the last messages leave, hence the thread.
        await asyncio.to_thread(self._context.term)

    # --- what a mailbox needs

    def post(self, source: str, destination: str, payload: bytes, correlation: int, confirm: bool) -> int:
        """Send a letter. See `Mailbox.send`."""
        check_payload(payload, destination)
        letter_id = next(self._ids)
        paper = ticket(letter_id, self._exchange.receiver(source)) if confirm else None
        if destination in self._mailboxes:
            self._exchange.post(letter_id, Letter(source, destination, payload, correlation, paper))
        else:
            self._roads.send(letter_id, source, destination, payload, correlation, confirm)
        return letter_id

    def has_room(self, source: str, destination: str) -> bool:
        """Whether a letter would be taken now."""
        if destination in self._mailboxes:
            return self._exchange.has_room
        return self._roads.departures.has_room(source, destination)

    async def eased(self) -> None:
        """Wait until there may be more room than now."""
        if self._exchange.is_busy:
            await asyncio.sleep(0)
        else:
            await self._room.wait()

    def acknowledge(self, letter: Letter) -> None:
        """See `Mailbox.acknowledge`."""
        self._exchange.acknowledge(letter)
        self._roads.acknowledge(letter)

    def give_up(self, address: str) -> None:
        """Close a mailbox."""
        if self._mailboxes.pop(address, None) is not None:
            self._exchange.remove(address, "it was closed")
            self._leave(address)
            self._room.wake()

    def _leave(self, address: str) -> None:
        self._leaving[address] = self._loop.create_future()
        self._timers.set(f"leave {address}", LEAVE, lambda: self._abandon(address))
        self._roads.close(address)

    def _abandon(self, address: str) -> None:
        self._roads.abandon(address)
        self._released(address)

    def _released(self, address: str) -> None:
        self._timers.cancel(f"leave {address}")
        resolve(self._leaving.pop(address))
        if self._up:
            self._push(wire.TO_BROKER, wire.seal(Kind.BYE, 0, 0, Bye((address,)).encode()))

    # --- what goes out and comes in

    def _push(self, frame: bytes, envelope: bytes) -> None:
        self._outbox.push(frame, envelope)
        if self._outbox.is_message and self._up and self._link is not None:
            self._outbox.drain(self._link.send)
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush_now)

    def _flush_now(self) -> None:
        self._flush()
        if self._link is not None:
            self._link.sent()

    def _flush(self) -> None:
        """Hand the outbox to ZeroMQ, several pairs to a message; the rest waits for room."""
        self._flushing = False
        if self._up and self._link is not None:
            self._outbox.drain(self._link.send)

    def _pair(self, frame: bytes, envelope: bytes) -> None:
        self._heard = self._flushing = True  # the turn that delivers also sends the answers
        if self._is_next_letter(frame, envelope):
            return
        try:
            heard = self._roads.other(frame, envelope)
            if heard is not None:
                self._hear_broker(heard)
        except Malformed:
            self._dropped += 1

    def _hear_broker(self, envelope: Envelope) -> None:
        if envelope.kind == Kind.WELCOME:
            self._welcome(envelope.correlation, Welcome.decode(envelope.payload))
        elif envelope.kind == Kind.NACK:
            self._refused(envelope.correlation, Nack.decode(envelope.payload))
        elif envelope.kind == Kind.BYE:
            self._give_up(Bye.decode(envelope.payload).why)

    def _wake(self, seconds: float) -> None:
        self._timers.set_earlier("roads", seconds, self._roads.tick)

    # --- HELLO and its answers

    def _dial(self) -> None:
        proof = (Target.parse(self._endpoint), self._principal, self._secret)
        self._link = Link(self._context, *proof, pair=self._pair, turn=self._turn, lost=self._on_lost)
        self._introduce()

    def _introduce(self) -> None:
        """HELLO with everything this bus has or wants; the last part's answer opens the road for letters."""
        claims = (*self._mailboxes, *self._leaving, *(self._openings.keys() - self._leaving.keys()))
        for start in range(0, max(1, len(claims)), CLAIMS_MAX):
            self._hello = next(self._ids)
            assert self._link is not None
            self._link.send((wire.TO_BROKER, self._hello_envelope(self._hello, claims[start : start + CLAIMS_MAX])))

    def _say_hello(self, claims: tuple[str, ...]) -> None:
        self._push(wire.TO_BROKER, self._hello_envelope(next(self._ids), claims))

    def _hello_envelope(self, sequence: int, claims: tuple[str, ...]) -> bytes:
        secret = self._secret if ipc_path(self._endpoint) else b""  # on tcp it is a key, and proves without being told
        hello = Hello(self._principal, secret, self._incarnation, claims)
        return wire.seal(Kind.HELLO, sequence, 0, hello.encode())

    def _welcome(self, correlation: int, welcome: Welcome) -> None:
        for address in welcome.claimed:
            # One that is being left is opened anew when it has been.
            opening = None if address in self._leaving else self._openings.pop(address, None)
            if opening is not None:
                self._exchange.add(address, opening.receiver)
                self._mailboxes[address] = OpenMailbox(address, self)
                self._roads.open(address, welcome.since(address))
                resolve(opening.opened)
        for address, refusal in welcome.refused.items():
            opening = None if address in self._leaving else self._openings.pop(address, None)
            if opening is not None:
                resolve(opening.opened, refusal.error(address))
            elif address in self._mailboxes:
                self._lose_mailbox(address, f"lost while the broker was away: {refusal.why}")
            elif address in self._leaving:
                self._abandon(address)
        if correlation == self._hello and not self._up:
            self._up = True
            self._refusal = ""
            self._timers.cancel("patience")
            resolve(self._first)
            self._roads.up(welcome.life)
            self._flush()

    def _refused(self, correlation: int, nack: Nack) -> None:
        error = (HelloDeferred if nack.code == "later" else HelloRefused)(
            "the broker refused this peer",
            where=f"principal {self._principal}",
            why=nack.why,
            fix=_HELLO_FIXES.get(nack.code, _HELLO_FIX),
        )
        if not self._first.done():
            self._first.set_exception(error)
        elif not self._up:
            self._refusal = nack.why
            if correlation == self._hello:
                self._timers.set("hello", RETRY, self._introduce)
        else:
            for opening in self._openings.values():
                resolve(opening.opened, error)
            self._openings.clear()

    # --- loss and return

    def _turn(self) -> None:
        answered = bool(self._outbox)
        self._flush()
        if self._heard and not answered:
            # Nobody answered at once, so a task may have been woken to do it. It runs before this flush, and what it
            # sends leaves in the same turn of the loop.
            self._flushing = True
            self._loop.call_soon(self._flush_now)
        self._heard = False

    def _on_lost(self) -> None:
        if self._closed:
            return  # a link that was refused says so a little later, and by then nobody dials any more
        self._timers.cancel("hello")
        self._link = None
        self._heard = self._flushing = False
        self._outbox.clear()
        self._roads.down()
        if self._up:
            self._up = False
            self._timers.set("patience", self._patience, self._lose_patience)
            self._exchange.link_lost("the broker is gone")
        # Not at once: what killed this link may kill the next one as fast as we can make it.
        self._timers.set("dial", REDIAL, self._dial)

    def _lose_patience(self) -> None:
        seconds = f"{self._patience:g} s"
        refused = f"the broker refused this peer for {seconds}: {self._refusal}"
        self._give_up(refused if self._refusal else f"no broker answered for {seconds}")

    def _give_up(self, why: str) -> None:
        if self._closed:
            return
        if self._up:
            self._exchange.link_lost(why)
        resolve(self._first, BusClosed("the bus is closed", where=self._endpoint, why=why))
        for address in self._mailboxes:
            self._exchange.closed(address, self._roads.abandon(address), why)
        self._shut(why, 0, quiet=False)
        self._context.term()

    def _shut(self, why: str, linger: int, *, quiet: bool = True) -> None:
        self._closed = why
        self._up = False
        self._room.wake()
        for left in self._leaving.values():
            resolve(left)
        self._leaving.clear()
        self._timers.clear()
        for mailbox in self._mailboxes.values():
            mailbox.invalidate(f"its bus is closed: {why}")
        self._mailboxes.clear()
        for opening in self._openings.values():
            resolve(opening.opened, BusClosed("the bus is closed", where=self._endpoint, why=why))
        self._openings.clear()
        self._outbox.clear()
        if quiet:
            self._exchange.clear()
        if self._link is not None:
            self._link.close(linger)
            self._link = None

    def _drop_mailbox(self, address: str, why: str) -> None:
        if self._closed:
            return
        self._forget_mailbox(address, why)
        if self._up:
            self._push(wire.TO_BROKER, wire.seal(Kind.BYE, 0, 0, Bye((address,)).encode()))

    def _lose_mailbox(self, address: str, why: str) -> None:
        self._exchange.closed(address, self._roads.abandon(address), why)
        self._forget_mailbox(address, why)

    def _forget_mailbox(self, address: str, why: str) -> None:
        mailbox = self._mailboxes.pop(address, None)
        if mailbox is not None:
            mailbox.invalidate(why)
        self._exchange.remove(address, why)
        self._roads.abandon(address)


_HELLO_FIX = "Ask the host for the endpoint and the secret anew"
_HELLO_FIXES = {
    "later": "Try again in a minute. partyctl events says which it was: who was shown out, for how long and why; or "
    "that descriptors run short, and then let other peers leave, or the broker have more (ulimit -n)",
    "version": "Let both ends have the same version of partyctl",
}


def _new_stream() -> int:
    return int.from_bytes(os.urandom(8)) or 1
