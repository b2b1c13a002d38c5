"""What waits to be sent on a link, in order and within bounds; pure."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

TOGETHER: Final = 32
"""Pairs that are put together into one message: more cost hardly less, and the broker works on these meanwhile."""
LETTERS_MAX: Final = 100_000
BYTES_MAX: Final = 64 * 1024 * 1024
"""What may wait before a sender is refused."""
MESSAGE_BYTES: Final = 64 * 1024
"""Bytes of envelopes that are put together into one message; a larger envelope travels alone."""


class Outbox:
    """A queue of pairs that leaves in messages of several pairs: a message costs far more than a pair (measured)."""

    def __init__(self) -> None:
        self._pairs: deque[tuple[bytes, bytes]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._pairs)

    @property
    def size(self) -> int:
        """Bytes of all envelopes that wait."""
        return self._bytes

    @property
    def is_message(self) -> bool:
        """Whether what waits makes up whole messages, so that nothing is gained by waiting for more of it."""
        return not len(self._pairs) % TOGETHER

    @property
    def is_full(self) -> bool:
        """Whether a letter would be one too many."""
        return len(self._pairs) >= LETTERS_MAX or self._bytes >= BYTES_MAX

    def push(self, frame: bytes, envelope: bytes) -> None:
        """Queue a pair. The bounds are the caller's to ask for: what the bus itself says always goes in."""
        self._pairs.append((frame, envelope))
        self._bytes += len(envelope)

    def drain(self, send: Callable[[Sequence[bytes]], bool]) -> None:
        """Hand messages to `send` until it has no room or nothing waits."""
        while self._pairs:
            frames, size = self._next_message()
            if not send(frames):
                return
            for _ in range(0, len(frames), 2):
                self._pairs.popleft()
            self._bytes -= size

    def clear(self) -> None:
        """Throw away what waits."""
        self._pairs.clear()
        self._bytes = 0

    def _next_message(self) -> tuple[list[bytes], int]:
        frames: list[bytes] = []
        size = 0
        for frame, envelope in self._pairs:
            if frames and (size + len(envelope) > MESSAGE_BYTES or len(frames) >= 2 * TOGETHER):
                break
            frames += (frame, envelope)
            size += len(envelope)
        return frames, size
