"""What the kernel tells of a connection by its descriptor, and does with it. A descriptor of ZeroMQ's may be closed at
any time by its own thread; nothing here minds that.
"""

import contextlib
import fcntl
import os
import select
import socket
import struct
import sys
import termios
from typing import Final

_PEER: Final = struct.Struct("=iII")


def process(descriptor: int) -> str:
    """The name of the process behind a local socket, for bans; empty if the kernel does not tell."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
        if connection.family == socket.AF_UNIX:
            pid, _, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
            return f"process {pid}" if pid else ""
    return ""


def unread_by_peer(descriptor: int) -> int:
    """Bytes in the kernel that the peer behind a socket has not read; 0 if the socket is closed by now."""
    try:
        return int.from_bytes(fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4)), sys.byteorder)
    except OSError:
        return 0


def hung_up(descriptor: int) -> bool:
    """Whether the peer behind a socket has closed it: the kernel knows at once, ZeroMQ's own thread a little later."""
    poll = select.poll()
    poll.register(descriptor, select.POLLRDHUP)
    return any(events & (select.POLLHUP | select.POLLRDHUP) for _, events in poll.poll(0))


def cut_off(descriptor: int) -> None:
    """Shut a socket of ZeroMQ's down."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
        connection.shutdown(socket.SHUT_RDWR)
