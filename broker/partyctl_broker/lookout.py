"""Connections that come and go: who is let in, how many there are, who is over, whom to cut off.

ZeroMQ has no call that ends one connection of a ROUTER. But its descriptor is ours: shutting the socket down looks to
ZeroMQ like the peer's own leaving, and everything takes its usual way from there. Should the descriptor have been
given to another peer in that instant, that one reconnects and sends again.
"""

import contextlib
import select
import struct
from collections import Counter
from collections.abc import Callable
from typing import Final, cast

import zmq

from partyctl_broker.auth import Roll
from partyctl_broker.bans import Bans
from partyctl_broker.crowd import Crowd
from partyctl_broker.doors import Doors
from partyctl_broker.guard import Resident, return_memory
from partyctl_broker.liveness import Liveness
from partyctl_broker.sockets import cut_off, process
from partyctl_broker.zap import Gate, Verdict

CUT_DELAY: Final = 0.05
"""Seconds that a peer has to read what it was told before it is cut off."""
LEAVES: Final = 1.0
"""Seconds in which ZeroMQ hands over what a connection had sent before its end."""
TIDY_DELAY: Final = 0.2
"""Seconds after the beginning or the end of a connection when memory is given back."""
TIDY_OVER: Final = 48 * 1024 * 1024
"""Bytes of memory below which nothing is given back."""
_EVENT: Final = struct.Struct("=Hi")
_WAIT_NOT: Final = int(zmq.NOBLOCK)
_RCVMORE: Final = int(zmq.RCVMORE)
_ACCEPTED: Final = int(zmq.EVENT_ACCEPTED)
_DISCONNECTED: Final = int(zmq.EVENT_DISCONNECTED)
_SUCCEEDED: Final = int(zmq.EVENT_HANDSHAKE_SUCCEEDED)
_FAILURES: Final = {
    int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL): "handshake not finished",
    int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL): "handshake of a stranger",
    int(zmq.EVENT_HANDSHAKE_FAILED_AUTH): "",  # the gate has counted it
}
_EVENTS: Final = _ACCEPTED | _DISCONNECTED | _SUCCEEDED | sum(_FAILURES)


