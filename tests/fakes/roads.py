"""A broker and its peers without processes: pipes that can be cut, full or slow, and a clock that is told the time.

It keeps what was promised about letters: none is delivered twice, out of order, or after its sender was told otherwise.
"""

from __future__ import annotations

import itertools
from collections import Counter, deque

from partyctl_broker import wire
from partyctl_broker.control import Gone, Nack
from partyctl_broker.errors import BusFull
from partyctl_broker.port import Letter
from partyctl_broker.roads import GRACE, Roads
from partyctl_broker.wire import Kind

Pair = tuple[bytes, bytes]
WELCOME: Pair = (b"", b"")


class SimPeer:
    """One life of the holder of an address."""

    def __init__(self, world: World, address: str) -> None:
        self.world = world
        self.address = address
        self.heard: list[str] = []
        self.up: deque[Pair] = deque()
        self.down: deque[Pair] = deque()
        self.connected = False
        self.alive = True
        self.wake: float | None = None
        self.roads = Roads(
            push=self._push,
            receiver=lambda address: self if address == self.address else None,
            call=lambda callback, *arguments: callback(*arguments),
            wake=self._wake,
            new_stream=world.streams.__next__,
            released=lambda address: None,
            eased=lambda: None,
            clock=lambda: world.now,
        )
        self.is_up = False
        self._opened = False

    def _push(self, frame: bytes, envelope: bytes) -> None:
        if self.is_up:
            self.up.append((frame, envelope))

    def _wake(self, seconds: float) -> None:
        due = self.world.now + seconds
        self.wake = due if self.wake is None else min(self.wake, due)

    def send(self, destination: str, *, confirm: bool) -> None:
        letter_id = next(self.world.ids)
        try:
            self.roads.send(letter_id, self.address, destination, b"%d" % letter_id, 0, confirm)
        except BusFull:
            return
        self.world.sent[letter_id] = (self, destination)

    def tick(self) -> None:
        if self.wake is not None and self.wake <= self.world.now:
            self.wake = None
            self.roads.tick()

    def read(self, count: int) -> None:
        for _ in range(min(count, len(self.down))):
            pair = self.down.popleft()
            if pair is WELCOME:
                self.is_up = True
                if not self._opened:
                    self.roads.open(self.address, self.world.life)
                    self._opened = True
                self.roads.up(self.world.life)
            elif not self.roads.next_letter(*pair):
                self.roads.other(*pair)

    def lose_link(self) -> None:
        self.connected = self.is_up = False
        self.up.clear()
        self.down.clear()
        self.roads.down()

    # --- what the bus tells

    def letter(self, letter: Letter) -> None:
        self.world.delivered(self, letter)
        if letter.ticket is not None and int(letter.payload) % 2:
            self.roads.acknowledge(letter)

    def undelivered(self, letter_id: int, destination: str, why: str) -> None:
        self.world.tell(self, letter_id, "undelivered")

    def gone(self, address: str, unknown: tuple[int, ...], why: str) -> None:
        self.heard.append(f"gone {address}")
        for letter_id in unknown:
            self.world.tell(self, letter_id, "unknown")

    def link_lost(self, why: str) -> None:
        pass

    def acknowledged(self, letter_id: int) -> None:
        self.world.acknowledge(self, letter_id)


