"""Messages of bytes over a SOCK_SEQPACKET pair.

The kernel keeps record boundaries, order and back-pressure, and says end-of-file when the other end is gone.
A record is at most 64 KiB: one flag byte (LAST or MORE) and a piece of a message. A longer message is sent as
several records; no other message comes between them. Descriptors ride on a message's first record.

A third flag, MOVED, is a record of its own with one descriptor: the channel goes on there, with somebody else at its
other end, and a message that was begun here will not be finished.
"""

import array
import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from partyctl_base.errors import PartyError

RECORD_MAX = 64 * 1024
MESSAGE_MAX = 64 * 1024 * 1024
FDS_MAX = 16

_LAST = b"\x00"
_MORE = b"\x01"
MOVED = b"\x02"
_PIECE = RECORD_MAX - 1
_ANCILLARY = socket.CMSG_SPACE(FDS_MAX * array.array("i").itemsize)


class ChannelClosed(PartyError):
    """The other end of the channel is gone."""

    whose = "peer"


class ChannelFault(PartyError):
    """The other end sent what no peer of ours sends: an unknown flag, an empty record, a message over the ceiling."""

    whose = "peer"


@dataclass(frozen=True, slots=True)
class Received:
    """One message and the descriptors that came with it; the receiver owns them.

    `moved`: no message, but where the channel goes on: the one descriptor.
    """

    data: bytes
    fds: tuple[int, ...] = ()
    moved: bool = False


class Assembler:
    """Puts records together into messages; pure."""

    def __init__(self, max_message: int) -> None:
        self._max = max_message
        self._pieces: list[bytes] = []
        self._size = 0
        self._fds: tuple[int, ...] = ()

    def feed(self, record: bytes, fds: tuple[int, ...]) -> Received | None:
        """Take one record; the message it completes, if it does.

        Raises:
            ChannelFault: the record has an unknown flag, moves the channel to no or several descriptors, is a piece of
                a longer message and not full, brings descriptors in mid-message, or the message grew over the ceiling.
        """
        flag, piece = record[:1], record[1:]
        if flag == MOVED and not piece and len(fds) == 1:
            _close(self.abandon())
            return Received(b"", fds, moved=True)
        if flag not in (_LAST, _MORE):
            raise ChannelFault("a record with an unknown flag was received", why=f"flag {flag!r}")
        # Without these two a peer fills our memory with empty pieces, and our table of descriptors.
        if flag == _MORE and len(piece) != _PIECE:
            raise ChannelFault("a piece of a longer message that is not full was received", why=f"{len(piece)} bytes")
        if fds and self._pieces:
            raise ChannelFault("descriptors were received in the middle of a message")
        if self._size + len(piece) > self._max:
            raise ChannelFault(f"a message of more than {self._max} bytes was received")
        self._fds += fds
        self._size += len(piece)
        if flag == _MORE:
            self._pieces.append(piece)
            return None
        data = b"".join((*self._pieces, piece)) if self._pieces else piece
        received = Received(data, self._fds)
        self._pieces, self._size, self._fds = [], 0, ()
        return received

    def abandon(self) -> tuple[int, ...]:
        """Forget an unfinished message; the descriptors that came with it are the caller's to close."""
        fds, self._pieces, self._size, self._fds = self._fds, [], 0, ()
        return fds


def records(data: bytes) -> list[bytes]:
    """Cut a message into records."""
    if len(data) <= _PIECE:
        return [_LAST + data]
    starts = range(0, len(data), _PIECE)
    return [(_LAST if start + _PIECE >= len(data) else _MORE) + data[start : start + _PIECE] for start in starts]


