"""Who was shown out is not let in again for a while, longer each time; pure.

That is the principal, and the process if the principal is not known: a message without an end begins before HELLO.

Without that, whoever is shown out comes back at once and goes on: others' p99 was 4 to 8 times that of undisturbed
beside floods that begin again with a HELLO (measured). Connections of the principal that are there stay.
"""

from typing import Final, NamedTuple

BAN_FIRST: Final = 1.0
BAN_LAST: Final = 60.0
"""Seconds. Each is twice the one before, until it behaved for BAN_LAST."""


class _Ban(NamedTuple):
    until: float
    seconds: float
    why: str


class Bans:
    """Who is not let in. Times are in seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._bans: dict[str, _Ban] = {}

    def __bool__(self) -> bool:
        """Whether anybody was shown out of late."""
        return bool(self._bans)

    def add(self, name: str, why: str, now: float) -> float:
        """A connection of a principal or a process was shown out.

        Args:
            name: of the principal or process; nobody if it is empty.
            why: what for.
            now: the time.

        Returns:
            Seconds that it is not let in from now on.
        """
        self._bans = {one: ban for one, ban in self._bans.items() if now - ban.until <= BAN_LAST}
        if not name:
            return 0.0
        former = self._bans.get(name, _Ban(now, 0.0, ""))
        if now < former.until:
            return former.until - now
        seconds = min(2 * former.seconds, BAN_LAST) or BAN_FIRST
        self._bans[name] = _Ban(now + seconds, seconds, why)
        return seconds

    def names(self, now: float) -> frozenset[str]:
        """Who is not let in."""
        return frozenset(name for name, ban in self._bans.items() if now < ban.until)

    def told(self, now: float) -> dict[str, tuple[float, str]]:
        """For how many seconds more each of them is not let in, and why."""
        return {name: (ban.until - now, ban.why) for name, ban in self._bans.items() if now < ban.until}
