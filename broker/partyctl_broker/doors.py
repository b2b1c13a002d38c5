"""Where a ROUTER socket listens: on this machine by ipc, and, when the host says so, beyond it by tcp.

Options are taken over by an endpoint when it is bound, so one socket has both: PLAIN on ipc, CURVE on tcp.

ZeroMQ accepts connections by itself and cannot be told to pause: `unbind` would end the connections too, as they belong
to the listener. So the listening sockets are ours, and ZeroMQ gets a duplicate. A door is shut by putting a socket that
nobody connects to in the place of the duplicate; whoever comes is then accepted and closed by us.
"""

import contextlib
import os
import socket
from dataclasses import dataclass
from typing import Final

import zmq

from partyctl_broker import wire
from partyctl_broker.crowd import HANDSHAKE_LIMIT
from partyctl_broker.endpoint import clear_stale, ipc_path, split_tcp, unlink_own
from partyctl_broker.errors import EndpointError
from partyctl_broker.keys import KeyPair
from partyctl_broker.zap import DOMAIN

QUEUE_MAX: Final = 1000
"""Messages that wait for one peer before its senders get a NACK."""
UNREAD_MAX: Final = 4
"""Messages of one peer that wait for the broker; more stay with the peer. What waits here is unread work, up to 32
letters each, and unread bytes, up to 4 MiB each: with 1,000 the others still waited for seconds after a flood had
ended, with 16 a flood of the largest letters took 72 MiB. The processor time per letter is nearly the same (measured
one way, all three processes: 9.3 us with 16, 9.7 with 4)."""
BACKLOG: Final = 1024
HEARTBEAT: Final = 15_000
"""Milliseconds between two heartbeats on tcp; a local peer's death is told by the kernel."""
HEARTBEAT_LIMIT: Final = 45_000
"""Milliseconds without an answer after which a tcp connection is over."""


@dataclass(slots=True)
class _Door:
    listener: socket.socket
    duplicate: int
    file: tuple[str, int] | None


class Doors:
    """The endpoints of a ROUTER socket.

    Args:
        router: the socket, not yet bound.
    """

    def __init__(self, router: "zmq.Socket[bytes]") -> None:
        self._router = router
        self._doors: dict[str, _Door] = {}
        self._nobody: socket.socket | None = None
        for option, value in (
            (zmq.ROUTER_MANDATORY, 1),
            (zmq.SNDHWM, QUEUE_MAX),
            (zmq.RCVHWM, UNREAD_MAX),
            (zmq.MAXMSGSIZE, wire.FRAME_MAX),
            (zmq.IPV6, 1),
            (zmq.HANDSHAKE_IVL, int(HANDSHAKE_LIMIT * 1000)),
        ):
            router.setsockopt(option, value)
        router.setsockopt(zmq.ZAP_DOMAIN, DOMAIN)

    @property
    def are_shut(self) -> bool:
        """Whether nobody new comes in."""
        return self._nobody is not None

    def listeners(self) -> list[int]:
        """The descriptors that tell of those who come while the doors are shut."""
        return [door.listener.fileno() for door in self._doors.values()]

    def open(self, endpoint: str, keys: KeyPair | None = None) -> str:
        """Listen; the endpoint, with the port that was taken if it named none.

        Args:
            endpoint: ipc, or tcp and then `keys` are the broker's own.

        Raises:
            EndpointError: it cannot be bound.
        """
        path = ipc_path(endpoint)
        if path is not None:
            clear_stale(path)
        self._choose_mechanism(keys)
        try:
            listener = _listen_ipc(path) if path is not None else _listen_tcp(endpoint)
            if path is None:
                endpoint = _write_tcp(listener)
            duplicate = os.dup(listener.fileno())
            self._router.setsockopt(zmq.USE_FD, duplicate)
            self._router.bind(endpoint)
        except (zmq.ZMQError, OSError) as error:
            raise EndpointError("the broker cannot bind its endpoint", where=endpoint, why=str(error)) from error
        finally:
            self._router.setsockopt(zmq.USE_FD, -1)
        self._doors[endpoint] = _Door(listener, duplicate, (path, os.lstat(path).st_ino) if path is not None else None)
        return endpoint

    def _choose_mechanism(self, keys: KeyPair | None) -> None:
        if keys is None:
            self._router.setsockopt(zmq.PLAIN_SERVER, 1)
            self._router.setsockopt(zmq.HEARTBEAT_IVL, 0)
            return
        try:
            self._router.setsockopt(zmq.CURVE_SERVER, 1)
            self._router.setsockopt(zmq.CURVE_SECRETKEY, keys.secret.encode())
        except zmq.ZMQError as error:
            raise EndpointError("the broker's secret key is none", why="it is not 40 characters of Z85") from error
        self._router.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT)
        self._router.setsockopt(zmq.HEARTBEAT_TIMEOUT, HEARTBEAT_LIMIT)

    def shut(self) -> None:
        """Take no new connections until `reopen`; call `turn_away` when somebody comes."""
        if self._nobody is None:
            self._nobody = socket.socket(socket.AF_UNIX)
            self._nobody.setblocking(False)
            self._nobody.bind("")  # an abstract name that the kernel chooses
            self._nobody.listen(0)
            for door in self._doors.values():
                os.dup2(self._nobody.fileno(), door.duplicate, inheritable=False)

    def turn_away(self) -> int:
        """Close the connections of all who came; how many those were."""
        count = 0
        for door in self._doors.values():
            with contextlib.suppress(OSError):
                while True:
                    door.listener.accept()[0].close()
                    count += 1
        return count

    def reopen(self) -> None:
        """Take new connections again."""
        if self._nobody is not None:
            for door in self._doors.values():
                os.dup2(door.listener.fileno(), door.duplicate, inheritable=False)
            self._nobody.close()
            self._nobody = None

    def close(self, endpoint: str) -> None:
        """Listen there no more, and end the connections that came by it."""
        door = self._doors.pop(endpoint, None)
        if door is not None:
            with contextlib.suppress(zmq.ZMQError):
                self._router.unbind(endpoint)
            door.listener.close()

    def remove(self) -> None:
        """Stop listening and remove the socket files; while they are bound their inodes cannot be another's."""
        for door in self._doors.values():
            if door.file is not None:
                unlink_own(*door.file)
            door.listener.close()
        if self._nobody is not None:
            self._nobody.close()


def _listen_ipc(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    umask = os.umask(0o077)
    try:
        listener.bind(path)
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(umask)
    return _start(listener)


def _listen_tcp(url: str) -> socket.socket:
    host, port = split_tcp(url)
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if listener.family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)  # one address is one door
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return _start(listener)


def _start(listener: socket.socket) -> socket.socket:
    # Not to block is a must: ZeroMQ accepts when it was told of a connection that we may have turned away meanwhile.
    listener.setblocking(False)
    listener.listen(BACKLOG)
    return listener


def _write_tcp(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"
