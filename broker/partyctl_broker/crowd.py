"""How many connections there are, and how many there may be; pure.

Each costs a descriptor. ZeroMQ ends the process when it has none left to accept an ipc connection with (seen: "Too many
open files (src/ipc_listener.cpp)"), and spins on tcp. So there are two marks below the limit: over the first a peer is
refused in the handshake, by name; over the second the doors are shut, because connections that never finish
their handshake cannot be refused by name. ZeroMQ accepts on a thread of its own, which waits for us only when the
monitor holds MONITOR_MAX events. With a limit of LIMIT_MIN or more the second mark leaves room for those, and a broker
that may not have so many does not start.
"""

from typing import Final

MONITOR_MAX: Final = 1001
"""Events that the monitor holds: ZeroMQ's own 1,000, which cannot be changed, and our one."""
RESERVE: Final = 1280
"""Descriptors between the first mark and the limit; the second mark takes an eighth of them."""
LIMIT_MIN: Final = 4096
"""Descriptors that a broker needs."""
HANDSHAKE_LIMIT: Final = 5.0
"""Seconds a handshake may take; ZeroMQ ends the connection then."""


class Crowd:
    """The connections by descriptor, as the monitor tells of them.

    Args:
        limit: how many descriptors this process may use.
    """

    def __init__(self, limit: int) -> None:
        reserve = RESERVE if limit >= LIMIT_MIN else max(64, limit // 4)
        self.most = limit - reserve
        """Connections over which nobody is let in."""
        self._shut_over = self.most + reserve // 8
        self._open: set[int] = set()
        self._waiting = 0
        self._last = 0.0

    def __len__(self) -> int:
        return len(self._open)

    @property
    def descriptors(self) -> frozenset[int]:
        """The descriptors of the connections."""
        return frozenset(self._open)

    def accepted(self, descriptor: int, now: float) -> None:
        """A connection came in."""
        self._open.add(descriptor)
        self._waiting += 1
        self._last = now

    def settled(self) -> None:
        """A handshake ended, well or not."""
        self._waiting = max(0, self._waiting - 1)

    def closed(self, descriptor: int) -> None:
        """A connection ended."""
        self._open.discard(descriptor)

    def is_quiet(self, now: float) -> bool:
        """Whether no handshake is under way."""
        return self._waiting == 0 or now - self._last > HANDSHAKE_LIMIT

    @property
    def is_full(self) -> bool:
        """Whether a further peer is refused."""
        return len(self._open) > self.most

    @property
    def is_overrun(self) -> bool:
        """Whether even a refusal could cost the last descriptor."""
        return len(self._open) > self._shut_over
