"""Whose mail has to wait when the broker is busy; pure.

ZeroMQ reads all connections in turn and cannot be told to leave one alone, so a peer that sends as fast as it can keeps
the broker, and the machine, busy all the time. As long as nobody else wants anything that is as it should be. When
others do, the broker rests after it has worked for the busy ones, three times as long as the work took, and any other
mail ends the rest at once: what the busy ones sent is in their queues already and wakes nobody.

Work is counted in microseconds, by a rule and not by the clock, so that it does not hang on the machine's load. A
connection is busy if it takes BUSY of a window. Others want something if those who are not busy, and write to somebody
who is not busy either, take OTHERS of one: the two ends of a stream are never in each other's way.
"""

from collections import deque
from typing import Final

WINDOW: Final = 0.01
"""Seconds over which work is counted."""
RECENT: Final = 5
"""Windows after which it is forgotten that somebody wanted something."""
BUSY: Final = 0.1
"""The part of a window from which on a connection is busy."""
STILL_BUSY: Final = 0.005
"""The same for one that was busy in the last window: it takes less because it is made to wait."""
ENOUGH: Final = int(BUSY * WINDOW * 1e6)
"""Microseconds of work in a window after which its end is not waited for."""
OTHERS: Final = 0.01
"""The part of a window that all others together have to take, in the last windows, to want something."""
REST: Final = 3
"""How much longer than the work the rest is. With 1 others' p99 beside a flood was 1.1 ms, with 3 0.7 (measured on a
loaded machine; 0.3 undisturbed): the less the broker works, the sooner the kernel lets the others run."""
REST_MAX: Final = 0.0003
"""Seconds of rest that are owed at most. ZeroMQ may swallow a call in the middle of a message, so a rest is also the
longest that a caller waits unheard."""

LETTER: Final = 10
"""Microseconds that a message costs which goes on."""
PAIR: Final = 2
"""The same for each further pair of it."""
ASKED: Final = 20
"""The same for a pair that the table is asked about."""
HELLO_BYTES: Final = 8
"""Bytes of a HELLO or BYE that cost a microsecond."""
PER_KIB: Final = 1
"""The same for a KiB of a large envelope."""


class _Window:
    """What was done in a window of time: work by connection, in microseconds, and whom each has written to."""

    __slots__ = ("spent", "wrote")

    def __init__(self) -> None:
        self.spent: dict[bytes, int] = {}
        self.wrote: dict[bytes, set[bytes]] = {}


class Shares:
    """Who is busy. Times are in seconds of a monotonic clock."""

    def __init__(self) -> None:
        self.busy: frozenset[bytes] = frozenset()
        """The connections that have to wait; empty as long as they are in nobody's way."""
        self.spent: dict[bytes, int] = {}
        """Work since the last `note`, microseconds by connection; the shell adds to it. Always the same mapping."""
        self._window = _Window()
        self._recent: deque[_Window] = deque(maxlen=RECENT - 1)
        self._began = 0.0
        self._rested = 0.0

    @property
    def wrote(self) -> dict[bytes, set[bytes]]:
        """Whom each connection has written to in the present window; the shell adds to it, until it calls `note`."""
        return self._window.wrote

    def charge(self, connection: bytes, cost: int) -> None:
        """Work was done for a connection, microseconds."""
        self.spent[connection] = self.spent.get(connection, 0) + cost

    def note(self, now: float) -> None:
        """Count what was spent, and judge; a turn of the loop is over."""
        window = self._window.spent
        for connection, cost in self.spent.items():
            window[connection] = work = window.get(connection, 0) + cost
            if work >= ENOUGH and connection not in self.busy and self._others_want(self.busy | {connection}):
                self.busy |= {connection}
        self.spent.clear()
        if now - self._began >= WINDOW:
            self._judge(now - self._began)
            self._began, self._window = now, _Window()

    def _judge(self, seconds: float) -> None:
        if seconds > RECENT * WINDOW:
            self._recent.clear()  # nothing happened for a while
        most = seconds * 1e6
        busy = {
            connection
            for connection, cost in self._window.spent.items()
            if cost >= most * (STILL_BUSY if connection in self.busy else BUSY)
        }
        self.busy = frozenset(busy) if busy and self._others_want(busy) else frozenset()
        self._recent.append(self._window)

    def _others_want(self, busy: set[bytes] | frozenset[bytes]) -> bool:
        left = OTHERS * WINDOW * 1e6
        for window in (*self._recent, self._window):
            for connection, cost in window.spent.items():
                if connection not in busy and not busy.issuperset(window.wrote.get(connection, ())):
                    left -= cost
                    if left <= 0:
                        return True
        return False

    def rest(self, worked: int, now: float) -> None:
        """Work was done for busy ones, microseconds: REST times as much rest is owed."""
        self._rested = min(max(self._rested, now) + REST * worked / 1e6, now + REST_MAX)

    def wait(self, now: float) -> float:
        """Seconds of rest that are owed."""
        return max(0.0, self._rested - now)
