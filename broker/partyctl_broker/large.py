"""Large letters: how much came in them, and who sends huge ones; pure."""

from typing import Final

LARGE: Final = 4 * 1024
"""Bytes of an envelope, or of the further ones of a message, from which on it is counted."""
HUGE: Final = 256 * 1024
"""Bytes of an envelope over which the next ones of its sender are not copied on their way. That saves 640 us with
4 MiB, and costs 0.4 with a small letter."""
FORGOTTEN: Final = 1.0
"""Seconds after which that is over."""


class LargeLetters:
    """What came of late. Times are in seconds of a monotonic clock."""

    def __init__(self) -> None:
        self.bytes = 0
        """How much has come, all told."""
        self.senders: set[bytes] = set()
        """The connections that sent a huge one of late. Read-only, and always the same set."""
        self._latest: set[bytes] = set()
        self._forgets = 0.0

    def note(self, origin: bytes, size: int) -> None:
        """An envelope of so many bytes came."""
        self.bytes += size
        if size > HUGE:
            self.senders.add(origin)
            self._latest.add(origin)

    def forget(self, now: float) -> None:
        """Forget what is too old. To be called as long as there are senders."""
        if now >= self._forgets:
            self._forgets = now + FORGOTTEN
            self.senders &= self._latest
            self._latest.clear()
