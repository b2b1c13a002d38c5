"""Who was shown out is not let in again for a while, longer each time; pure.

That is the principal, and the process if the principal is not known: a message without an end begins before HELLO.

Without that, whoever is shown out comes back at once and goes on: others' p99 was 4 to 8 times that of undisturbed
beside floods that begin again with a HELLO (measured). Connections of the principal that are there stay.
"""

from typing import Final

BAN_FIRST: Final = 1.0
BAN_LAST: Final = 60.0
"""Seconds. Each is twice the one before, until it behaved for BAN_LAST."""


class Bans:
    """Who is not let in. Times are in seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._bans: dict[str, tuple[float, float]] = {}

    def __bool__(self) -> bool:
        """Whether anybody was shown out of late."""
        return bool(self._bans)

    def add(self, name: str, now: float) -> None:
        """A connection of a principal or a process was shown out; nobody if the name is empty."""
        self._bans = {one: ban for one, ban in self._bans.items() if now - ban[0] <= BAN_LAST}
        until, seconds = self._bans.get(name, (now, 0.0))
        if name and now >= until:
            seconds = min(2 * seconds, BAN_LAST) or BAN_FIRST
            self._bans[name] = now + seconds, seconds

    def names(self, now: float) -> frozenset[str]:
        """Who is not let in."""
        return frozenset(name for name, (until, _) in self._bans.items() if now < until)
