"""The broker's table: who is connected, who has which address, who wrote to whom; pure.

Rules:
 1. A connection is nobody until a HELLO binds it to a principal by its secret. Before that only a HELLO is heard.
 2. An address belongs to the connection that claimed it first, if a rule of its principal covers it. A second claimant
    is refused while the first one lives; the shell is asked to look (Check) before anybody is refused.
 3. The same incarnation on a new connection is the same peer: its old connection is over. What it has not said back of
    what it was told there it is told again.
 4. A letter goes through if its source belongs to the connection it came from and its destination belongs to anyone.
    Otherwise its sender gets a NACK: certainly not delivered.
 5. The first letter on a road opens a lane: (connection, address frame) -> connection. The shell forwards by the lane
    alone and opens no envelope. A lane is gone as soon as one of its two addresses is given up.
 6. When an address is given up, or its connection is lost, those who exchanged letters with it get a GONE.
 7. Whoever heard GONE says it back. Until then its letters to that address are refused: they may have been written
    before it knew, and must not reach the next holder of the address. That one is told that it inherits the address,
    as this table may end before they have heard.
 8. Until Settle, which comes a moment after the start, a letter to an address that nobody has is kept and not refused:
    after a restart its peer may be on its way back. Each Settle refuses SETTLE_MAX of what was kept; until all is
    refused, what goes the same ways waits behind it.
 9. Whatever cannot be understood is counted and dropped. Nothing a peer sends raises.

`step` is the only thing that changes the table. `lanes` is there for the shell to read.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from partyctl_broker import wire
from partyctl_broker.auth import Principal, Roll
from partyctl_broker.control import Bye, Gone, Hello, Nack, Refusal, Welcome
from partyctl_broker.errors import Malformed, VersionMismatch
from partyctl_broker.held import Held, Waiting
from partyctl_broker.offences import FORBIDDEN, GRAVE, MUTE, REFUSED, STRAY
from partyctl_broker.steps import (
    Admit,
    Arrived,
    Check,
    Command,
    Count,
    Cut,
    Event,
    Forget,
    Forward,
    Lost,
    Settle,
    Tell,
    Unsent,
)
from partyctl_broker.wire import Envelope, Kind

ADDRESSES_MAX: Final = 16_384
"""Addresses of one connection."""
LANES_MAX: Final = 65_536
"""Lanes of one connection."""

REASONS: Final = {
    "principal": "the principal is unknown, or its secret is wrong",
    "version": f"this broker speaks version {wire.VERSION} of the wire",
    "bound": "this connection already speaks for another principal or incarnation",
    "rule": "no rule of the principal covers the address",
    "taken": "a living peer has the address",
    "limit": f"a connection has at most {ADDRESSES_MAX} addresses and writes along at most {LANES_MAX} roads",
    "source": "the sender does not have the address it writes from",
    "unknown": "nobody has the address",
    "full": "its peer does not read and its queue is full",
    "gone": "its peer is gone",
}
"""The codes of a refusal and what each says to a person."""
OFFENCES: Final = {"source": GRAVE, "unknown": STRAY}
"""What a refused letter is held against its sender, by code."""
SETTLE_MAX: Final = 64
"""Letters that one Settle refuses."""
AWAY: Final = "it left while this peer was away"
"""What is said of an address again, to a peer that came back on another connection."""
KEPT: Final = "letters that waited for their address"
"""What those are counted as."""


@dataclass(slots=True)
class _Peer:
    """A connection that has said HELLO."""

    principal: str
    incarnation: bytes
    addresses: set[str] = field(default_factory=set)


class Table:
    """The state behind `step`. See the rules at the head of the module.

    Args:
        life: a number for this life of the broker, larger than that of any before.
        holding: keep letters to addresses that nobody has, until Settle.
    """

    def __init__(self, life: int = 0, *, holding: bool = False) -> None:
        self._life = life
        self._held = Held() if holding else None
        self._settling = False
        self._fences: dict[bytes, Counter[bytes]] = {}
        self._unheard: Counter[str] = Counter()
        self.lanes: dict[bytes, dict[bytes, bytes]] = {}
        """For each connection that has said HELLO: address frame -> connection of the destination. Read-only."""
        self.roll = Roll()
        """Who is vouched for. Read-only."""
        self._peers: dict[bytes, _Peer] = {}
        self._lives: dict[tuple[str, bytes], bytes] = {}
        self._holders: dict[str, bytes] = {}
        self._contacts: dict[str, set[str]] = {}

    @property
    def connections(self) -> int:
        """How many connections have said HELLO."""
        return len(self._peers)

    @property
    def addresses(self) -> int:
        """How many addresses are claimed."""
        return len(self._holders)

    def holder(self, address: str) -> bytes | None:
        """The connection that has the address."""
        return self._holders.get(address)

    def principal(self, connection: bytes | None) -> str:
        """Whom a connection speaks for; empty before its HELLO."""
        peer = self._peers.get(connection) if connection is not None else None
        return peer.principal if peer is not None else ""

    def contacts(self, address: str) -> frozenset[str]:
        """The addresses that exchanged letters with this one."""
        return frozenset(self._contacts.get(address, ()))

    def step(self, event: Event) -> list[Command]:
        """Take one event in; what the shell has to do, in this order."""
        match event:
            case Arrived():
                return list(self._arrived(event))
            case Unsent(connection, frame, envelope, code):
                return list(self._refuse_letter(connection, frame, envelope, code))
            case Lost(connection, why):
                return list(self._lose(connection, why))
            case Admit(principal):
                self.roll.add(principal)
                return []
            case Forget(name):
                return list(self._forget(name))
            case Settle():
                return list(self._settle())

    # --- what comes from connections

    def _arrived(self, event: Arrived) -> Iterator[Command]:
        peer = self._peers.get(event.connection)
        try:
            destination, source = wire.ends(event.frame)
            if destination and peer is not None:
                yield from self._letter(event, peer, destination, source)
            elif destination:
                yield Count("stranger", offence=MUTE)
            else:
                yield from self._control(event, peer)
        except VersionMismatch:
            yield from self._refuse_hello(event.connection, 0, "version")
        except Malformed:
            yield Count("malformed", offence=GRAVE)

    def _letter(self, event: Arrived, peer: _Peer, destination: str, source: str) -> Iterator[Command]:
        lanes = self.lanes[event.connection]
        target = self._holders.get(destination)
        code = ""
        if source not in peer.addresses:
            code = "source"
        elif event.frame in self._fences.get(event.connection, ()):
            code = "gone"
        elif target is None:
            code = "unknown"
        elif len(lanes) >= LANES_MAX:
            code = "limit"
        if code == "unknown" and self._keep(destination, event):
            yield Count(KEPT)
            return
        if code or target is None:
            yield from self._refuse_letter(event.connection, event.frame, event.envelope, code)
            return
        lanes[event.frame] = target
        self._contacts.setdefault(source, set()).add(destination)
        self._contacts.setdefault(destination, set()).add(source)
        yield Forward(target, event.connection, event.frame, event.envelope)

    def _control(self, event: Arrived, peer: _Peer | None) -> Iterator[Command]:
        envelope = wire.unseal(event.envelope)
        if envelope.kind == Kind.HELLO:
            yield from self._hello(event, envelope, Hello.decode(envelope.payload))
        elif peer is None:
            yield Count("stranger", offence=MUTE)
        elif envelope.kind == Kind.BYE:
            bye = Bye.decode(envelope.payload)
            given = peer.addresses.intersection(bye.addresses) if bye.addresses else peer.addresses
            yield from self._release(sorted(given), "it was closed")
        elif envelope.kind == Kind.GONE:
            self._unfence(event.connection, wire.road(Gone.decode(envelope.payload).address, wire.ends(event.frame)[1]))
        else:
            yield Count("unknown kind")

    # --- HELLO

    def _hello(self, event: Arrived, envelope: Envelope, hello: Hello) -> Iterator[Command]:
        connection, principal = event.connection, self.roll.get(hello.principal)
        peer = self._peers.get(connection)
        code = ""
        if hello.version != wire.VERSION:
            code = "version"
        elif principal is None or not self._is_proven(principal, event.vouched, hello, peer):
            code = "principal"
        elif peer is not None and (peer.principal, peer.incarnation) != (hello.principal, hello.incarnation):
            code = "bound"
        if code or principal is None:
            yield from self._refuse_hello(connection, envelope.sequence, code)
            return
        former = self._lives.get((hello.principal, hello.incarnation))
        if former is not None and former != connection:
            self._fences[connection] = self._fences.pop(former, Counter())
            yield from self._lose(former, "its peer came back on another connection")
        rivals = self._rivals(connection, principal, hello.claims)
        if rivals and not event.settled:
            yield Check(rivals, event)
            return
        is_new = peer is None
        if peer is None:
            peer = self._peers[connection] = _Peer(principal.name, hello.incarnation)
            self._lives[principal.name, hello.incarnation] = connection
            self.lanes[connection] = {}
        welcome = self._claim(connection, peer, principal, hello.claims)
        forbidden = sum(refusal.code == "rule" for refusal in welcome.refused.values())
        if forbidden:
            yield Count("claim refused: rule", offence=min(REFUSED, GRAVE + FORBIDDEN * (forbidden - 1)))
        yield Tell(connection, wire.TO_BROKER, wire.seal(Kind.WELCOME, 0, envelope.sequence, welcome.encode()))
        if is_new:
            yield from self._repeat_gone(connection)
        for address in welcome.claimed:
            yield from self._deliver_kept(address)

    def _is_proven(self, principal: Principal, vouched: str | None, hello: Hello, peer: _Peer | None) -> bool:
        if vouched is not None and vouched != principal.name:
            return False
        if principal.key:
            return vouched is not None or (peer is not None and peer.principal == principal.name)
        return principal.is_proven_by(hello.secret)

    def _rivals(self, connection: bytes, principal: Principal, claims: tuple[str, ...]) -> tuple[bytes, ...]:
        held = ((address, self._holders.get(address, connection)) for address in claims)
        return tuple(
            sorted({holder for address, holder in held if holder != connection and principal.may_claim(address)})
        )

    def _claim(self, connection: bytes, peer: _Peer, principal: Principal, claims: tuple[str, ...]) -> Welcome:
        claimed: list[str] = []
        refused: dict[str, Refusal] = {}
        for address in claims:
            code = ""
            if not principal.may_claim(address):
                code = "rule"
            elif self._holders.get(address, connection) != connection:
                code = "taken"
            elif len(peer.addresses) >= ADDRESSES_MAX and address not in peer.addresses:
                code = "limit"
            if code:
                refused[address] = Refusal(code, REASONS[code])
                continue
            peer.addresses.add(address)
            self._holders[address] = connection
            claimed.append(address)
        inherited = tuple(address for address in claimed if address in self._unheard)
        return Welcome(tuple(claimed), refused, self._life, inherited)

    def _refuse_hello(self, connection: bytes, sequence: int, code: str) -> Iterator[Command]:
        yield Count(f"hello refused: {code}", offence=REFUSED)
        nack = Nack("", code, REASONS[code])
        yield Tell(connection, wire.TO_BROKER, wire.seal(Kind.NACK, 0, sequence, nack.encode()))

    # --- letters that wait for the return of their address

    @property
    def is_settled(self) -> bool:
        """Whether no letter is kept any more."""
        return self._held is None

    def _keep(self, destination: str, event: Arrived) -> bool:
        if self._held is None or (self._settling and destination not in self._held):
            return False
        return self._held.keep(destination, Waiting(event.connection, event.frame, event.envelope))

    def _deliver_kept(self, address: str) -> Iterator[Command]:
        if self._held:
            for connection, frame, envelope in self._held.take(address):
                yield from self._arrived(Arrived(connection, frame, envelope))

    def _settle(self) -> Iterator[Command]:
        self._settling = True
        for connection, frame, envelope in self._held.take_some(SETTLE_MAX) if self._held else ():
            yield from self._refuse_letter(connection, frame, envelope, "unknown")
        if not self._held:
            self._held = None

    # --- letters that do not arrive, and peers that leave

    def _refuse_letter(self, connection: bytes, frame: bytes, envelope: bytes, code: str) -> Iterator[Command]:
        try:
            destination, source = wire.ends(frame)
            _, stream, sequence, *_ = letter = wire.unseal(envelope)
        except Malformed:
            yield Count("malformed", offence=GRAVE)
            return
        yield Count(f"letter refused: {code}", offence=OFFENCES.get(code, 0))
        nack = Nack(destination, code, REASONS[code], letter.kind)
        yield Tell(connection, wire.road(source, ""), wire.seal(Kind.NACK, 0, sequence, nack.encode(), stream=stream))

    def _lose(self, connection: bytes, why: str) -> Iterator[Command]:
        for frame, count in self._fences.pop(connection, Counter()).items():
            self._heard(frame, count)
        peer = self._peers.pop(connection, None)
        if peer is None:
            return
        del self.lanes[connection]
        del self._lives[peer.principal, peer.incarnation]
        yield from self._release(sorted(peer.addresses), why)

    def _forget(self, name: str) -> Iterator[Command]:
        self.roll.remove(name)
        bye = wire.seal(Kind.BYE, 0, 0, Bye((), f"the host no longer vouches for {name}").encode())
        for connection in [one for one, peer in self._peers.items() if peer.principal == name]:
            yield Tell(connection, wire.TO_BROKER, bye)
            yield from self._lose(connection, "its principal was revoked")
            yield Cut(connection)

    def _release(self, addresses: Iterable[str], why: str) -> Iterator[Command]:
        holders = {address: self._holders.pop(address) for address in addresses}
        for address, connection in holders.items():
            if connection in self._peers:
                self._peers[connection].addresses.discard(address)
            if self._held:
                self._held.drop_from(address)
            for other in sorted(self._contacts.pop(address, ())):
                self._forget_contact(other, address)
                self.lanes.get(connection, {}).pop(wire.road(other, address), None)
                holder = self._holders.get(other)
                if holder is not None:
                    self.lanes[holder].pop(wire.road(address, other), None)
                    self._fence(holder, wire.road(address, other))
                    gone = wire.seal(Kind.GONE, 0, 0, Gone(address, why).encode())
                    yield Tell(holder, wire.road(other, ""), gone)

    def _fence(self, connection: bytes, frame: bytes) -> None:
        fences = self._fences.setdefault(connection, Counter())
        if len(fences) < LANES_MAX:
            fences[frame] += 1
            self._unheard[wire.ends(frame)[0]] += 1

    def _repeat_gone(self, connection: bytes) -> Iterator[Command]:
        """What the former connection of a peer was told, and may not have heard: once, whatever it was told twice."""
        for frame, count in self._fences.get(connection, Counter()).items():
            self._heard(frame, count - 1)
            self._fences[connection][frame] = 1
            address, source = wire.ends(frame)
            gone = wire.seal(Kind.GONE, 0, 0, Gone(address, AWAY).encode())
            yield Tell(connection, wire.road(source, ""), gone)

    def _unfence(self, connection: bytes, frame: bytes) -> None:
        fences = self._fences.get(connection)
        if fences is None or frame not in fences:
            return
        self._heard(frame, 1)
        fences[frame] -= 1
        if not fences[frame]:
            del fences[frame]

    def _heard(self, frame: bytes, count: int) -> None:
        address = wire.ends(frame)[0]
        self._unheard[address] -= count
        if not self._unheard[address]:
            del self._unheard[address]

    def _forget_contact(self, address: str, other: str) -> None:
        contacts = self._contacts.get(address)
        if contacts is not None:
            contacts.discard(other)
            if not contacts:
                del self._contacts[address]
