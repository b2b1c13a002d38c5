"""Asks the table, and carries out what it says."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from partyctl_broker.lookout import Lookout
from partyctl_broker.offences import Offences
from partyctl_broker.rivals import is_living
from partyctl_broker.router import Table
from partyctl_broker.sending import Sending
from partyctl_broker.shares import Shares
from partyctl_broker.sockets import hung_up
from partyctl_broker.steps import Arrived, Check, Command, Count, Cut, Event, Forward, Lost, Tell, Unsent

CLOSED: Final = "its connection is closed"
"""What is said of a peer whose connection ended."""


class Commands:
    """The table's hands.

    Args:
        table: decides.
        sending: sends.
        lookout: knows the connections.
        offences: what is held against whom.
        shares: learns who writes to whom.
        counts: where what is dropped is counted, by reason.
    """

    def __init__(
        self,
        table: Table,
        sending: Sending,
        lookout: Lookout,
        offences: Offences,
        shares: Shares,
        counts: Counter[str],
    ) -> None:
        self._table, self._sending, self._lookout = table, sending, lookout
        self._offences, self._shares, self._counts = offences, shares, counts
        self._words = sending.words
        self.keeps_words = False
        """Whether what the broker says waits until its words are sent, as more may be said to the same peers."""
        self.forwarded = 0
        """Pairs that went on by a command."""
        self._handlers: dict[type[Command], Callable[..., None]] = {
            Forward: self._forward,
            Tell: self._tell,
            Check: self._check,
            Cut: self._cut,
            Count: self._count,
        }

    def step(self, event: Event) -> None:
        """Tell the table, and carry out what it says."""
        for command in self._table.step(event):
            self._handlers[type(command)](command)
            if isinstance(command, Count) and command.offence and isinstance(event, Arrived | Unsent):
                self._offences.note(event.connection, command.offence)
        if not self.keeps_words:
            self._words.send()

    def bury(self, connection: bytes) -> None:
        """A connection is over."""
        self._lookout.liveness.forget(connection)
        self.step(Lost(connection, CLOSED))

    def _forward(self, command: Forward) -> None:
        self._words.send()
        code = self._sending.letter(command.target, (command.frame, command.envelope))
        if code:
            self.step(Unsent(command.origin, command.frame, command.envelope, code))
        else:
            self.forwarded += 1
            self._shares.wrote.setdefault(command.origin, set()).add(command.target)

    def _tell(self, command: Tell) -> None:
        self._words.say(command.target, command.frame, command.envelope)

    def _check(self, command: Check) -> None:
        self._lookout.read_monitor(time.monotonic())
        for rival in command.rivals:
            if not self._is_living(rival):
                self.bury(rival)
        event = command.event
        self.step(Arrived(event.connection, event.frame, event.envelope, settled=True, vouched=event.vouched))

    def _is_living(self, rival: bytes) -> bool:
        descriptor = self._lookout.liveness.descriptor(rival)
        return is_living(
            lambda: self._sending.is_reachable(rival), lambda: descriptor is not None and hung_up(descriptor)
        )

    def _cut(self, command: Cut) -> None:
        self._lookout.cut(command.connection, time.monotonic())

    def _count(self, command: Count) -> None:
        self._counts[command.what] += 1
