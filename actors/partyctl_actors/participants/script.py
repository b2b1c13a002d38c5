"""A role that says fixed lines."""

from __future__ import annotations

from collections.abc import Sequence

from partyctl_actors.errors import SessionError
from partyctl_actors.participants.conformity import fits, labels
from partyctl_actors.participants.interface import BasePlayer, Offer, Seat
from partyctl_actors.protocol.conformance import Lines
from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.protocol import Protocol
from partyctl_actors.protocol.role import Role
from partyctl_actors.transcript import Envelope


class Script:
    """Says these messages, in order. Every run and role begins at the first line; lines left over are no fault.

    Args:
        lines: the messages.

    Raises:
        TypeError: a line is not a message.
    """

    def __init__(self, lines: Sequence[Message]) -> None:
        self.lines = tuple(lines)
        for line in self.lines:
            if not isinstance(line, Message):
                raise TypeError(f"a line of a Script is a message such as Ticket('q'), not {line!r}")

    def check(self, protocol: Protocol, role: Role) -> None:
        """See `Checked.check`: the lines can be said in this order."""
        check_lines(protocol, role, self.lines)

    def bind(self, seat: Seat) -> _Reader:
        """See `Participant.bind`."""
        return _Reader(self.lines)

    def __repr__(self) -> str:
        return f"Script({list(self.lines)!r})"


def check_lines(protocol: Protocol, role: Role, lines: Sequence[Message]) -> None:
    """See that a role can say these lines, in this order.

    Raises:
        ConformanceError: it cannot.
    """
    labels(protocol, role, (type(line) for line in lines), "the lines")
    fits(protocol, role, Lines(tuple(line.label for line in lines)))


class _Reader(BasePlayer):
    def __init__(self, lines: tuple[Message, ...]) -> None:
        self._lines = lines
        self._next = 0

    def author(self, offer: Offer) -> Message:
        if self._next == len(self._lines):
            raise SessionError(
                "The script has no line left",
                where=str(offer.role),
                why=f"all {len(self._lines)} were said; asked for {' or '.join(m.label for m in offer.messages)}",
                fix="Give the Script a line for each time the role speaks",
            )
        line = self._lines[self._next]
        self._next += 1
        return line

    def recall(self, envelope: Envelope) -> None:
        # A recalled line was spoken: a resumed run goes on behind it.
        self._next = min(self._next + 1, len(self._lines))