class Lookout:
    """Watches the connections of a ROUTER socket.

    Args:
        context: the context of the socket.
        router: the socket.
        doors: its endpoints.
        roll: who may come in.
        limit: how many descriptors this process may have.
        counts: where refusals are counted, by reason.
        report: told when the doors begin to be crowded.
    """

    def __init__(
        self,
        context: "zmq.Context[zmq.Socket[bytes]]",
        router: "zmq.Socket[bytes]",
        doors: Doors,
        roll: Roll,
        limit: int,
        counts: Counter[str],
        report: Callable[[str], None],
    ) -> None:
        self.liveness = Liveness()
        self.crowd = Crowd(limit)
        self.bans = Bans()
        self._doors, self._counts, self._report = doors, counts, report
        self._gate = Gate(context, roll)
        # A monitor that is full makes ZeroMQ's thread wait, which is what keeps it from accepting more connections than
        # there are descriptors. get_monitor_socket connects before a mark could be set.
        name = "inproc://monitor"
        router.monitor(name, _EVENTS)
        self._router = router
        self._monitor = context.socket(zmq.PAIR)
        self._monitor.setsockopt(zmq.RCVHWM, 1)
        self._monitor.connect(name)
        self._poll: select.epoll | None = None
        self._cuts: list[tuple[float, bytes, int]] = []
        self._leaving: dict[bytes, float] = {}
        self._crowded = False
        self._tidy_at: float | None = None
        self._resident = Resident()
        self.fresh: set[int] = set()
        """Descriptors of new connections, for whoever judged the one that had the descriptor before."""

    def watch(self, poll: select.epoll) -> None:
        """Register what has to wake the loop."""
        self._poll = poll
        poll.register(cast(int, self._monitor.getsockopt(zmq.FD)), select.EPOLLIN)
        poll.register(self._gate.fileno(), select.EPOLLIN)

    def close(self) -> None:
        """Watch no more."""
        self.read_monitor(0.0)  # it must not be full: ZeroMQ's thread would hold a lock that the next line takes
        self._router.disable_monitor()
        self._monitor.close(0)
        self._gate.close()

    def attend(self, now: float) -> None:
        """Read what happened, answer who wants in, open and shut doors. Costs 10 us if nothing happened."""
        self.read_monitor(now)
        banned = self.bans.names(now)
        self._count(self._gate.answer(crowded=self.crowd.is_full, banned=banned))
        if self._gate.is_worn and self.crowd.is_quiet(now) and self._poll is not None:
            self._poll.unregister(self._gate.fileno())
            self._count(self._gate.renew(crowded=self.crowd.is_full, banned=banned))
            self._poll.register(self._gate.fileno(), select.EPOLLIN)
            return_memory()
        self._mind_doors()

    def read_monitor(self, now: float) -> None:
        """Read what the monitor tells."""
        receive, option = self._monitor.recv, self._monitor.getsockopt
        with contextlib.suppress(zmq.Again):
            while True:
                event, value = _EVENT.unpack(receive(_WAIT_NOT))
                while option(_RCVMORE):
                    receive(_WAIT_NOT)
                self._note(event, value, now)

    def _note(self, event: int, value: int, now: float) -> None:
        if event == _ACCEPTED:
            self.crowd.accepted(value, now)
            self.fresh.add(value)
            if self.bans and process(value) in self.bans.names(now):
                cut_off(value)
            if self.crowd.is_overrun and not self._doors.are_shut:
                self._shut_doors()
        elif event == _DISCONNECTED:
            self.crowd.closed(value)
            self.liveness.disconnected(value, now)
        else:
            self.crowd.settled()
            if reason := _FAILURES.get(event):
                self._counts[reason] += 1
        # Handshakes that ran beside each other leave holes, and so does what a connection had gathered.
        if self._resident() > TIDY_OVER:
            self.tidy_later(now)

    def _count(self, verdicts: list[Verdict]) -> None:
        for verdict in verdicts:
            if verdict.why:
                self._counts[f"handshake refused: {verdict.why}"] += 1

    def _mind_doors(self) -> None:
        if self._doors.are_shut:
            self._counts["turned away"] += self._doors.turn_away()
            if not self.crowd.is_overrun:
                self._watch_doors(False)
                self._doors.reopen()
        elif self.crowd.is_overrun:
            self._shut_doors()
        if self.crowd.is_full and not self._crowded:
            self._report(f"descriptors run short: {len(self.crowd)} connections, no more than {self.crowd.most}")
        self._crowded = self.crowd.is_full

    def _shut_doors(self) -> None:
        self._counts["doors shut"] += 1
        self._doors.shut()
        self._watch_doors(True)

    def _watch_doors(self, watched: bool) -> None:
        for listener in self._doors.listeners():
            if self._poll is not None and watched:
                self._poll.register(listener, select.EPOLLIN)
            elif self._poll is not None:
                self._poll.unregister(listener)

    # --- cutting off

    def ban(self, principal: str, process_name: str, why: str, now: float) -> float:
        """Let nobody in who was shown out, for so many seconds; the host is told.

        Args:
            principal: empty if it never said HELLO.
            process_name: of the process behind its connection; empty if that is not known, or not to blame.
            why: what for.
            now: the time.
        """
        seconds = max(self.bans.add(name, why, now) for name in (principal, process_name))
        who = f"principal {principal}" if principal else process_name or "a peer that never said HELLO"
        self._report(f"{who} was shown out, for {seconds:.3g} s: {why}")
        return seconds

    def cut(self, connection: bytes, now: float) -> None:
        """End a connection, in a moment."""
        descriptor = self.liveness.descriptor(connection)
        if descriptor is not None:
            self._cuts.append((now + CUT_DELAY, connection, descriptor))
        self._leave(connection, now)

    def cut_at_once(self, connection: bytes, descriptor: int | None, now: float) -> None:
        """End a connection that has nothing to be told."""
        if descriptor is not None:
            cut_off(descriptor)
        self._leave(connection, now)

    def _leave(self, connection: bytes, now: float) -> None:
        self._leaving = {one: since for one, since in self._leaving.items() if now - since < LEAVES}
        self._leaving[connection] = now

    def is_leaving(self, connection: bytes) -> bool:
        """Whether it was ended just now, or will be in a moment: what still comes from it is of no interest."""
        return connection in self._leaving

    def tidy_later(self, now: float) -> None:
        """Give memory back, once ZeroMQ has freed what a handshake took or a connection had gathered."""
        if self._tidy_at is None:  # not later: an attack that is repeated would put it off for ever
            self._tidy_at = now + TIDY_DELAY

    @property
    def has_cuts(self) -> bool:
        """Whether a connection is to be ended, or its memory given back."""
        return bool(self._cuts) or self._tidy_at is not None

    def carry_out_cuts(self, now: float) -> None:
        """End the connections that are due, and give memory back."""
        if self._tidy_at is not None and self._tidy_at <= now:
            self._tidy_at = None
            return_memory()
        while self._cuts and self._cuts[0][0] <= now:
            _, connection, descriptor = self._cuts.pop(0)
            self.read_monitor(now)
            if self.liveness.descriptor(connection) == descriptor:
                cut_off(descriptor)

    def wait(self, now: float) -> float | None:
        """Seconds until something is due; None if nothing is."""
        due = [self._cuts[0][0] - now] if self._cuts else []
        if self._tidy_at is not None:
            due.append(self._tidy_at - now)
        probe = self.liveness.wait(now)
        if probe is not None:
            due.append(probe)
        return max(0.0, min(due)) if due else None
