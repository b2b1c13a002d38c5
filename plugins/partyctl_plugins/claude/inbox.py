"""What was read from a CLI process and not yet taken: the one place where the pump and the turn meet."""

import threading
from collections import deque
from dataclasses import dataclass
from typing import TypeAlias

from partyctl_base.clock import Clock
from partyctl_plugins.claude.frames import Frame, Noise

INBOX_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Ended:
    """The process is gone; `returncode` is minus the signal number if a signal ended it."""

    returncode: int


@dataclass(frozen=True, slots=True)
class Broken:
    """The process lives, but cannot be talked to any more."""

    why: str


Item: TypeAlias = Frame | Noise | Ended | Broken


class Inbox:
    """What the pump has read and nobody has taken. Thread-safe; bounded by the pump, which looks at `full`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._items: deque[tuple[int, Item]] = deque()
        self._bytes = 0
        self._attended = True
        self._nudged = False

    @property
    def full(self) -> bool:
        """Whether no more should be put."""
        with self._changed:
            return self._bytes >= INBOX_BYTES

    def put(self, item: Item, size: int = 0) -> None:
        """Add an item that took `size` bytes to say; dropped if nobody attends and it is no last word."""
        with self._changed:
            if self._attended or isinstance(item, Ended | Broken):
                self._items.append((size, item))
                self._bytes += size
                self._changed.notify_all()

    def attend(self, reading: bool) -> None:
        """Whether somebody reads. When nobody does, everything but the last words is dropped."""
        with self._changed:
            self._attended = reading
            if not reading:
                self._items = deque((size, item) for size, item in self._items if isinstance(item, Ended | Broken))
                self._bytes = 0

    def nudge(self) -> None:
        """Have `get` return, to look at what has changed."""
        with self._changed:
            self._nudged = True
            self._changed.notify_all()

    def get(self, deadline: float | None) -> Item | None:
        """The next item; None at `deadline` (by the clock; None: no limit) or after a nudge."""
        with self._changed:
            while not self._items and not self._nudged:
                left = None if deadline is None else deadline - self._clock.monotonic()
                if left is not None and left <= 0:
                    return None
                self._changed.wait(left)
            self._nudged = False
            if not self._items:
                return None
            size, item = self._items.popleft()
            self._bytes = max(0, self._bytes - size)
            return item
