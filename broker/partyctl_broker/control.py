"""What a peer and the broker say to each other: the payloads of HELLO, WELCOME, BYE, GONE and NACK, msgpack maps; pure.

A reader ignores keys it does not know. Every `decode` raises Malformed on anything else that is not as written here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgpack

from partyctl_broker.errors import AddressForbidden, AddressRefused, AddressTaken, LetterRefused, Malformed
from partyctl_broker.wire import UNPACK_ERRORS, VERSION, check_address, is_count

CLAIMS_MAX: Final = 1024
"""Addresses in one HELLO or BYE."""


def unpack_map(payload: bytes) -> dict[str, object]:
    """The map in a payload. Raises Malformed."""
    try:
        content = msgpack.unpackb(payload)
    except UNPACK_ERRORS as error:
        raise Malformed("a control payload is not msgpack", why=str(error)) from error
    if not isinstance(content, dict):
        raise Malformed("a control payload is not a map")
    return content


def _text(content: Mapping[str, object], key: str) -> str:
    value = content.get(key)
    if not isinstance(value, str):
        raise Malformed(f"a control payload has no text {key!r}")
    return value


def _bytes(content: Mapping[str, object], key: str) -> bytes:
    value = content.get(key)
    if not isinstance(value, bytes):
        raise Malformed(f"a control payload has no bytes {key!r}")
    return value


def _count(content: Mapping[str, object], key: str) -> int:
    value = content.get(key)
    if not isinstance(value, int) or not is_count(value):
        raise Malformed(f"a control payload has no number {key!r}")
    return value


def _addresses(content: Mapping[str, object], key: str) -> tuple[str, ...]:
    value = content.get(key)
    if not isinstance(value, list) or len(value) > CLAIMS_MAX:
        raise Malformed(f"a control payload has no list of at most {CLAIMS_MAX} addresses {key!r}")
    for address in value:
        if not isinstance(address, str):
            raise Malformed("an address in a control payload is not text")
        try:
            check_address(address)
        except LetterRefused as error:
            raise Malformed("an address in a control payload is none") from error
    return tuple(value)


@dataclass(frozen=True, slots=True)
class Hello:
    """A peer names itself and what it claims; said again, it claims more.

    Args:
        principal: who it acts for.
        secret: what proves it, 32 bytes.
        incarnation: 16 random bytes that name this life of the peer; whoever knows them is that peer.
        claims: addresses.
        version: the version of the wire it speaks.
    """

    principal: str
    secret: bytes = field(repr=False)
    incarnation: bytes = field(repr=False)
    claims: tuple[str, ...] = ()
    version: int = VERSION

    def encode(self) -> bytes:
        content = {
            "principal": self.principal,
            "secret": self.secret,
            "incarnation": self.incarnation,
            "version": self.version,
            "claims": self.claims,
        }
        return bytes(msgpack.packb(content))

    @staticmethod
    def decode(payload: bytes) -> "Hello":
        """Raises Malformed."""
        content = unpack_map(payload)
        version = content.get("version")
        if type(version) is not int:
            raise Malformed("a HELLO has no version")
        incarnation = _bytes(content, "incarnation")
        if not 1 <= len(incarnation) <= 64:
            raise Malformed("a HELLO's incarnation is not 1 to 64 bytes")
        return Hello(
            principal=_text(content, "principal"),
            secret=_bytes(content, "secret"),
            incarnation=incarnation,
            claims=_addresses(content, "claims"),
            version=version,
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something was refused: a code for programs, a sentence for people."""

    code: str
    why: str

    def error(self, address: str) -> AddressRefused:
        """The same as an error, for whoever wanted the address."""
        kinds = {"taken": AddressTaken, "rule": AddressForbidden}
        return kinds.get(self.code, AddressRefused)("this address cannot be opened", where=address, why=self.why)


