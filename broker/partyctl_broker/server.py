"""The broker's shell: one thread, one ROUTER socket, one loop. What happens is decided in the table (router.py).

The loop sleeps in epoll (over the descriptors of the ROUTER, its monitor, the gate of its handshakes, the host's
control channel, and whatever else ends it) without a timeout, so that an idle broker costs nothing. A message whose
lane is known is forwarded as it came. Sends never wait: one peer that does not read must not stall the others
(measured: a blocking send stalled strangers for 12 s), and what cannot be sent is told to its sender.
"""

import errno
import os
import select
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, cast

import zmq

from partyctl_base.channel import Channel
from partyctl_broker import wire
from partyctl_broker.auth import Principal
from partyctl_broker.doors import Doors
from partyctl_broker.errors import EndpointError, Malformed, MemoryExceeded
from partyctl_broker.host import Host
from partyctl_broker.keys import KeyPair
from partyctl_broker.lookout import Lookout, cut_off
from partyctl_broker.router import Table
from partyctl_broker.steps import (
    Admit,
    Arrived,
    Check,
    Command,
    Count,
    Cut,
    Event,
    Forget,
    Forward,
    Lost,
    Settle,
    Tell,
    Unsent,
)

BATCH: Final = 256
"""Messages routed before the loop looks at its other descriptors."""
BURST: Final = 4
"""Messages of one batch after which more are expected."""
HOLD: Final = 2.0
"""Seconds after the start during which a letter to an address that nobody has is kept."""

# Plain numbers: each use of an enum member in an expression, or as an argument of the C socket, costs 1 to 2 us.
_WAIT_NOT = int(zmq.NOBLOCK)
_MORE = int(zmq.SNDMORE | zmq.NOBLOCK)
_RCVMORE = int(zmq.RCVMORE)
_READABLE = int(zmq.POLLIN)
_EVENTS = int(zmq.EVENTS)


