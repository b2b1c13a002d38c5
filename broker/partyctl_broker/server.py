"""The broker's shell: one thread, one ROUTER socket, one loop. What happens is decided in the table (router.py).

The loop sleeps in epoll over four descriptors (the ROUTER's, its monitor's, the host's control channel, whatever else
ends it) without a timeout, so that an idle broker costs nothing. A message whose lane is known is forwarded as it
came. Sends never wait: one peer that does not read must not stall the others (measured: a blocking send stalled
strangers for 12 s), and what cannot be sent is told to its sender.
"""

import contextlib
import errno
import os
import select
import struct
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, cast

import msgpack
import zmq

from partyctl_base.channel import Channel, ChannelClosed, ChannelFault
from partyctl_broker import wire
from partyctl_broker.auth import Principal
from partyctl_broker.control import unpack_map
from partyctl_broker.endpoint import clear_stale, ipc_path, unlink_own
from partyctl_broker.errors import EndpointError, Malformed
from partyctl_broker.liveness import Liveness
from partyctl_broker.router import (
    Admit,
    Arrived,
    Check,
    Command,
    Count,
    Event,
    Forget,
    Forward,
    Lost,
    Table,
    Tell,
    Unsent,
)

QUEUE_MAX: Final = 1000
"""Messages that wait for one peer before its senders get a NACK, and that one peer may have waiting at the broker."""
BATCH: Final = 256
"""Messages routed before the loop looks at its other descriptors."""
BURST: Final = 4
"""Messages of one batch after which more are expected."""
BACKLOG: Final = 1024

_MONITOR_EVENT = struct.Struct("=hi")
# Plain numbers: each use of an enum member in an expression, or as an argument of the C socket, costs 1 to 2 us.
_WAIT_NOT = int(zmq.NOBLOCK)
_MORE = int(zmq.SNDMORE | zmq.NOBLOCK)
_RCVMORE = int(zmq.RCVMORE)
_READABLE = int(zmq.POLLIN)
_EVENTS = int(zmq.EVENTS)


