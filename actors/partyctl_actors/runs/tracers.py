"""Where the events of runs may go: into memory, into a queue, and as lines of JSON into a file.

Each may be given to any number of sessions; every event says which run it is of. OpenTelemetry is in spans.py.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import TextIO

from partyctl_actors.runs.tracing import RunEvent
from partyctl_actors.transcript import Envelope
from partyctl_base.jsontext import json_text

QUEUE_MAX = 10_000
"""Events that a queue holds unless told otherwise."""


class MemoryTracer:
    """Keeps every event, for tests and notebooks: it grows with the run."""

    def __init__(self) -> None:
        self.events: list[RunEvent] = []
        """What happened, in order."""

    def names(self) -> list[str]:
        """The class name of each event, in order."""
        return [type(event).__name__ for event in self.events]

    def record(self, event: RunEvent) -> None:
        """See `Tracer.record`."""
        self.events.append(event)


class QueueTracer:
    """A queue between a run and whoever reads its events, on any thread. When it is full the oldest event is dropped.

    Args:
        size: events that it holds, at most.

    Raises:
        ValueError: a size below 1.
    """

    def __init__(self, size: int = QUEUE_MAX) -> None:
        if size < 1:
            raise ValueError(f"QueueTracer(size=...) is at least 1, not {size}")
        self.dropped = 0
        """Events that nobody took in time."""
        self._events: deque[RunEvent] = deque(maxlen=size)
        self._changed = threading.Condition()

    @property
    def pending(self) -> int:
        """Events that wait to be taken."""
        return len(self._events)

    def take(self, timeout: float | None = 0.0) -> RunEvent | None:
        """The oldest event that was not taken; None if none came.

        Args:
            timeout: seconds to wait for one; None waits for as long as it takes. Not for use on the run's own thread.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._events, timeout)
            return self._events.popleft() if self._events else None

    def record(self, event: RunEvent) -> None:
        """See `Tracer.record`."""
        with self._changed:
            self.dropped += len(self._events) == self._events.maxlen
            self._events.append(event)
            self._changed.notify()


class JsonLinesTracer:
    """Writes each event as one line of JSON: `event` (its class), `at` (seconds since 1970), and its attributes.

    A message is written with its sender, receiver, label and fields. Text is escaped to ASCII, so that no character of
    it can break a line.

    Args:
        file: open for writing text; it is flushed after each line and never closed here.
        clock: the time of day, in seconds since 1970.
    """

    def __init__(self, file: TextIO, *, clock: Callable[[], float] = time.time) -> None:
        self._file = file
        self._clock = clock

    def record(self, event: RunEvent) -> None:
        """See `Tracer.record`."""
        row = {"event": type(event).__name__, "at": round(self._clock(), 6), **attributes(event)}
        self._file.write(json_text(row, ensure_ascii=True, default=repr) + "\n")
        self._file.flush()


def attributes(event: object) -> dict[str, object]:
    """The attributes of an event as plain values."""
    return {name: _plain(value) for name, value in _fields(event).items()}


def _plain(value: object) -> object:
    if isinstance(value, Envelope):
        message = value.message
        names = {"sender": value.sender.name, "receiver": value.receiver.name, "label": message.label}
        return {**names, "fields": message.to_wire()}
    if is_dataclass(value) and not isinstance(value, type):
        return {"kind": type(value).__name__, **attributes(value)}
    return value


def _fields(event: object) -> dict[str, object]:
    return {one.name: getattr(event, one.name) for one in fields(event)} if is_dataclass(event) else {}