class Broker:
    """Routes until told to stop.

    Args:
        endpoint: where local peers connect, ipc.
        control: the channel to the host.
        ends: descriptors that end the broker when they become readable (the host's pidfd).
        wake: a descriptor that only interrupts its sleep; signals write to it.
        descriptors: how many this process may have.
        hold: seconds after the start during which letters wait for the return of their address.
    """

    def __init__(
        self,
        endpoint: str,
        control: Channel,
        ends: tuple[int, ...] = (),
        *,
        wake: int = -1,
        descriptors: int = 1024,
        hold: float = HOLD,
    ) -> None:
        self._endpoint = endpoint
        self._host = Host(control)
        self._ends, self._wake, self._hold = ends, wake, hold
        self._table = Table(time.time_ns(), holding=hold > 0)
        self._routed = 0
        self._counts: Counter[str] = Counter()
        self._stopping = False
        self._context = zmq.Context()
        self._router = self._context.socket(zmq.ROUTER)
        self._doors = Doors(self._router)
        self._lookout = Lookout(
            self._context, self._router, self._doors, self._table.roll, descriptors, self._counts, self._report
        )
        self._liveness = self._lookout.liveness
        # The bare methods of the C socket: the public ones add a Python call and a type check per frame.
        self._receive: Callable[[int], bytes] = self._router.recv
        self._option = cast(Callable[[int], int], self._router.getsockopt)
        self._send: Callable[[bytes, int], object] = super(zmq.Socket, self._router).send
        self._handlers: dict[type[Command], Callable[..., None]] = {
            Forward: self._forward,
            Tell: self._tell,
            Check: self._check,
            Cut: self._cut,
            Count: self._count,
        }

    def stop(self) -> None:
        """End after the present turn of the loop; may be called by a signal handler."""
        self._stopping = True

    def run(self) -> None:
        """Bind, tell the host, route until stopped, leave no file behind.

        Raises:
            EndpointError: the endpoint cannot be bound.
            MemoryExceeded: raised by the guard of the memory; the host has been told. Sockets are left as they are, as
                there is nothing to do but to end the process.
        """
        try:
            # What the host wrote before we ran (principals) comes first: peers of a broker before us may already wait.
            while self._obey():
                pass
            if not self._stopping:
                self._doors.open(self._endpoint)
                self._host.tell({"t": "ready", "endpoint": self._endpoint, "pid": os.getpid()})
                self._loop()
        except MemoryExceeded as error:
            self._host.tell({"t": "failed", "why": str(error)})
            self._doors.remove_files()
            raise
        except BaseException:
            self._close()
            raise
        self._close()

    def _close(self) -> None:
        self._doors.remove_files()
        self._lookout.close()
        self._router.close(100)
        self._context.term()
        self._host.close()

    def _loop(self) -> None:
        control, lookout, liveness = self._host.fileno(), self._lookout, self._liveness
        settles: float | None = time.monotonic() + self._hold
        router = self._option(zmq.FD)
        with select.epoll() as poll:
            for descriptor in (router, control, *self._ends, *([self._wake] if self._wake >= 0 else [])):
                poll.register(descriptor, select.EPOLLIN)
            lookout.watch(poll)
            lookout.attend(time.monotonic())  # a ZeroMQ descriptor speaks up only after its socket was found empty
            empty = False
            while not self._stopping:
                # A ZeroMQ descriptor wakes us once per change, not as long as there is mail: never sleep on a full box.
                for descriptor, _ in poll.poll(self._patience(settles) if empty else 0.0):
                    if descriptor == router:
                        continue
                    if descriptor in self._ends:
                        self._stopping = True
                    elif descriptor == control:
                        self._obey()
                    elif descriptor == self._wake:
                        os.read(descriptor, 4096)
                    else:
                        lookout.attend(time.monotonic())
                if liveness.suspects:
                    liveness.probe(time.monotonic(), self._is_reachable)
                empty = self._drain()
                if liveness.suspects:
                    for connection in liveness.over(time.monotonic(), empty):
                        self._step(Lost(connection, "its connection is closed"))
                if settles is not None and time.monotonic() >= settles:
                    settles = None
                    self._step(Settle())
                if lookout.has_cuts:
                    lookout.carry_out_cuts(time.monotonic())

    def _patience(self, settles: float | None) -> float | None:
        now = time.monotonic()
        wait = self._lookout.wait(now)
        if settles is None:
            return wait
        rest = max(0.0, settles - now)
        return rest if wait is None else min(rest, wait)

    # --- the host

    def _obey(self) -> bool:
        """Carry out what the host wrote; whether it wrote anything."""
        found = False
        for order in self._host.orders():
            found = True
            try:
                self._order(order or {})
            except Malformed:
                self._counts["order not understood"] += 1
        self._stopping = self._stopping or self._host.left
        return found

    def _order(self, order: dict[str, object]) -> None:
        match order:
            case {"t": "principal"} | {"t": "key"}:
                self._step(Admit(Principal.decode(order)))
            case {"t": "forget", "name": str(name)}:
                self._step(Forget(name))
            case {"t": "listen", "url": str(url), "public": str(public), "secret": str(secret)}:
                self._listen(url, KeyPair(public, secret))
            case {"t": "unlisten", "url": str(url)}:
                self._doors.close(url)
            case {"t": "stats"}:
                self._host.tell({"t": "stats", **self.stats()})
            case {"t": "stop"}:
                self._stopping = True
            case _:
                raise Malformed("an order that this broker does not know")

    def _listen(self, url: str, keys: KeyPair) -> None:
        try:
            self._host.tell({"t": "listening", "url": self._doors.open(url, keys)})
        except EndpointError as error:
            self._host.tell({"t": "refused", "order": "listen", "url": url, "why": str(error)})

    def _report(self, what: str) -> None:
        self._host.tell({"t": "event", "what": what})

    def stats(self) -> dict[str, object]:
        """Figures for the host: gauges, pairs routed, and what was dropped or refused by reason."""
        return {
            "connections": self._table.connections,
            "addresses": self._table.addresses,
            "sockets": len(self._lookout.crowd),
            "routed": self._routed,
            "counts": dict(self._counts),
        }

    # --- deaths

    def _is_reachable(self, connection: bytes) -> bool:
        self._option(_EVENTS)  # makes ZeroMQ look at what it has been told; a send looks only now and then
        return self._push(connection, (b"",)) != "gone"

    def _check(self, command: Check) -> None:
        self._lookout.read_monitor(time.monotonic())
        for rival in command.rivals:
            if not self._is_reachable(rival):
                self._liveness.forget(rival)
                self._step(Lost(rival, "its connection is closed"))
        event = command.event
        self._step(Arrived(event.connection, event.frame, event.envelope, settled=True, vouched=event.vouched))

    def _cut(self, command: Cut) -> None:
        self._lookout.cut(command.connection, time.monotonic())

    # --- routing

    def _drain(self) -> bool:
        """Route what is there, at most BATCH messages; whether the socket was seen empty."""
        receive, option, send, lanes = self._receive, self._option, self._send, self._table.lanes
        for number in range(BATCH):
            # Finding nothing raises, which costs 8 us, and asking 2 us. So a short burst asks, a long one does not.
            if 0 < number < BURST and not option(_EVENTS) & _READABLE:
                return True
            try:
                origin = receive(_WAIT_NOT)
            except zmq.Again:
                return True
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
                self._step(Arrived(origin, frame, envelope))
                continue
            try:
                send(target, _MORE)
                send(frame, _MORE)
                send(envelope, _WAIT_NOT)
                self._routed += 1
            except zmq.ZMQError as error:
                self._step(Unsent(origin, frame, envelope, _code(error)))
        return False

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
                self._step(Arrived(origin, frame, frames[index + 1]))
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
                self._routed += len(group) // 2
                continue
            for index in range(0, len(group), 2):
                self._step(Unsent(origin, group[index], group[index + 1], code))

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
            self._step(Arrived(origin, frames[index], frames[index + 1], vouched=vouched))
        if origin in lanes:
            former = self._liveness.met(origin, int(first.get(zmq.SRCFD)))
            if former is not None:
                self._liveness.forget(former)
                self._step(Lost(former, "its connection is closed"))

    # --- commands of the table

    def _step(self, event: Event) -> None:
        for command in self._table.step(event):
            self._handlers[type(command)](command)

    def _forward(self, command: Forward) -> None:
        code = self._push(command.target, (command.frame, command.envelope))
        if code:
            self._step(Unsent(command.origin, command.frame, command.envelope, code))
        else:
            self._routed += 1

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
