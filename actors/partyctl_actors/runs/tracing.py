"""Watching a run: events, and the tracer that receives them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from partyctl_actors.transcript import Envelope

_log = logging.getLogger("partyctl.runs")


@dataclass(frozen=True, slots=True)
class RunStarted:
    """Every role is in its place."""

    run_id: str


@dataclass(frozen=True, slots=True)
class TurnGranted:
    """A role was asked to speak. `turn` counts from 1."""

    run_id: str
    turn: int
    role: str
    receiver: str


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message reached its receiver's role; `recalled` if it was said in an earlier life of the run."""

    run_id: str
    turn: int
    envelope: Envelope
    recalled: bool = False


@dataclass(frozen=True, slots=True)
class Reported:
    """Something a role's participant noticed while it worked, such as a provider's event."""

    run_id: str
    role: str
    event: object


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The protocol is complete after so many turns."""

    run_id: str
    turns: int


@dataclass(frozen=True, slots=True)
class RunFailed:
    """The run stopped early: who is to blame (None: nobody in particular), and why."""

    run_id: str
    turn: int
    role: str | None
    reason: str


RunEvent: TypeAlias = RunStarted | TurnGranted | Delivered | Reported | RunEnded | RunFailed


class Tracer(Protocol):
    """Receives what happens in a run. Called on the event loop: it must not block."""

    def record(self, event: RunEvent) -> None:
        """Take note of `event`."""
        ...


class _Watching:
    def __init__(self, watcher: Callable[[RunEvent], None]) -> None:
        self._watcher = watcher

    def record(self, event: RunEvent) -> None:
        self._watcher(event)


def watching(watcher: Callable[[RunEvent], None]) -> Tracer:
    """A tracer that calls `watcher` with every event."""
    return _Watching(watcher)


def both(first: Tracer, second: Tracer | None) -> Tracer:
    """A tracer that tells one and then the other; the second may raise without harm to the first."""
    if second is None:
        return first
    tell_second = harmless(second)

    def record(event: RunEvent) -> None:
        first.record(event)
        tell_second(event)

    return watching(record)


def harmless(tracer: Tracer) -> Callable[[RunEvent], None]:
    """`tracer.record`, except that what it raises is logged: nobody who watches a run can end it."""

    def record(event: RunEvent) -> None:
        try:
            tracer.record(event)
        except Exception:
            _log.exception("A tracer failed at %s; the run goes on", type(event).__name__)

    return record
