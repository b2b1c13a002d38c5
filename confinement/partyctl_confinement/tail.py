"""The last bytes of a stream, in bounded memory."""

from typing import Final

TAIL_MAX: Final = 16 * 1024
"""Bytes of a worker's output that its exit notice carries."""


class Tail:
    """Keeps the last `longest` bytes of what is fed to it; holds at most twice as many."""

    def __init__(self, longest: int = TAIL_MAX) -> None:
        self._longest = longest
        self._kept = bytearray()

    def feed(self, piece: bytes) -> None:
        """Take the next piece of the stream."""
        self._kept += piece[-self._longest :]
        if len(self._kept) > 2 * self._longest:
            del self._kept[: -self._longest]

    def bytes(self) -> bytes:
        """The last of what was fed."""
        return bytes(self._kept[-self._longest :])