class World:
    """The broker, its table, and the promises."""

    def __init__(self, addresses: tuple[str, ...], room: int, *, loses_nacks: bool) -> None:
        self.now = 100.0
        self.life = 1
        self.is_up = True
        self.room = room
        self.loses_nacks = loses_nacks
        self.ids = itertools.count(1)
        self.streams = itertools.count(1000)
        self.sent: dict[int, tuple[SimPeer, str]] = {}
        self.got: dict[int, SimPeer] = {}
        self.told: dict[int, str] = {}
        self.acked: set[int] = set()
        self.last: dict[tuple[SimPeer, SimPeer], int] = {}
        self.holders: dict[str, SimPeer] = {}
        self._contacts: set[tuple[str, str]] = set()
        self._fences: Counter[tuple[SimPeer, bytes]] = Counter()
        self._nacks = itertools.count()
        self._absence = 0.0
        self.is_late = False
        """Whether somebody took so long to come back that others may have given up on it."""
        self.peers = {address: SimPeer(self, address) for address in addresses}

    # --- promises

    def delivered(self, peer: SimPeer, letter: Letter) -> None:
        number = int(letter.payload)
        sender, destination = self.sent[number]
        assert (letter.source, letter.destination) == (sender.address, destination)
        assert number not in self.got, "delivered twice"
        assert number not in self.told, f"delivered after its sender was told {self.told[number]}"
        assert self.last.get((sender, peer), 0) < number, "out of order"
        self.last[sender, peer] = number
        self.got[number] = peer

    def tell(self, peer: SimPeer, letter_id: int, what: str) -> None:
        assert self.sent[letter_id][0] is peer
        assert letter_id not in self.told, "told twice"
        assert letter_id not in self.acked
        assert what == "unknown" or letter_id not in self.got, "undelivered, but it was delivered"
        self.told[letter_id] = what

    def acknowledge(self, peer: SimPeer, letter_id: int) -> None:
        assert self.sent[letter_id][0] is peer
        assert letter_id in self.got
        assert letter_id not in self.acked
        assert letter_id not in self.told
        self.acked.add(letter_id)

    def check_the_end(self, survivors: set[SimPeer]) -> None:
        for number, (sender, destination) in self.sent.items():
            if not sender.alive:
                continue
            assert number in self.got or number in self.told, f"letter {number} to {destination} vanished"
            if not self.is_late and sender in survivors and self.peers[destination] in survivors:
                assert number in self.got, f"letter {number} was lost between two that lived"
                assert number not in self.told

    # --- the broker

    def connect(self, peer: SimPeer) -> None:
        if not self.is_up or peer.connected or not peer.alive:
            return
        former = self.holders.get(peer.address)
        if former is not None and former is not peer:
            self._release(former)
        self.holders[peer.address] = peer
        peer.connected = True
        peer.down.append(WELCOME)

    def route(self, peer: SimPeer, count: int) -> None:
        for _ in range(min(count, len(peer.up))):
            if self.is_up and peer.connected:
                self._pair(peer, *peer.up.popleft())

    def _pair(self, peer: SimPeer, frame: bytes, envelope: bytes) -> None:
        destination, source = wire.ends(frame)
        if not destination:
            fence = peer, wire.road(Gone.decode(wire.unseal(envelope).payload).address, source)
            self._fences[fence] = max(0, self._fences[fence] - 1)
            return
        target = self.holders.get(destination)
        if self._fences[peer, frame]:
            self._nack(peer, frame, envelope, "gone")
        elif target is None:
            self._nack(peer, frame, envelope, "unknown")
        elif not target.alive:
            self._nack(peer, frame, envelope, "gone")
        elif len(target.down) >= self.room:
            self._nack(peer, frame, envelope, "full")
        else:
            self._contacts |= {(source, destination), (destination, source)}
            target.down.append((frame, envelope))

    def _nack(self, peer: SimPeer, frame: bytes, envelope: bytes, code: str) -> None:
        if self.loses_nacks and code == "full" and next(self._nacks) % 3 == 0:
            return
        destination, source = wire.ends(frame)
        letter = wire.unseal(envelope)
        nack = Nack(destination, code, code, letter.kind).encode()
        peer.down.append((wire.road(source, ""), wire.seal(Kind.NACK, 0, letter.sequence, nack, stream=letter.stream)))

    def _release(self, peer: SimPeer) -> None:
        del self.holders[peer.address]
        for other in [other for address, other in self._contacts if address == peer.address]:
            holder = self.holders.get(other)
            if holder is not None:
                self._fences[holder, wire.road(peer.address, other)] += 1
                gone = wire.seal(Kind.GONE, 0, 0, Gone(peer.address, "killed").encode())
                holder.down.append((wire.road(other, ""), gone))
        self._contacts = {pair for pair in self._contacts if peer.address not in pair}

    # --- what happens

    def kill_broker(self, read: int) -> None:
        """Its peers still read some of what is in their pipes; all else is lost."""
        if not self.is_up:
            return
        self.is_up = False
        for peer in self.peers.values():
            if peer.connected:
                peer.read(read if peer.alive else 0)
                peer.lose_link()
        self.holders.clear()
        self._contacts.clear()
        self._fences.clear()

    def start_broker(self) -> None:
        if not self.is_up:
            self.is_up = True
            self.life += 1
            self._absence = 0.0

    def kill_peer(self, address: str, left: int) -> None:
        """Some of what it wrote is still read by the broker, before the others are told."""
        peer = self.peers[address]
        if peer.alive:
            peer.alive = False
            while len(peer.up) > left:
                peer.up.pop()

    def bury(self, address: str) -> None:
        """The broker reads a dead peer's last words, and tells."""
        peer = self.peers[address]
        if not peer.alive and self.holders.get(address) is peer:
            self.route(peer, len(peer.up))
            self._release(peer)

    def replace(self, address: str) -> None:
        if not self.peers[address].alive:
            self.peers[address] = SimPeer(self, address)
            self.connect(self.peers[address])

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        if self.is_up and not all(peer.is_up for peer in self.peers.values()):
            self._absence += seconds
            self.is_late = self.is_late or self._absence > GRACE * 0.75
        for peer in self.peers.values():
            if peer.alive:
                peer.tick()

    def settle(self) -> None:
        """Everybody is there and has time."""
        self.start_broker()
        for peer in self.peers.values():
            self.connect(peer)
        for _ in range(6000):
            if not any(peer.roads.departures.is_busy or peer.up or peer.down for peer in self.peers.values()):
                break
            for address, peer in self.peers.items():
                self.bury(address)
                self.connect(peer)
                self.route(peer, 1000)
                if peer.alive:
                    peer.read(1000)
            self.pass_time(0.05)
