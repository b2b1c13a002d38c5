"""What was said in a run: envelopes, in the order in which they were delivered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar, overload

from partyctl_actors.payloads import pack, unpack
from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.role import Role

M = TypeVar("M", bound=Message)

Row: TypeAlias = tuple[str, str, str, bytes]
"""Sender, receiver, label and packed fields of one delivered message."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message with the roles it went between."""

    sender: Role
    receiver: Role
    message: Message

    @property
    def label(self) -> str:
        """The label of the message."""
        return self.message.label

    @property
    def payload(self) -> dict[str, object]:
        """The fields of the message, in their wire form."""
        return self.message.to_wire()

    def __str__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.payload.items())
        return f"{self.sender} -> {self.receiver}: {self.label}({fields})"


class Log:
    """The growing record behind transcripts. Append only, so a snapshot of it costs nothing.

    Rows hold names and bytes alone: the garbage collector stops tracking such tuples, so a long run does not slow down.

    Args:
        messages: the protocol's message classes by label.
    """

    def __init__(self, messages: Mapping[str, type[Message]]) -> None:
        self.messages = messages
        self.rows: list[Row] = []

    def append(self, sender: str, receiver: str, label: str, payload: bytes) -> None:
        """Add a delivered message. `payload` was checked against its class."""
        self.rows.append((sender, receiver, label, payload))

    def add(self, envelope: Envelope) -> None:
        """Add a delivered message."""
        message = envelope.message
        self.append(envelope.sender.name, envelope.receiver.name, message.label, pack(message.to_wire()))

    def snapshot(self) -> Transcript:
        """What was delivered so far."""
        return Transcript(self, len(self.rows))


class Transcript(Sequence[Envelope]):
    """A sequence of delivered envelopes, in canonical order. Made by a run; it never changes.

    Two transcripts are equal if the same messages went between the same roles in the same order.
    """

    __slots__ = ("_length", "_log")

    def __init__(self, log: Log, length: int) -> None:
        self._log = log
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Envelope]:
        return (self._envelope(row) for row in self._rows())

    @overload
    def __getitem__(self, index: int) -> Envelope: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Envelope, ...]: ...
    def __getitem__(self, index: int | slice) -> Envelope | tuple[Envelope, ...]:
        places = range(self._length)[index]
        if isinstance(places, range):
            return tuple(self._envelope(self._log.rows[place]) for place in places)
        return self._envelope(self._log.rows[places])

    @property
    def messages(self) -> tuple[type[Message], ...]:
        """The class of each message, in order."""
        return tuple(self._log.messages[label] for _, _, label, _ in self._rows())

    @property
    def ended_at(self) -> Role | None:
        """The receiver of the last message; None if nothing was delivered."""
        return Role(self._log.rows[self._length - 1][1]) if self._length else None

    def last(self, kind: type[M]) -> M | None:
        """The newest message of class `kind`, or None."""
        for place in range(self._length - 1, -1, -1):
            row = self._log.rows[place]
            if issubclass(self._log.messages[row[2]], kind):
                message = self._envelope(row).message
                assert isinstance(message, kind)
                return message
        return None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Transcript):
            return NotImplemented
        return self._length == other._length and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    def __repr__(self) -> str:
        return f"<Transcript of {self._length} envelopes>"

    def _rows(self) -> Iterator[Row]:
        rows = self._log.rows
        return (rows[place] for place in range(self._length))

    def _envelope(self, row: Row) -> Envelope:
        sender, receiver, label, payload = row
        return Envelope(Role(sender), Role(receiver), self._log.messages[label].from_wire(unpack(payload)))
