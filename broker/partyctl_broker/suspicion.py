"""The connections as the guard of the memory sees them, which may look between any two steps of the loop."""

from collections.abc import Mapping

from partyctl_broker.large import LargeLetters
from partyctl_broker.lookout import Lookout
from partyctl_broker.sockets import cut_off, process


class Suspicion:
    """What the guard asks for (`guard.Watched`). Touches nothing but descriptors and sets of its own.

    Args:
        lookout: the connections.
        reading: those that a message came from in the present turn of the loop.
        large: the large letters.
    """

    def __init__(self, lookout: Lookout, reading: Mapping[bytes, object], large: LargeLetters) -> None:
        self._lookout, self._reading, self._large = lookout, reading, large
        self.seen: set[bytes] = set()
        """Connections that a message came from; the loop adds to it."""
        self.rounds = 0
        """How often the loop has listened to everybody; the loop counts."""
        self._rounds = 0
        self._bytes = 0
        self.guilty: list[tuple[bytes | None, str]] = []
        """Who was cut off: connection and process."""

    def descriptors(self) -> list[int]:
        """The descriptors of all connections."""
        return list(self._lookout.crowd.descriptors)

    def has_read(self) -> bool:
        """Whether everybody was listened to since this was last asked and true."""
        former, self._rounds = self._rounds, self.rounds
        return self.rounds > former

    def heard(self) -> set[int]:
        """The descriptors of those that are new, or that a message came from, since this was last asked."""
        descriptor, fresh = self._lookout.liveness.descriptor, self._lookout.fresh
        found = {descriptor(connection) for connection in (*self.seen, *self._reading)} | fresh
        self.seen.clear()
        fresh.clear()
        return {one for one in found if one is not None}

    def passed(self) -> tuple[int, int]:
        """Bytes of large letters that came since this was last asked; how many connections sent huge ones of late."""
        former, self._bytes = self._bytes, self._large.bytes
        return self._bytes - former, len(self._large.senders)

    def cut(self, descriptor: int) -> None:
        """End a connection."""
        self.guilty.append((self._lookout.liveness.connection(descriptor), process(descriptor)))
        cut_off(descriptor)
