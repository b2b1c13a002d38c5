"""Time as an argument: the clock and the signal that ends a wait early."""

import threading
import time
from typing import Protocol


class StopSignal:
    """Ends waits early. Thread-safe; once set it stays set."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """End every present and later wait on this signal."""
        self._event.set()

    def is_set(self) -> bool:
        """Whether `set` was called."""
        return self._event.is_set()

    def wait(self, seconds: float | None) -> bool:
        """Wait until set, at most `seconds` (None: without limit). True if it is set."""
        return self._event.wait(None if seconds is None else min(seconds, threading.TIMEOUT_MAX))


class Clock(Protocol):
    """Where time comes from. Everything that waits, waits here, so that tests need not."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back."""
        ...

    def wait(self, seconds: float, stop: StopSignal) -> bool:
        """Wait `seconds` or until `stop` is set. True if it was stopped early."""
        ...


class SystemClock:
    """The machine's own clock."""

    def monotonic(self) -> float:
        return time.monotonic()

    def wait(self, seconds: float, stop: StopSignal) -> bool:
        return stop.wait(max(0.0, seconds))