@dataclass(frozen=True, slots=True)
class Welcome:
    """The broker's answer to a HELLO it accepts.

    Args:
        claimed: which of its claims hold.
        refused: which do not, and why.
        life: a number for this life of the broker, larger than that of any before: when it started, in nanoseconds.
        inherited: which of the claimed had a holder before, of whose end not everybody is known to have heard.
    """

    claimed: tuple[str, ...] = ()
    refused: Mapping[str, Refusal] = field(default_factory=dict)
    life: int = 0
    inherited: tuple[str, ...] = ()

    def since(self, address: str) -> int:
        """The life of the broker from which on letters to a claimed address may be meant for this holder. Should the
        broker die before all have heard, they send their letters again, which were for the holder before."""
        return self.life + (address in self.inherited)

    def encode(self) -> bytes:
        refused = {address: (refusal.code, refusal.why) for address, refusal in self.refused.items()}
        content = {"version": VERSION, "claimed": self.claimed, "refused": refused, "life": self.life}
        if self.inherited:
            content["inherited"] = self.inherited
        return bytes(msgpack.packb(content))

    @staticmethod
    def decode(payload: bytes) -> "Welcome":
        """Raises Malformed."""
        content = unpack_map(payload)
        raw = content.get("refused")
        if not isinstance(raw, dict):
            raise Malformed("a WELCOME has no map of refusals")
        refused: dict[str, Refusal] = {}
        for address, reason in raw.items():
            if not (isinstance(address, str) and isinstance(reason, list) and len(reason) == 2):
                raise Malformed("a refusal in a WELCOME is not an address, a code and a reason")
            refused[address] = Refusal(str(reason[0]), str(reason[1]))
        inherited = _addresses(content, "inherited") if "inherited" in content else ()
        return Welcome(_addresses(content, "claimed"), refused, _count(content, "life"), inherited)


@dataclass(frozen=True, slots=True)
class Nack:
    """What the envelope asked for was not done. Its stream is in the stream of the header, its sequence in the
    correlation.

    Args:
        destination: where it was to go; empty if it was a HELLO.
        code: one of the codes of the broker's table, or of the receiving end's streams.
        why: the same for people.
        kind: the kind of the envelope.
    """

    destination: str
    code: str
    why: str
    kind: int = 0

    def encode(self) -> bytes:
        content = {"destination": self.destination, "code": self.code, "why": self.why, "kind": self.kind}
        return bytes(msgpack.packb(content))

    @staticmethod
    def decode(payload: bytes) -> "Nack":
        """Raises Malformed."""
        content = unpack_map(payload)
        return Nack(
            _text(content, "destination"), _text(content, "code"), _text(content, "why"), _count(content, "kind")
        )


@dataclass(frozen=True, slots=True)
class Gone:
    """The peer behind an address is gone. `unknown` lists sequences that may or may not have arrived.

    The broker keeps the road to the address closed until the one it told says the same GONE back, from its own address:
    what was under way when the two crossed must not reach the next holder of the address.
    """

    address: str
    why: str
    unknown: tuple[int, ...] = ()

    def encode(self) -> bytes:
        return bytes(msgpack.packb({"address": self.address, "why": self.why, "unknown": self.unknown}))

    @staticmethod
    def decode(payload: bytes) -> "Gone":
        """Raises Malformed."""
        content = unpack_map(payload)
        unknown = content.get("unknown")
        if not isinstance(unknown, list) or not all(is_count(number) for number in unknown):
            raise Malformed("a GONE has no list of sequences")
        return Gone(_text(content, "address"), _text(content, "why"), tuple(unknown))


@dataclass(frozen=True, slots=True)
class Bye:
    """A peer gives addresses up (all it has, if it names none), or the broker shows a peer out and says why."""

    addresses: tuple[str, ...] = ()
    why: str = ""

    def encode(self) -> bytes:
        return bytes(msgpack.packb({"addresses": self.addresses, "why": self.why}))

    @staticmethod
    def decode(payload: bytes) -> "Bye":
        """Raises Malformed."""
        content = unpack_map(payload)
        return Bye(_addresses(content, "addresses"), _text(content, "why"))