class Broker:
    """Routes until told to stop.

    Args:
        endpoint: where peers connect, ipc or tcp.
        control: the channel to the host.
        ends: descriptors that end the broker when they become readable (the host's pidfd).
    """

    def __init__(self, endpoint: str, control: Channel, ends: tuple[int, ...] = ()) -> None:
        self._endpoint = endpoint
        self._control = control
        self._ends = ends
        self._table = Table(time.time_ns())
        self._liveness = Liveness()
        self._routed = 0
        self._counts: Counter[str] = Counter()
        self._stopping = False
        self._bound: tuple[str, int] | None = None
        self._context = zmq.Context()
        self._router = self._context.socket(zmq.ROUTER)
        self._monitor = self._watch()
        # The bare methods of the C socket: the public ones add a Python call and a type check per frame.
        self._receive: Callable[[int], bytes] = self._router.recv
        self._option = cast(Callable[[int], int], self._router.getsockopt)
        self._send: Callable[[bytes, int], object] = super(zmq.Socket, self._router).send
        self._handlers: dict[type[Command], Callable[..., None]] = {
            Forward: self._forward,
            Tell: self._tell,
            Check: self._check,
            Count: self._count,
        }

    def _watch(self) -> zmq.Socket[bytes]:
        # A monitor that is read too late would block the I/O thread, hence no high-water mark; get_monitor_socket
        # connects before one could be set.
        name = "inproc://monitor"
        self._router.monitor(name, zmq.EVENT_DISCONNECTED)
        monitor = self._context.socket(zmq.PAIR)
        monitor.setsockopt(zmq.RCVHWM, 0)
        monitor.connect(name)
        return monitor

    def run(self) -> None:
        """Bind, tell the host, route until stopped, leave no file behind.

        Raises:
            EndpointError: the endpoint cannot be bound.
        """
        try:
            # What the host wrote before we ran (principals) comes first: peers of a broker before us may already wait.
            while self._obey():
                pass
            if self._stopping:
                return
            self._bind()
            self._answer({"t": "ready", "endpoint": self._endpoint, "pid": os.getpid()})
            self._loop()
        finally:
            if self._bound is not None:
                unlink_own(*self._bound)  # while it is bound its inode cannot be another's
            self._router.disable_monitor()
            self._monitor.close(0)
            self._router.close(100)
            self._context.term()
            self._control.close()

    def _bind(self) -> None:
        for option, value in (
            (zmq.ROUTER_MANDATORY, 1),
            (zmq.SNDHWM, QUEUE_MAX),
            (zmq.RCVHWM, QUEUE_MAX),
            (zmq.MAXMSGSIZE, wire.FRAME_MAX),
            (zmq.BACKLOG, BACKLOG),
        ):
            self._router.setsockopt(option, value)
        path = ipc_path(self._endpoint)
        if path is not None:
            clear_stale(path)
        umask = os.umask(0o077)
        try:
            self._router.bind(self._endpoint)
        except zmq.ZMQError as error:
            raise EndpointError("the broker cannot bind its endpoint", where=self._endpoint, why=str(error)) from error
        finally:
            os.umask(umask)
        if path is not None:
            self._bound = path, os.lstat(path).st_ino

    def _loop(self) -> None:
        poll = select.epoll()
        monitor, control = cast(int, self._monitor.getsockopt(zmq.FD)), self._control.fileno()
        with poll:
            for descriptor in (self._option(zmq.FD), monitor, control, *self._ends):
                poll.register(descriptor, select.EPOLLIN)
            empty = False
            self._read_monitor()  # a ZeroMQ descriptor speaks up only after its socket was once found empty
            while not self._stopping:
                now = time.monotonic()
                # A ZeroMQ descriptor wakes us once per change, not as long as there is mail: never sleep on a full box.
                timeout = self._liveness.wait(now) if empty else 0.0
                for descriptor, _ in poll.poll(timeout):
                    if descriptor in self._ends:
                        self._stopping = True
                    elif descriptor == control:
                        self._obey()
                    elif descriptor == monitor:
                        self._read_monitor()
                self._probe()
                empty = self._drain()
                if self._liveness.suspects:
                    for connection in self._liveness.over(time.monotonic(), empty):
                        self._step(Lost(connection, "its connection is closed"))

    # --- the host

    def _obey(self) -> bool:
        """Carry out what the host wrote; whether it wrote anything."""
        try:
            messages = self._control.receive_ready()
        except ChannelFault:
            messages = None
        if messages is None:
            self._stopping = True  # a host that closed the channel wants no broker any more
            return False
        for message in messages:
            for descriptor in message.fds:
                os.close(descriptor)
            try:
                self._order(unpack_map(message.data))
            except Malformed:
                self._counts["order not understood"] += 1
        return bool(messages)

    def _order(self, order: dict[str, object]) -> None:
        match order:
            case {"t": "principal"}:
                self._step(Admit(Principal.decode(order)))
            case {"t": "forget", "name": str(name)}:
                self._step(Forget(name))
            case {"t": "stats"}:
                self._answer({"t": "stats", **self.stats()})
            case {"t": "stop"}:
                self._stopping = True
            case _:
                raise Malformed("an order that this broker does not know")

    def stats(self) -> dict[str, object]:
        """Figures for the host: gauges, pairs routed, and what was dropped or refused by reason."""
        return {
            "connections": self._table.connections,
            "addresses": self._table.addresses,
            "routed": self._routed,
            "counts": dict(self._counts),
        }

    def _answer(self, message: dict[str, object]) -> None:
        with contextlib.suppress(ChannelClosed, TimeoutError):
            self._control.send(msgpack.packb(message), timeout=0.1)

    # --- deaths

    def _read_monitor(self) -> None:
        with contextlib.suppress(zmq.Again):
            while True:
                event = self._monitor.recv(_WAIT_NOT)
                while self._monitor.getsockopt(_RCVMORE):
                    self._monitor.recv(_WAIT_NOT)
                _, descriptor = _MONITOR_EVENT.unpack(event)
                self._liveness.disconnected(descriptor, time.monotonic())

    def _probe(self) -> None:
        if self._liveness.suspects:
            self._liveness.probe(time.monotonic(), self._is_reachable)

    def _is_reachable(self, connection: bytes) -> bool:
        return self._push(connection, (b"",)) != "gone"

    def _check(self, command: Check) -> None:
        self._read_monitor()
        for rival in command.rivals:
            if not self._is_reachable(rival):
                self._liveness.forget(rival)
                self._step(Lost(rival, "its connection is closed"))
        event = command.event
        self._step(Arrived(event.connection, event.frame, event.envelope, settled=True))

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
            return
        lanes = self._table.lanes
        for index in range(0, len(frames), 2):
            self._step(Arrived(origin, frames[index], frames[index + 1]))
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
