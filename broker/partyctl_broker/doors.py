"""Where a ROUTER socket listens: on this machine by ipc, and, when the host says so, beyond it by tcp.

Options are taken over by an endpoint when it is bound, so one socket has both: PLAIN on ipc, CURVE on tcp. A door
that is shut keeps its connections and takes no new ones.
"""

import contextlib
import os
from typing import Final

import zmq

from partyctl_broker import wire
from partyctl_broker.crowd import HANDSHAKE_LIMIT
from partyctl_broker.endpoint import clear_stale, ipc_path, unlink_own
from partyctl_broker.errors import EndpointError
from partyctl_broker.keys import KeyPair
from partyctl_broker.zap import DOMAIN

QUEUE_MAX: Final = 1000
"""Messages that wait for one peer before its senders get a NACK, and that one peer may have waiting at the broker."""
BACKLOG: Final = 1024
HEARTBEAT: Final = 15_000
"""Milliseconds between two heartbeats on tcp; a local peer's death is told by the kernel."""
HEARTBEAT_LIMIT: Final = 45_000
"""Milliseconds without an answer after which a tcp connection is over."""


class Doors:
    """The endpoints of a ROUTER socket.

    Args:
        router: the socket, not yet bound.
    """

    def __init__(self, router: "zmq.Socket[bytes]") -> None:
        self._router = router
        self._files: dict[str, tuple[str, int]] = {}
        self._open: dict[str, KeyPair | None] = {}
        self._shut: dict[str, KeyPair | None] = {}
        for option, value in (
            (zmq.ROUTER_MANDATORY, 1),
            (zmq.SNDHWM, QUEUE_MAX),
            (zmq.RCVHWM, QUEUE_MAX),
            (zmq.MAXMSGSIZE, wire.FRAME_MAX),
            (zmq.BACKLOG, BACKLOG),
            (zmq.HANDSHAKE_IVL, int(HANDSHAKE_LIMIT * 1000)),
        ):
            router.setsockopt(option, value)
        router.setsockopt(zmq.ZAP_DOMAIN, DOMAIN)

    @property
    def are_shut(self) -> bool:
        """Whether nobody new comes in."""
        return bool(self._shut)

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
        umask = os.umask(0o077)
        try:
            self._router.bind(endpoint)
        except zmq.ZMQError as error:
            raise EndpointError("the broker cannot bind its endpoint", where=endpoint, why=str(error)) from error
        finally:
            os.umask(umask)
        if path is not None:
            self._files[endpoint] = path, os.lstat(path).st_ino
        else:
            endpoint = bytes(self._router.getsockopt(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode()
        self._open[endpoint] = keys
        return endpoint

    def _choose_mechanism(self, keys: KeyPair | None) -> None:
        if keys is None:
            self._router.setsockopt(zmq.PLAIN_SERVER, 1)
            self._router.setsockopt(zmq.HEARTBEAT_IVL, 0)
            return
        self._router.setsockopt(zmq.CURVE_SERVER, 1)
        self._router.setsockopt(zmq.CURVE_SECRETKEY, keys.secret.encode())
        self._router.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT)
        self._router.setsockopt(zmq.HEARTBEAT_TIMEOUT, HEARTBEAT_LIMIT)

    def shut(self) -> None:
        """Take no new connections until `reopen`."""
        for endpoint, keys in list(self._open.items()):
            with contextlib.suppress(zmq.ZMQError):
                self._router.unbind(endpoint)
            self._shut[endpoint] = keys
        self._open.clear()

    def reopen(self) -> None:
        """Take new connections again. What cannot be bound stays shut, to be tried again."""
        for endpoint, keys in list(self._shut.items()):
            with contextlib.suppress(EndpointError):
                self.open(endpoint, keys)
                del self._shut[endpoint]

    def close(self, endpoint: str) -> None:
        """Listen there no more."""
        self._shut.pop(endpoint, None)
        if endpoint in self._open:
            del self._open[endpoint]
            with contextlib.suppress(zmq.ZMQError):
                self._router.unbind(endpoint)

    def remove_files(self) -> None:
        """Remove the socket files; while they are bound their inodes cannot be another's."""
        for path, inode in self._files.values():
            unlink_own(path, inode)
