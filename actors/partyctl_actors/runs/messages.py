"""The messages between a conductor and its role actors: MessagePack maps with the key "t" for the kind.

conductor -> role:  welcome, grant, deliver, recalled, cancel, end
role -> conductor:  join, sent, failed, cancelled

A message's own fields travel packed (`payloads`), so that a conductor forwards them as they came. Within one process
the message may ride along as it is (`message`), if it is plain; it never travels.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TypeAlias

import msgpack

from partyctl_actors.protocol.message import Message
from partyctl_base.errors import PartyError


class Malformed(PartyError):
    """Bytes that no conductor or role actor of this version sends."""

    whose = "peer"


@dataclass(slots=True)
class Join:
    """A role is in its place, and follows this protocol."""

    protocol: str


@dataclass(slots=True)
class Welcome:
    """Every role is in its place; the run begins."""


@dataclass(slots=True)
class Grant:
    """It is this role's turn to speak: `within` so many seconds, None is no limit."""

    turn: int
    within: float | None


@dataclass(slots=True)
class Sent:
    """What the role says in its turn, and the tokens that it cost."""

    turn: int
    receiver: str
    label: str
    payload: bytes
    tokens: int
    message: Message | None = None


@dataclass(slots=True)
class Deliver:
    """Something was said to this role. If that makes it its turn, the grant rides along: `granted` and `within`."""

    turn: int
    sender: str
    label: str
    payload: bytes
    granted: bool
    within: float | None
    message: Message | None = None


@dataclass(slots=True)
class Recalled:
    """What this role said in an earlier life of the run; it is not asked again."""

    turn: int
    receiver: str
    label: str
    payload: bytes


@dataclass(slots=True)
class Cancel:
    """The run stops here; stop your work and confirm."""

    reason: str


@dataclass(slots=True)
class Cancelled:
    """The role's work has stopped."""


@dataclass(slots=True)
class End:
    """The run is complete."""


@dataclass(slots=True)
class Failed:
    """The role cannot go on. `why` and its neighbours are the parts of an error of ours, else empty.

    `at` is the line of the user's code that it came from, "" if it came from none.
    """

    turn: int
    error: str
    text: str
    what: str
    where: str
    why: str
    fix: str
    at: str = ""


ToRole: TypeAlias = Welcome | Grant | Deliver | Recalled | Cancel | End
ToConductor: TypeAlias = Join | Sent | Failed | Cancelled
RunMessage: TypeAlias = ToRole | ToConductor

_number = (int,)
_seconds = (float, int, type(None))
_text = (str,)
_bytes = (bytes,)
_Fields: TypeAlias = dict[str, tuple[type, ...]]

# Kind -> class and, in the order of the class, its fields with the types that each may have.
_KINDS: dict[str, tuple[type[RunMessage], _Fields]] = {
    "join": (Join, {"protocol": _text}),
    "welcome": (Welcome, {}),
    "grant": (Grant, {"turn": _number, "within": _seconds}),
    "sent": (Sent, {"turn": _number, "receiver": _text, "label": _text, "payload": _bytes, "tokens": _number}),
    "deliver": (
        Deliver,
        {
            "turn": _number,
            "sender": _text,
            "label": _text,
            "payload": _bytes,
            "granted": (bool,),
            "within": _seconds,
        },
    ),
    "recalled": (Recalled, {"turn": _number, "receiver": _text, "label": _text, "payload": _bytes}),
    "cancel": (Cancel, {"reason": _text}),
    "cancelled": (Cancelled, {}),
    "end": (End, {}),
    "failed": (
        Failed,
        {"turn": _number, **dict.fromkeys(("error", "text", "what", "where", "why", "fix", "at"), _text)},
    ),
}
_NAMES: dict[type[RunMessage], str] = {kind: name for name, (kind, _) in _KINDS.items()}
# All rows of types that the fields of a kind may have: one look-up instead of a check per field, because this is done
# four times for every message that is said. Types are compared exactly: True is no number here.
_ROWS: dict[str, frozenset[tuple[type, ...]]] = {
    name: frozenset(itertools.product(*fields.values())) for name, (_, fields) in _KINDS.items()
}


def encode(message: RunMessage) -> bytes:
    """The bytes of a message."""
    name = _NAMES[type(message)]
    fields = {"t": name} | {field: getattr(message, field) for field in _KINDS[name][1]}
    packed = msgpack.packb(fields, unicode_errors="surrogatepass")
    assert isinstance(packed, bytes)
    return packed


def decode(data: bytes) -> RunMessage:
    """The message that these bytes are.

    Raises:
        Malformed: they are none.
    """
    try:
        found = msgpack.unpackb(data, unicode_errors="surrogatepass")
    except (ValueError, msgpack.exceptions.UnpackException) as error:
        raise Malformed("A message of the run cannot be read", why=str(error)) from error
    name = found.get("t") if isinstance(found, dict) else None
    if not isinstance(name, str) or name not in _KINDS:
        raise Malformed("A message of the run cannot be read", why="it is of no known kind")
    kind, fields = _KINDS[name]
    values = [found.get(field) for field in fields]
    if tuple(map(type, values)) not in _ROWS[name]:
        wrong = next(field for field, value in zip(fields, values, strict=True) if type(value) not in fields[field])
        raise Malformed(
            f"A message of the run cannot be read: {name}", where=wrong, why=f"got {found.get(wrong)!r:.80}"
        )
    return kind(*values)