class Channel:
    """One end of a SOCK_SEQPACKET pair. `send` may be called from any thread, `receive` from one.

    Args:
        sock: a connected SOCK_SEQPACKET socket; the channel owns it from now on.
        max_message: the ceiling of one message, in bytes, in both directions.
    """

    def __init__(self, sock: socket.socket, *, max_message: int = MESSAGE_MAX) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._max = max_message
        self._assembler = Assembler(max_message)
        self._sending = threading.Lock()

    @staticmethod
    def pair() -> "tuple[Channel, Channel]":
        """Two channels connected to each other."""
        left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return Channel(left), Channel(right)

    @staticmethod
    def from_fd(fd: int) -> "Channel":
        """The channel over an inherited descriptor."""
        return Channel(socket.socket(fileno=fd))

    @property
    def socket(self) -> socket.socket:
        """The socket underneath, for event loops."""
        return self._sock

    def fileno(self) -> int:
        return self._sock.fileno()

    def detach(self) -> int:
        """Give the descriptor away; the channel is unusable afterwards."""
        return self._sock.detach()

    def close(self) -> None:
        """Close this end; idempotent. The other end reads what was sent, then end-of-file."""
        self._sock.close()
        _close(self._assembler.abandon())

    def hang_up(self) -> None:
        """`close`, for all who have this end: what a forked process has of it holds off no end-of-file."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self.close()

    def check_size(self, data: bytes) -> None:
        """Raise ChannelFault if `data` is over the ceiling: the sender checks, so nothing vanishes at the receiver."""
        if len(data) > self._max:
            raise ChannelFault(
                f"a message of {len(data)} bytes is over the channel's ceiling of {self._max} bytes",
                fix="Put it into a file, and send the file's name",
            )

    def send(self, data: bytes, fds: Sequence[int] = (), *, timeout: float | None = None) -> None:
        """Send one message, waiting for room in the socket for at most `timeout` seconds.

        Raises:
            ChannelClosed: the other end is gone.
            TimeoutError: no room in time. If a part was sent, the channel is closed: it cannot be taken back.
            ChannelFault: the message is over the ceiling; nothing was sent.
        """
        self.check_size(data)
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._sending:
            for number, record in enumerate(records(data)):
                while not self.try_send_record(record, fds if number == 0 else ()):
                    if not self._wait(select.POLLOUT, deadline):
                        if number:
                            self.close()
                        raise TimeoutError("the other end of the channel did not read in time")

    def try_send_record(self, record: bytes, fds: Sequence[int] = ()) -> bool:
        """Send one record without waiting; False if the socket has no room.

        Raises:
            ChannelClosed: the other end is gone.
        """
        try:
            if fds:
                socket.send_fds(self._sock, [record], list(fds))
            else:
                self._sock.send(record)
        except BlockingIOError:
            return False
        except OSError as error:
            raise ChannelClosed("the other end of the channel is gone", why=os.strerror(error.errno or 0)) from error
        return True

    def receive(self, *, timeout: float | None = None) -> Received | None:
        """The next message, waiting at most `timeout` seconds; None at end-of-file.

        Raises:
            TimeoutError: nothing came in time.
            ChannelFault: the other end broke the format.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                received = self._receive_record()
            except BlockingIOError:
                if not self._wait(select.POLLIN, deadline):
                    raise TimeoutError("no message came in time") from None
                continue
            if received is None:
                return None
            if received.message is not None:
                return received.message

    def receive_ready(self, limit: int = 64) -> list[Received] | None:
        """All whole messages that can be read now, at most `limit`; None at end-of-file when nothing is left."""
        ready: list[Received] = []
        while len(ready) < limit:
            try:
                received = self._receive_record()
            except BlockingIOError:
                break
            if received is None:
                return ready or None
            if received.message is not None:
                ready.append(received.message)
        return ready

    def _receive_record(self) -> "_Step | None":
        try:
            record, ancillary, _flags, _address = self._sock.recvmsg(RECORD_MAX, _ANCILLARY)
        except BlockingIOError:
            raise
        except ConnectionResetError:
            # The peer ended with a record of ours unread. The kernel says so once, ahead of the peer's last words.
            return self._receive_record()
        except OSError:
            return None
        fds = _descriptors(ancillary)
        if not record:
            _close(fds)
            return None
        try:
            return _Step(self._assembler.feed(record, fds))
        except ChannelFault:
            _close(fds)
            raise

    def _wait(self, event: int, deadline: float | None) -> bool:
        if self._sock.fileno() < 0:
            raise ChannelClosed("this end of the channel is closed")
        poll = select.poll()
        poll.register(self._sock, event)
        left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
        return bool(poll.poll(left))


@dataclass(frozen=True, slots=True)
class _Step:
    message: Received | None


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> tuple[int, ...]:
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    for fd in fds:
        os.set_inheritable(fd, False)
    return tuple(fds)


def _close(fds: Sequence[int]) -> None:
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)
