"""The connections that an agent session holds, by the serial of the `Open` that made them. Usable from any thread."""

from __future__ import annotations

import threading
from collections.abc import Container

from partyctl_actors.supervision.engine import Connection


class OpenConnections:
    """All connections of one session that are not closed yet; most of the time one or none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[int, Connection] = {}

    def __contains__(self, connection: Connection) -> bool:
        return connection in self._all().values()

    def __getitem__(self, serial: int) -> Connection:
        return self._all()[serial]

    def add(self, serial: int, connection: Connection) -> None:
        """Hold a connection."""
        with self._lock:
            self._open[serial] = connection

    def close(self, serial: int) -> None:
        """Close the connection of this serial; nothing happens if it is closed already.

        It is held until it is closed, so that one whose closing is interrupted, by a Ctrl-C, is closed another time.
        """
        connection = self._all().get(serial)
        if connection is not None:
            connection.close()
            with self._lock:
                self._open.pop(serial, None)

    def close_others(self, needed: Container[int | None]) -> None:
        """Close every connection whose serial is not among the needed ones."""
        for serial in self._all():
            if serial not in needed:
                self.close(serial)

    def interrupt(self) -> None:
        """Have the turn that runs in any of them end. Returns at once."""
        for connection in self._all().values():
            connection.interrupt()

    @property
    def dead(self) -> list[int]:
        """The serials of those that no turn can be asked of any more."""
        return [serial for serial, connection in self._all().items() if not connection.alive]

    @property
    def conversation_id(self) -> str | None:
        """The conversation of the oldest one; None if there is none, or it has no name yet."""
        return next((each.conversation_id for each in self._all().values()), None)

    def _all(self) -> dict[int, Connection]:
        with self._lock:
            return dict(self._open)
