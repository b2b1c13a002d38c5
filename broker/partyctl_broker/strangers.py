"""Messages of connections that have not said HELLO."""

from collections import Counter

import zmq

from partyctl_broker.commands import Commands
from partyctl_broker.exits import Exits
from partyctl_broker.frames import read_rest
from partyctl_broker.lookout import Lookout
from partyctl_broker.offences import GRAVE, STRANGE, STRANGE_BYTES, Offences
from partyctl_broker.router import Table
from partyctl_broker.shares import ASKED, HELLO_BYTES, Shares
from partyctl_broker.sockets import cut_off
from partyctl_broker.steps import Arrived

_WAIT_NOT = int(zmq.NOBLOCK)


class Strangers:
    """Hears them.

    Args:
        router: where they come in.
        table: knows who is no stranger.
        commands: ask the table.
        lookout: knows the connections.
        exits: where those go who behave badly.
        offences: what is held against whom.
        shares: whose work it is.
        counts: where what is dropped is counted, by reason.
    """

    def __init__(
        self,
        router: "zmq.Socket[bytes]",
        table: Table,
        commands: Commands,
        lookout: Lookout,
        exits: Exits,
        offences: Offences,
        shares: Shares,
        counts: Counter[str],
    ) -> None:
        self._router, self._lanes, self._commands, self._lookout = router, table.lanes, commands, lookout
        self._exits, self._offences, self._shares, self._counts = exits, offences, shares, counts

    def hear(self, origin: bytes) -> None:
        """Read the message of which the routing id has been read; in frames that know the descriptor they came by."""
        first = self._router.recv(_WAIT_NOT, copy=False)
        descriptor = int(first.get(zmq.SRCFD))
        vouched = str(first.get("User-Id"))
        frames = read_rest(self._router, [first.bytes], self._counts)
        if self._lookout.is_leaving(origin):
            return
        if frames is None:
            self._offences.note(origin, GRAVE)
        elif not _is_automatic(origin):
            self._counts["chosen routing id"] += 1
            cut_off(descriptor)
            origin = vouched.encode()  # as each connection may choose another
            self._offences.note(origin, STRANGE)
        else:
            self._meet(origin, descriptor, frames, vouched)
        if self._offences.is_over(origin) and origin not in self._lanes:
            self._exits.expel(origin, descriptor, vouched)

    def _meet(self, origin: bytes, descriptor: int, frames: list[bytes], vouched: str) -> None:
        for index in range(0, len(frames), 2):
            self._shares.charge(origin, ASKED + len(frames[index + 1]) // HELLO_BYTES)
            self._commands.step(Arrived(origin, frames[index], frames[index + 1], vouched=vouched))
            if origin not in self._lanes:  # what else it says is of no interest
                self._offences.note(origin, STRANGE + len(frames[index + 1]) // STRANGE_BYTES)
                break
        if origin in self._lanes:
            former = self._lookout.liveness.met(origin, descriptor)
            if former is not None:
                self._commands.bury(former)


def _is_automatic(connection: bytes) -> bool:
    """Whether the ROUTER made this routing id itself. A peer that chose its own could wait for another's to be free."""
    return len(connection) == 5 and connection[0] == 0
