"""A turn of the broker's loop at its ROUTER: who gets how much of it, and whose end it is. Who keeps the broker busy
waits for others (shares.py).
"""

import time
from collections import Counter
from typing import Final

import zmq

from partyctl_broker.commands import CLOSED, Commands
from partyctl_broker.exits import Exits
from partyctl_broker.forwarding import Forwarding
from partyctl_broker.large import LargeLetters
from partyctl_broker.lookout import Lookout
from partyctl_broker.offences import Offences
from partyctl_broker.router import Table
from partyctl_broker.sending import Sending
from partyctl_broker.shares import Shares
from partyctl_broker.steps import Event, Lost
from partyctl_broker.strangers import Strangers
from partyctl_broker.suspicion import Suspicion

BATCH: Final = 256
"""Messages routed before the loop looks at its other descriptors."""
STRETCH: Final = 100
"""Microseconds of work for busy ones in a row, while others have mail too."""
HEAVY: Final = 2 * STRETCH
"""The same for work that is done at once."""
RETRY: Final = 0.05
"""Seconds after which a full queue is tried again, should ZeroMQ not tell that there is room."""
_EVENTS = int(zmq.EVENTS)


class Routing:
    """Takes turns.

    Args:
        router: the socket.
        table: decides.
        lookout: knows the connections.
        counts: where what is dropped is counted, by reason.
    """

    def __init__(self, router: "zmq.Socket[bytes]", table: Table, lookout: Lookout, counts: Counter[str]) -> None:
        sending, offences, shares, large = Sending(router, counts), Offences(), Shares(), LargeLetters()
        commands = Commands(table, sending, lookout, offences, shares, counts)
        exits = Exits(table, commands, sending.words, lookout, offences, counts)
        strangers = Strangers(router, table, commands, lookout, exits, offences, shares, counts)
        self._forwarding = Forwarding(
            router, table, sending, commands, strangers, lookout.liveness, offences, shares, large, counts
        )
        self._router, self._lookout, self._liveness = router, lookout, lookout.liveness
        self._sending, self._words, self._commands, self._exits = sending, sending.words, commands, exits
        self._offences, self._shares, self._large = offences, shares, large
        self.suspicion = Suspicion(lookout, shares.spent, large)
        """What the guard of the memory needs."""

    @property
    def routed(self) -> int:
        """Pairs that went on."""
        return self._forwarding.forwarded + self._commands.forwarded

    def step(self, event: Event) -> None:
        """Tell the table of something that did not come by the socket."""
        self._commands.step(event)

    def turn(self, called: bool = True) -> float | None:
        """Route what is there, within bounds, and bury who is dead; for how many seconds there is nothing to do, None
        if that is until the socket calls.

        Args:
            called: the socket's descriptor is readable: somebody's first mail has come, or there is room in a queue.
        """
        forwarding, liveness, words, shares = self._forwarding, self._liveness, self._words, self._shares
        if liveness.suspects:
            liveness.probe(time.monotonic(), self._sending.is_reachable)
        if words.waiting:
            words.retry()
        empty = forwarding.drain(BATCH) if not shares.busy else self._drain_fairly(called)
        now = time.monotonic()
        suspicion = self.suspicion
        suspicion.seen.update(shares.spent)
        # ZeroMQ gives every connection that has mail its turn, so so many messages later all have had theirs.
        if empty or forwarding.read > len(self._lookout.crowd):
            forwarding.read = 0
            suspicion.rounds += 1
        shares.note(now)
        if self._offences:
            self._exits.judge(now)
        if self._large.senders:
            self._large.forget(now)
        over = liveness.over(now, empty) if liveness.suspects else ()
        for connection in over:
            self.step(Lost(connection, CLOSED))
        if words.deaf:
            self._exits.show_out_deaf(now)
            empty = False
        if empty and not over:  # what was said of the dead may have eaten a call
            return RETRY if words.waiting else None
        return shares.wait(now) if shares.busy else 0.0

    def _drain_fairly(self, called: bool) -> bool:
        """Route what is there, little of it for those who keep the broker busy; whether the socket was seen empty."""
        shares, notice, drain = self._shares, self._router.getsockopt, self._forwarding.drain
        busy, spent = shares.busy, shares.spent
        total: dict[bytes, int] = {}
        rests = shares.wait(time.monotonic()) > 0
        if rests and not called:
            return False
        stretch = 0 if rests else STRETCH
        # ZeroMQ takes all in turn, so after so many busy ones in a row nobody else has mail that it has noticed.
        row, rounds, worked = 0, len(busy) + 1, 0
        empty = False
        for number in range(1, BATCH + 1):
            notice(_EVENTS)  # makes ZeroMQ notice whose mail has come; a receive does only now and then
            empty = drain(1)
            if empty:
                break
            row += 1
            for connection, cost in spent.items():
                total[connection] = total.get(connection, 0) + cost
                if connection in busy:
                    worked += cost
                else:
                    row = 0
            spent.clear()
            if worked >= stretch and (row >= rounds or (worked >= HEAVY and number >= rounds)):
                break
        spent.update(total)
        shares.rest(worked, time.monotonic())
        return empty
