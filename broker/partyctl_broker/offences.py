"""Who does what no peer of ours does, and how much of it in a second; pure.

What is hardly ever done weighs something, what is never done a hundred times as much; over OFFENCES_MAX within a second
a connection is to be shown out. Letters that find a full queue weigh nothing, as peers of ours write them too. But a
peer of ours then stops the road, for longer each time (stream.py), so that REFUSED_MAX bytes of one road in a second
are more than it could have written.
"""

from typing import Final

OFFENCES_MAX: Final = 10_000
"""By their weight."""
GRAVE: Final = 100
"""The weight of what no peer of ours does: a message without form, a letter from another's address."""
STRAY: Final = 1
"""The weight of a letter to an address that nobody has, which peers of ours may write when somebody has left."""
REFUSED: Final = 1000
"""The weight of a HELLO that is refused."""
FORBIDDEN: Final = 10
"""The weight of each claim of a HELLO that no rule covers, but for the first, which weighs GRAVE; at most REFUSED."""
MUTE: Final = 10
"""The weight of a pair that is no HELLO, of somebody who has not said HELLO."""
STRANGE: Final = 1000
"""The weight of a message that is no HELLO, or one that is refused, of somebody who has not said HELLO: peers of ours
begin with one on each connection."""
STRANGE_BYTES: Final = 1024
"""Bytes of it that weigh 1 more."""
FORGIVEN: Final = 1.0
"""Seconds after which what is held against anybody is forgotten."""
REFUSED_MAX: Final = 64 * 1024 * 1024
"""Bytes of one road that may find a full queue in that time."""


class Offences:
    """What is held against whom. Times are in seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._weights: dict[bytes, int] = {}
        self._refused: dict[tuple[bytes, bytes], int] = {}
        self._forgives: float | None = None

    def __bool__(self) -> bool:
        """Whether anything is held against anybody."""
        return bool(self._weights or self._refused)

    def note(self, connection: bytes, weight: int) -> None:
        """Something of this weight was done."""
        self._weights[connection] = self._weights.get(connection, 0) + weight

    def refuse(self, connection: bytes, frame: bytes, size: int) -> None:
        """A letter of so many bytes found a full queue at the end of its road."""
        road = connection, frame
        self._refused[road] = refused = self._refused.get(road, 0) + size
        if refused > REFUSED_MAX:
            self.note(connection, OFFENCES_MAX + 1)

    def is_over(self, connection: bytes) -> bool:
        """Whether that was too much."""
        return self._weights.get(connection, 0) > OFFENCES_MAX

    def judge(self, now: float) -> list[bytes]:
        """Those who did too much; what is too old is forgotten. To be called as long as anything is held."""
        found = [connection for connection in self._weights if self.is_over(connection)]
        if self._forgives is None:
            self._forgives = now + FORGIVEN
        elif now >= self._forgives:
            self._forgives = None
            self._weights.clear()
            self._refused.clear()
        return found

    def drop(self, connection: bytes) -> None:
        """The connection is over."""
        self._weights.pop(connection, None)
