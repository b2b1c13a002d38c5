"""How the broker reads and writes its ROUTER socket: messages whose lane is known go on as they came, the rest is asked
of the table, whose commands are carried out here.
"""

import errno
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, cast

import zmq

from partyctl_broker import wire
from partyctl_broker.lookout import Lookout, Suspicion, cut_off, unread_by_peer
from partyctl_broker.router import Table
from partyctl_broker.steps import Arrived, Check, Command, Count, Cut, Event, Forward, Lost, Tell, Unsent

BATCH: Final = 256
"""Messages routed before the loop looks at its other descriptors."""
BURST: Final = 4
"""Messages of one batch after which more are expected."""

LARGE: Final = 64 * 1024
"""Bytes of an envelope over which it is counted what waits for a peer; ZeroMQ's queues count messages alone."""
LARGE_MAX: Final = 8 * 1024 * 1024
"""Bytes of large envelopes that wait for a peer that does not read, before their senders get a NACK."""

# Plain numbers: each use of an enum member in an expression, or as an argument of the C socket, costs 1 to 2 us.
_WAIT_NOT = int(zmq.NOBLOCK)
_MORE = int(zmq.SNDMORE | zmq.NOBLOCK)
_RCVMORE = int(zmq.RCVMORE)
_READABLE = int(zmq.POLLIN)
_EVENTS = int(zmq.EVENTS)


