"""Who is shown out, and how: its addresses are given up, its connection ends, and after an offence no new one of its
principal is let in for a while. An offender that has said HELLO hears why and for how long, and has a moment to read
it; what it writes meanwhile is dropped.
"""

import time
from collections import Counter
from typing import Final

from partyctl_broker import wire
from partyctl_broker.commands import Commands
from partyctl_broker.control import Bye
from partyctl_broker.lookout import Lookout
from partyctl_broker.offences import Offences
from partyctl_broker.router import Table
from partyctl_broker.steps import Lost
from partyctl_broker.wire import Kind
from partyctl_broker.words import Words

OFFENDS: Final = "it does not keep to the wire"
DEAF: Final = "it does not read"


class Exits:
    """The way out.

    Args:
        table: knows who speaks for whom.
        commands: tell the table.
        words: what the broker has to say.
        lookout: ends connections.
        offences: what is held against whom.
        counts: where who is shown out is counted, by reason.
    """

    def __init__(
        self,
        table: Table,
        commands: Commands,
        words: Words,
        lookout: Lookout,
        offences: Offences,
        counts: Counter[str],
    ) -> None:
        self._table, self._commands, self._words = table, commands, words
        self._lookout, self._offences, self._counts = lookout, offences, counts

    def judge(self, now: float) -> None:
        """Show those out who did too much of what no peer of ours does."""
        for connection in self._offences.judge(now):
            if connection in self._table.lanes:
                self._lookout.read_monitor(now)
                descriptor = self._lookout.liveness.descriptor(connection)
                self.expel(connection, descriptor, self._table.principal(connection))

    def expel(self, connection: bytes, descriptor: int | None, principal: str) -> None:
        """Show an offender out."""
        now = time.monotonic()
        self._offences.drop(connection)
        is_known = connection in self._table.lanes
        self._show_out(connection, OFFENDS)
        seconds = self._lookout.ban(principal, "", OFFENDS, now)
        if not is_known:
            self._lookout.cut_at_once(connection, descriptor, now)
            return
        bye = Bye((), f"the broker lets {principal} in again in {seconds:.3g} s: {OFFENDS}")
        self._words.say(connection, wire.TO_BROKER, wire.seal(Kind.BYE, 0, 0, bye.encode()))
        self._words.send()
        self._words.drop(connection)  # it is told if it reads at all
        self._lookout.cut(connection, now)

    def show_out_deaf(self, now: float) -> None:
        """Show those out who let too many of the broker's words wait."""
        while self._words.deaf:
            deaf = self._words.deaf.pop()
            self._show_out(deaf, DEAF)
            self._lookout.cut(deaf, now)

    def _show_out(self, connection: bytes, why: str) -> None:
        self._counts[f"shown out: {why}"] += 1
        self._commands.step(Lost(connection, why))
        self._words.drop(connection)
