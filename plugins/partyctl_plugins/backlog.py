"""What was to be told while nobody listened: the newest of it, bounded, and how much more there was."""

from collections import deque

MOST = 128
"""How many are kept."""

SIZE = 256 * 1024
"""Bytes that are kept."""


class Backlog:
    """Encoded events, in order. Not thread-safe.

    Args:
        most: how many are kept.
        size: how many bytes of them are.

    Attributes:
        dropped: how many were not kept, since the last `take`.
    """

    def __init__(self, most: int = MOST, size: int = SIZE) -> None:
        self._most = most
        self._size = size
        self._kept: deque[bytes] = deque()
        self._bytes = 0
        self.dropped = 0

    def add(self, data: bytes) -> None:
        """Keep one more; the oldest give way to it, and one that is larger than all of them may be is not kept."""
        self._kept.append(data)
        self._bytes += len(data)
        while len(self._kept) > self._most or self._bytes > self._size:
            self._bytes -= len(self._kept.popleft())
            self.dropped += 1

    def take(self) -> tuple[list[bytes], int]:
        """What was kept, oldest first, and how many before it were dropped; then it is empty."""
        kept, dropped = list(self._kept), self.dropped
        self.clear()
        return kept, dropped

    def clear(self) -> None:
        """Forget all of it."""
        self._kept.clear()
        self._bytes = self.dropped = 0