class Routing:
    """The way of messages through the broker.

    Args:
        router: the socket.
        table: decides.
        lookout: knows the connections.
        counts: where what is dropped is counted, by reason.
    """

    def __init__(self, router: "zmq.Socket[bytes]", table: Table, lookout: Lookout, counts: Counter[str]) -> None:
        self._router, self._table, self._lookout, self._counts = router, table, lookout, counts
        self._liveness = lookout.liveness
        self.suspicion = Suspicion(lookout)
        """What the guard of the memory needs."""
        self._read = 0
        self._large: dict[bytes, int] = {}
        self.routed = 0
        """Pairs that went on."""
        # The bare methods of the C socket: the public ones add a Python call and a type check per frame.
        self._receive: Callable[[int], bytes] = router.recv
        self._option = cast(Callable[[int], int], router.getsockopt)
        self._send: Callable[[bytes, int], object] = super(zmq.Socket, router).send
        self._handlers: dict[type[Command], Callable[..., None]] = {
            Forward: self._forward,
            Tell: self._tell,
            Check: self._check,
            Cut: self._cut,
            Count: self._count,
        }

    def turn(self) -> bool:
        """Route what is there, within bounds, and bury who is dead; whether the socket was seen empty."""
        liveness = self._liveness
        if liveness.suspects:
            liveness.probe(time.monotonic(), self._is_reachable)
        empty = self._drain()
        # ZeroMQ gives every connection that has mail its turn, so so many messages later all have had theirs.
        self._read += BATCH
        if empty or self._read > len(self._lookout.crowd):
            self._read = 0
            self.suspicion.rounds += 1
        if liveness.suspects:
            for connection in liveness.over(time.monotonic(), empty):
                self.step(Lost(connection, "its connection is closed"))
        return empty

    # --- deaths

    def _is_reachable(self, connection: bytes) -> bool:
        self._option(_EVENTS)  # makes ZeroMQ look at what it has been told; a send looks only now and then
        return self._push(connection, (b"",)) != "gone"

    def _check(self, command: Check) -> None:
        self._lookout.read_monitor(time.monotonic())
        for rival in command.rivals:
            if not self._is_reachable(rival):
                self._liveness.forget(rival)
                self.step(Lost(rival, "its connection is closed"))
        event = command.event
        self.step(Arrived(event.connection, event.frame, event.envelope, settled=True, vouched=event.vouched))

    def _cut(self, command: Cut) -> None:
        self._lookout.cut(command.connection, time.monotonic())

    # --- routing

    def _drain(self) -> bool:
        """Route what is there, at most BATCH messages; whether the socket was seen empty."""
        receive, option, send, lanes = self._receive, self._option, self._send, self._table.lanes
        seen = self.suspicion.seen.add
        for number in range(BATCH):
            # Finding nothing raises, which costs 8 us, and asking 2 us. So a short burst asks, a long one does not.
            if 0 < number < BURST and not option(_EVENTS) & _READABLE:
                return True
            try:
                origin = receive(_WAIT_NOT)
            except zmq.Again:
                return True
            seen(origin)
            lane = lanes.get(origin)
            if lane is None:
                self._hear_stranger(origin)
                continue
            frame = receive(_WAIT_NOT)
            if not option(_RCVMORE):
                self._counts["malformed"] += 1
                continue
            envelope = receive(_WAIT_NOT)
            if option(_RCVMORE):
                self._route_many(origin, lane, frame, envelope)
                continue
            target = lane.get(frame)
            if target is None:
                self.step(Arrived(origin, frame, envelope))
                continue
            if len(envelope) > LARGE and not self._fits(target, len(envelope)):
                self.step(Unsent(origin, frame, envelope, "full"))
                continue
            try:
                send(target, _MORE)
                send(frame, _MORE)
                send(envelope, _WAIT_NOT)
                self.routed += 1
            except zmq.ZMQError as error:
                self.step(Unsent(origin, frame, envelope, _code(error)))
        return False

    def _fits(self, target: bytes, size: int) -> bool:
        """Whether a large envelope may go to a peer: it reads, or little waits for it."""
        descriptor = self._liveness.descriptor(target)
        if descriptor is None:
            return True
        waiting = self._large.get(target, 0) if unread_by_peer(descriptor) else 0
        if waiting and waiting + size > LARGE_MAX:
            return False
        if len(self._large) > len(self._table.lanes):
            self._large = {one: bytes_ for one, bytes_ in self._large.items() if one in self._table.lanes}
        self._large[target] = waiting + size
        return True

    def _route_many(self, origin: bytes, lane: dict[bytes, bytes], frame: bytes, envelope: bytes) -> None:
        """Route a message of several pairs; what goes to one connection leaves in one message."""
        frames = self._read_rest([frame, envelope])
        if frames is None:
            return
        groups: dict[bytes, list[bytes]] = {}
        for index in range(0, len(frames), 2):
            frame = frames[index]
            target = lane.get(frame)
            if target is None:
                # It may change the table, so what came before it leaves first.
                self._send_groups(origin, groups)
                groups = {}
                self.step(Arrived(origin, frame, frames[index + 1]))
                continue
            if len(frames[index + 1]) > LARGE and not self._fits(target, len(frames[index + 1])):
                self.step(Unsent(origin, frame, frames[index + 1], "full"))
                continue
            group = groups.get(target)
            if group is None:
                groups[target] = frames[index : index + 2]
            else:
                group += frames[index : index + 2]
        self._send_groups(origin, groups)

    def _read_rest(self, frames: list[bytes]) -> list[bytes] | None:
        """The frames of the message that is being read, all of them; None if it has no form or is too long."""
        limit = 2 * wire.PAIRS_MAX
        count = len(frames)
        while self._option(_RCVMORE):
            frame = self._receive(_WAIT_NOT)
            count += 1
            if count <= limit:
                frames.append(frame)
        if count > limit or count % 2:
            self._counts["oversized" if count > limit else "malformed"] += 1
            return None
        return frames

    def _send_groups(self, origin: bytes, groups: dict[bytes, list[bytes]]) -> None:
        for target, group in groups.items():
            code = self._push(target, group)
            if not code:
                self.routed += len(group) // 2
                continue
            for index in range(0, len(group), 2):
                self.step(Unsent(origin, group[index], group[index + 1], code))

    def _hear_stranger(self, origin: bytes) -> None:
        """The first message of a connection: read in frames that know the descriptor they came by."""
        first = self._router.recv(_WAIT_NOT, copy=False)
        frames = self._read_rest([first.bytes])
        if frames is None:
            return
        if not _is_automatic(origin):
            self._counts["chosen routing id"] += 1
            cut_off(int(first.get(zmq.SRCFD)))
            return
        lanes, vouched = self._table.lanes, str(first.get("User-Id"))
        for index in range(0, len(frames), 2):
            self.step(Arrived(origin, frames[index], frames[index + 1], vouched=vouched))
        if origin in lanes:
            former = self._liveness.met(origin, int(first.get(zmq.SRCFD)))
            if former is not None:
                self._liveness.forget(former)
                self.step(Lost(former, "its connection is closed"))

    # --- commands of the table

    def step(self, event: Event) -> None:
        """Tell the table, and carry out what it says."""
        for command in self._table.step(event):
            self._handlers[type(command)](command)

    def _forward(self, command: Forward) -> None:
        code = self._push(command.target, (command.frame, command.envelope))
        if code:
            self.step(Unsent(command.origin, command.frame, command.envelope, code))
        else:
            self.routed += 1

    def _tell(self, command: Tell) -> None:
        code = self._push(command.target, (command.frame, command.envelope))
        if code:
            self._counts[f"broker's word not delivered: {code}"] += 1

    def _count(self, command: Count) -> None:
        self._counts[command.what] += 1

    def _push(self, target: bytes, frames: "list[bytes] | tuple[bytes, ...]") -> str:
        """Send without waiting; the empty string, or why not. All frames or none are sent."""
        send = self._send
        try:
            send(target, _MORE)
            for frame in frames[:-1]:
                send(frame, _MORE)
            send(frames[-1], _WAIT_NOT)
        except zmq.ZMQError as error:
            return _code(error)
        return ""


def _is_automatic(connection: bytes) -> bool:
    """Whether the ROUTER made this routing id itself. A peer that chose its own could wait for another's to be free."""
    return len(connection) == 5 and connection[0] == 0


def _code(error: zmq.ZMQError) -> str:
    return "full" if error.errno == errno.EAGAIN else "gone"
