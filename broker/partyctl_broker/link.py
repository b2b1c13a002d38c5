"""One connection to the broker: a DEALER socket on an event loop, from its making to its loss.

The socket's descriptor is watched by the loop itself (zmq.asyncio costs three times the CPU). It wakes us once per
change, so every turn ends by asking the socket whether there is more. A link is used for one life of the connection:
ZeroMQ would reconnect and send what it still holds to a broker that has not heard HELLO yet.
"""

import asyncio
import itertools
import struct
from collections.abc import Callable, Sequence
from typing import Final, cast

import zmq

from partyctl_broker import wire
from partyctl_broker.control import Nack
from partyctl_broker.endpoint import Target
from partyctl_broker.keys import encode_z85
from partyctl_broker.wire import Kind
from partyctl_broker.zap import LATER

QUEUE_MAX: Final = 1000
"""Messages that ZeroMQ keeps in each direction."""
TURN: Final = 64
"""Messages read before other callbacks of the loop get their turn."""
RETRY_FIRST: Final = 20
RETRY_LAST: Final = 500
"""Milliseconds between two attempts to reach a broker that is not there."""
RETRY_REFUSED: Final = 0.1
"""Seconds until the next attempt after a refused handshake: a new broker may not know its principals yet."""
HEARTBEAT: Final = 15_000
HEARTBEAT_LIMIT: Final = 45_000
"""Milliseconds between two heartbeats on tcp, and without one until the connection is over. None on ipc."""
REASONS: Final = {
    "principal": "the principal is unknown, or its secret is wrong",
    "later": "the broker has no descriptor left for another peer, or showed this principal out in the last minute",
}
"""The codes of a refused handshake and what each says to a person."""
_EVENT: Final = struct.Struct("=Hi")
_DISCONNECTED: Final = int(zmq.EVENT_DISCONNECTED)
_REFUSED: Final = int(zmq.EVENT_HANDSHAKE_FAILED_AUTH)

# Plain numbers: each use of an enum member in an expression, or as an argument of the C socket, costs 1 to 2 us.
_WAIT_NOT = int(zmq.NOBLOCK)
_MORE = int(zmq.SNDMORE | zmq.NOBLOCK)
_NUMBERS = itertools.count()
_READABLE = int(zmq.POLLIN)
_EVENTS = int(zmq.EVENTS)
_RCVMORE = int(zmq.RCVMORE)


