"""Which connections of a ROUTER socket are over; pure but for the probe it is handed.

ZeroMQ tells a ROUTER's owner the death of a connection only through the socket's monitor, and the monitor names a
file descriptor, not a routing id. The first message of a connection carries the descriptor it came by, which joins
the two. As a descriptor may be reused before its event is read, an event is a suspicion only; the proof is that the
ROUTER refuses to send there (EHOSTUNREACH), which it does as soon as the connection's pipe is being taken down. What
the dead peer sent before is then in the pipe already, so one read of the socket until it is empty has read its last
message. (ZMQ_ROUTER_NOTIFY would say all this in one message, but is not in released builds of libzmq 4.3.)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

PROBES: Final = 6
"""Probes that get through before a suspicion is dropped: the descriptor was reused, the connection lives."""
PROBE_INTERVAL: Final = 0.002
"""Seconds to the second probe of a suspect; doubles."""
DRAIN_LIMIT: Final = 1.0
"""Seconds after which a proven death is announced although the socket was never seen empty."""


@dataclass(slots=True)
class _Suspect:
    probes: int
    due: float
    proven: float | None = None


class Liveness:
    """Joins descriptors with connections, and keeps the suspicions. Times are in seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._descriptors: dict[bytes, int] = {}
        self._connections: dict[int, bytes] = {}
        self._suspects: dict[bytes, _Suspect] = {}

    def __len__(self) -> int:
        return len(self._descriptors)

    @property
    def suspects(self) -> bool:
        """Whether anybody is under suspicion."""
        return bool(self._suspects)

    def met(self, connection: bytes, descriptor: int) -> bytes | None:
        """A connection was heard over a descriptor; the connection that had the descriptor before, which is over."""
        former = self._connections.get(descriptor)
        self._descriptors[connection] = descriptor
        self._connections[descriptor] = connection
        return former if former != connection else None

    def descriptor(self, connection: bytes) -> int | None:
        """The descriptor a connection was heard over, as long as it is not known to be over."""
        return None if connection in self._suspects else self._descriptors.get(connection)

    def connection(self, descriptor: int) -> bytes | None:
        """The connection that was heard over a descriptor."""
        return self._connections.get(descriptor)

    def disconnected(self, descriptor: int, now: float) -> None:
        """The monitor says that the connection over a descriptor was closed."""
        connection = self._connections.get(descriptor)
        if connection is not None and connection not in self._suspects:
            self._suspects[connection] = _Suspect(0, now)

    def probe(self, now: float, reachable: Callable[[bytes], bool]) -> None:
        """Probe the suspects that are due; `reachable` sends an empty message."""
        for connection, suspect in list(self._suspects.items()):
            if suspect.proven is not None or suspect.due > now:
                continue
            if not reachable(connection):
                suspect.proven = now
            elif suspect.probes >= PROBES:
                del self._suspects[connection]
            else:
                suspect.due = now + PROBE_INTERVAL * 2**suspect.probes
                suspect.probes += 1

    def over(self, now: float, empty: bool) -> list[bytes]:
        """The connections that are proven dead and whose mail has been read; they are forgotten.

        Args:
            now: the time.
            empty: the socket was seen empty after the last probe.
        """
        found = [
            connection
            for connection, suspect in self._suspects.items()
            if suspect.proven is not None and (empty or now - suspect.proven > DRAIN_LIMIT)
        ]
        for connection in found:
            self.forget(connection)
        return found

    def forget(self, connection: bytes) -> None:
        """Drop all that is known about a connection."""
        self._suspects.pop(connection, None)
        descriptor = self._descriptors.pop(connection, None)
        if descriptor is not None and self._connections.get(descriptor) == connection:
            del self._connections[descriptor]

    def wait(self, now: float) -> float | None:
        """Seconds until a suspect is due; None if nobody is under suspicion."""
        if not self._suspects:
            return None
        return max(0.0, min(suspect.due for suspect in self._suspects.values()) - now)
