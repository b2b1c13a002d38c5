"""How many bytes of large letters wait for a peer that does not read, as ZeroMQ's queues count messages alone; pure but
for the look at the kernel that it is handed.
"""

from collections.abc import Callable, Collection
from typing import Final

QUEUE_BYTES: Final = 8 * 1024 * 1024
"""Bytes that wait for a peer before it gets no further ones."""
QUEUE_STEP: Final = 1024 * 1024
"""Bytes after which it is looked whether a peer has read all."""


class Backlog:
    """What waits, by connection.

    Args:
        living: the connections that there are.
        unread: tells how many bytes the peer behind a descriptor has not read.
    """

    def __init__(self, living: Collection[bytes], unread: Callable[[int], int]) -> None:
        self._living, self._unread = living, unread
        self._waiting: dict[bytes, int] = {}

    def fits(self, target: bytes, descriptor: int | None, size: int) -> bool:
        """Whether so many bytes may go to a connection, as it reads or little waits for it; they count if so.

        Args:
            target: the connection.
            descriptor: its own; None if it is not known, and then all may go.
            size: bytes.
        """
        if descriptor is None:
            return True
        waiting = self._waiting.get(target, 0)
        if waiting // QUEUE_STEP != (waiting + size) // QUEUE_STEP and not self._unread(descriptor):
            waiting = 0
        if waiting and waiting + size > QUEUE_BYTES:
            return False
        if len(self._waiting) > len(self._living):
            self._waiting = {one: bytes_ for one, bytes_ in self._waiting.items() if one in self._living}
        self._waiting[target] = waiting + size
        return True
