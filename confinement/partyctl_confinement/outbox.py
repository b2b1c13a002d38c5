"""Messages on their way to a peer that may not read: nobody waits for it, and it holds a bounded amount of memory."""

import os
from collections import deque
from collections.abc import Sequence
from typing import Final

from partyctl_base.channel import Channel, records

BACKLOG_RECORDS: Final = 256
"""Records that may wait for one peer. With the kernel's own buffer that is some hundreds of exit notices."""

BACKLOG_BYTES: Final = 1024 * 1024


class Outbox:
    """The sending side of a channel that never waits.

    Args:
        channel: where the records go.
        max_records: how many may wait.
        max_bytes: how many bytes may wait.
    """

    def __init__(self, channel: Channel, *, max_records: int = BACKLOG_RECORDS, max_bytes: int = BACKLOG_BYTES) -> None:
        self._channel = channel
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._waiting: deque[tuple[bytes, tuple[int, ...]]] = deque()
        self._bytes = 0

    @property
    def waiting(self) -> bool:
        """Whether `flush` has something to do once the socket has room."""
        return bool(self._waiting)

    def put(self, data: bytes, fds: Sequence[int] = ()) -> bool:
        """Send the message now or keep it; False, with nothing sent of it, if too much is waiting already.

        The descriptors are the outbox's from now on, also if it returns False.

        Raises:
            ChannelClosed: the other end is gone.
        """
        pieces = records(data)
        self.flush()
        if len(self._waiting) + len(pieces) > self._max_records or self._bytes + len(data) > self._max_bytes:
            _close(fds)
            return False
        for number, piece in enumerate(pieces):
            self._waiting.append((piece, tuple(fds) if number == 0 else ()))
            self._bytes += len(piece)
        self.flush()
        return True

    def flush(self) -> None:
        """Send what the socket takes.

        Raises:
            ChannelClosed: the other end is gone.
        """
        while self._waiting:
            piece, fds = self._waiting[0]
            if not self._channel.try_send_record(piece, fds):
                return
            self._waiting.popleft()
            self._bytes -= len(piece)
            _close(fds)

    def close(self) -> None:
        """Forget what waits; the channel stays open."""
        for _, fds in self._waiting:
            _close(fds)
        self._waiting.clear()
        self._bytes = 0


def _close(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)
