"""Endpoints by name: what is refused before ZeroMQ sees it, because its own answer would help nobody."""

import contextlib
import ipaddress
import os
import stat
from dataclasses import dataclass
from typing import Final

from partyctl_base.paths import SOCKET_PATH_MAX
from partyctl_broker.errors import EndpointError

_IPC: Final = "ipc://"
_TCP: Final = "tcp://"


@dataclass(frozen=True, slots=True)
class Target:
    """An endpoint as a peer is given it.

    Args:
        endpoint: as ZeroMQ takes it.
        key: the broker's public key, 32 bytes, on tcp; empty on ipc.
    """

    endpoint: str
    key: bytes = b""

    @staticmethod
    def parse(endpoint: str) -> "Target":
        """From `ipc://PATH` or `tcp://KEY@ADDRESS:PORT`, with the broker's public key in hexadecimal.

        Raises:
            EndpointError: it is neither, or the path is too long.
        """
        if ipc_path(endpoint) is not None:
            return Target(endpoint)
        key, at, address = endpoint.removeprefix(_TCP).rpartition("@")
        try:
            raw = bytes.fromhex(key)
        except ValueError:
            raw = b""
        if not at or len(raw) != 32:
            raise EndpointError(
                "a tcp endpoint does not name the broker's key",
                where=endpoint,
                why="without it nobody knows who answers there",
                fix="Use tcp://KEY@ADDRESS:PORT, as the host prints it",
            )
        return Target(_TCP + address, raw)

    @staticmethod
    def write(url: str, key: bytes) -> str:
        """The endpoint to give to a peer of a broker that listens at a tcp `url` with a public `key`."""
        return f"{_TCP}{key.hex()}@{url.removeprefix(_TCP)}"


def split_tcp(url: str) -> tuple[str, int]:
    """The address and the port of a tcp url to listen at; the port is 0 for `*`.

    Raises:
        EndpointError: the address is a name, which would have to be looked up, or the port is none.
    """
    host, _, port = url.removeprefix(_TCP).rpartition(":")
    try:
        address = ipaddress.ip_address(host[1:-1] if host.startswith("[") and host.endswith("]") else host)
    except ValueError as error:
        raise EndpointError(
            "the broker listens at an address of this machine, not at a name",
            where=url,
            why=str(error),
            fix="Use tcp://ADDRESS:PORT with an address in numbers: 127.0.0.1, 0.0.0.0 for all, [::1], [::]",
        ) from error
    number = 0 if port == "*" else int(port) if port.isascii() and port.isdigit() else -1
    if not 0 <= number <= 65_535:
        raise EndpointError("this is no port", where=url, fix="Use a number from 1 to 65535, or * for any that is free")
    return str(address), number


def ipc_path(endpoint: str) -> str | None:
    """The socket path of an ipc endpoint, checked; None for tcp.

    Raises:
        EndpointError: the endpoint is of another kind, or its path does not fit into a socket address.
    """
    if endpoint.startswith(_TCP):
        return None
    if not endpoint.startswith(_IPC) or len(endpoint) == len(_IPC):
        raise EndpointError(
            "an endpoint of an unknown kind", where=endpoint, fix="Use ipc://PATH or tcp://ADDRESS:PORT"
        )
    path = endpoint.removeprefix(_IPC)
    length = len(os.fsencode(path))
    if length > SOCKET_PATH_MAX:
        raise EndpointError(
            f"the socket path is {length} bytes long, the kernel takes {SOCKET_PATH_MAX}",
            where=path,
            fix="Choose a runtime directory with a shorter path",
        )
    return path


def clear_stale(path: str) -> None:
    """Remove the socket that a dead broker left at `path`. The caller holds the lock that says it is dead.

    Raises:
        EndpointError: there is something else than a socket, or it cannot be removed.
    """
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise EndpointError(
                "the broker's socket path is occupied by something else", where=path, fix="Move it away"
            )
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise EndpointError("a stale socket cannot be removed", where=path, why=error.strerror or "") from error


def unlink_own(path: str, inode: int) -> None:
    """Remove a socket that this process bound, unless another one is there by now. ZeroMQ leaves it behind."""
    with contextlib.suppress(OSError):
        if os.lstat(path).st_ino == inode:
            os.unlink(path)