class Link:
    """A connection to the broker. Needs a running loop.

    Args:
        context: where the sockets live.
        target: where the broker listens, and how to know it.
        principal: whom the handshake is for.
        secret: what proves it, 32 bytes: its secret on ipc, its secret key on tcp.
        pair: called with (address frame, envelope) for each pair that comes in.
        turn: called after a turn in which something may have changed: mail was read, or there is room to send.
        lost: called once, when the connection is over and what it brought has been read.
    """

    def __init__(
        self,
        context: "zmq.Context[zmq.Socket[bytes]]",
        target: Target,
        principal: str,
        secret: bytes,
        *,
        pair: Callable[[bytes, bytes], None],
        turn: Callable[[], None],
        lost: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._pair, self._turn, self._lost = pair, turn, lost
        self._socket = context.socket(zmq.DEALER)
        for option, value in (
            (zmq.SNDHWM, QUEUE_MAX),
            (zmq.RCVHWM, QUEUE_MAX),
            (zmq.MAXMSGSIZE, wire.FRAME_MAX),
            (zmq.IPV6, 1),
            (zmq.RECONNECT_IVL, RETRY_FIRST),
            (zmq.RECONNECT_IVL_MAX, RETRY_LAST),
        ):
            self._socket.setsockopt(option, value)
        _prove(self._socket, target, principal, secret)
        name = f"inproc://monitor-{next(_NUMBERS)}"
        self._socket.monitor(name, _DISCONNECTED | _REFUSED)
        self._monitor = context.socket(zmq.PAIR)
        self._monitor.connect(name)
        # The bare methods of the C socket: the public ones add a Python call and a type check per frame.
        self._option = cast(Callable[[int], int], self._socket.getsockopt)
        self._receive: Callable[[int], bytes] = self._socket.recv
        self._send: Callable[[bytes, int], object] = super(zmq.Socket, self._socket).send
        self._closed = False
        self._again = False
        self._socket.connect(target.endpoint)
        self._watched = (self._option(zmq.FD), cast(int, self._monitor.getsockopt(zmq.FD)))
        self._loop.add_reader(self._watched[0], self._ready)
        self._loop.add_reader(self._watched[1], self._disconnected)
        # A descriptor speaks up only after its socket was once found empty.
        self._look_again()
        self._loop.call_soon(self._disconnected)

    def send(self, frames: Sequence[bytes]) -> bool:
        """Send one message without waiting; False if there is no room, and then nothing was sent."""
        try:
            for frame in frames[:-1]:
                self._send(frame, _MORE)
            self._send(frames[-1], _WAIT_NOT)
        except zmq.ZMQError:
            return False
        return True

    def sent(self) -> None:
        """To be called after sending outside of `turn`: that may have eaten the wake-up of mail that came meanwhile."""
        if not self._closed and self._option(_EVENTS) & _READABLE:
            self._look_again()

    def close(self, linger: int = 0) -> None:
        """Close, and go on sending what was handed over for at most `linger` milliseconds. Idempotent."""
        if self._closed:
            return
        self._closed = True
        for descriptor in self._watched:
            self._loop.remove_reader(descriptor)
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(linger)

    def _look_again(self) -> None:
        if not self._again:
            self._again = True
            self._loop.call_soon(self._ready)

    def _ready(self) -> None:
        self._again = False
        if self._closed:
            return
        # A wake-up nearly always means mail, so read first; asking is cheaper than finding nothing (2 against 8 us).
        for _ in range(TURN):
            if not self._read() or self._closed or not self._option(_EVENTS) & _READABLE:
                break
        if self._closed:
            return
        self._turn()
        # Sending may have eaten the wake-up of mail that came meanwhile.
        if not self._closed and self._option(_EVENTS) & _READABLE:
            self._look_again()

    def _read(self) -> bool:
        """Read one message; whether there was one."""
        receive, option = self._receive, self._option
        try:
            frames = [receive(_WAIT_NOT)]
        except zmq.Again:
            return False
        while option(_RCVMORE):
            frames.append(receive(_WAIT_NOT))
        if len(frames) % 2:
            return True  # a probe of the broker, or nothing we know
        for index in range(0, len(frames), 2):
            self._pair(frames[index], frames[index + 1])
            if self._closed:
                break
        return True

    def _disconnected(self) -> None:
        if self._closed:
            return
        try:
            event, status = _EVENT.unpack(self._monitor.recv_multipart(_WAIT_NOT)[0])
        except zmq.Again:
            return
        if event == _REFUSED:
            self._refused("later" if status == LATER else "principal")
            return
        while not self._closed and self._read():
            pass
        if not self._closed:
            self.close()
            self._lost()

    def _refused(self, code: str) -> None:
        """The handshake was refused. ZeroMQ tries no more, so the link is over; the next one is made a little later."""
        self.close()
        self._loop.call_later(RETRY_REFUSED, self._lost)
        self._pair(wire.TO_BROKER, wire.seal(Kind.NACK, 0, 0, Nack("", code, REASONS[code]).encode()))


def _prove(socket: "zmq.Socket[bytes]", target: Target, principal: str, secret: bytes) -> None:
    if target.key:
        secret_key = encode_z85(secret).encode()
        socket.setsockopt(zmq.CURVE_SERVERKEY, encode_z85(target.key).encode())
        socket.setsockopt(zmq.CURVE_SECRETKEY, secret_key)
        socket.setsockopt(zmq.CURVE_PUBLICKEY, zmq.curve_public(secret_key))
        socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, HEARTBEAT_LIMIT)
    else:
        socket.setsockopt(zmq.PLAIN_USERNAME, principal.encode())
        socket.setsockopt(zmq.PLAIN_PASSWORD, secret.hex().encode())
