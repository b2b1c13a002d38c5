"""Principals that were shown out are not let in again for a while, longer each time; pure.

Without that, whoever is shown out comes back at once and goes on: others' p99 was 4 to 8 times that of undisturbed
beside floods that begin again with a HELLO (measured). Connections of the principal that are there stay.
"""

from typing import Final

BAN_FIRST: Final = 1.0
BAN_LAST: Final = 60.0
"""Seconds. Each is twice the one before, until the principal behaved for BAN_LAST."""


class Bans:
    """Who is not let in. Times are in seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._bans: dict[str, tuple[float, float]] = {}

    def add(self, principal: str, now: float) -> None:
        """A connection of the principal was shown out."""
        until, seconds = self._bans.get(principal, (now, 0.0))
        if now < until:
            return
        seconds = BAN_FIRST if not seconds or now - until > BAN_LAST else min(2 * seconds, BAN_LAST)
        self._bans[principal] = now + seconds, seconds

    def names(self, now: float) -> frozenset[str]:
        """The principals that are not let in."""
        return frozenset(name for name, (until, _) in self._bans.items() if now < until)
