"""The compiled form of a protocol: a graph of integer states.

Rules of the compilation:

1. One state per interaction and number of loop heads entered on the way to it; one `End`.
2. What follows a choice is one shared continuation, however many branches lead to it, so the graph is
   linear in the declaration, and so is a declaration in which one step object is used in many places.
3. A `repeat` is an edge back to the head of its loop, which it enters anew.
4. Nothing here recurses: ten thousand steps in a line, or nested in each other, compile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import NamedTuple

from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.role import Role
from partyctl_actors.protocol.steps import Exchange, Loop, Step, falls_through, has_free_repeat


@dataclass(frozen=True, slots=True)
class Arm:
    """One message that may be sent in an interaction, and the state that follows it."""

    kind: type[Message]
    next: int


@dataclass(frozen=True, slots=True)
class Interaction:
    """A state in which `sender` authors one of `arms` for `receiver`.

    Attributes:
        arms: label to arm, in the order of declaration.
        within: the time the sender has; None is no limit.
        unfolds: how many loop heads are entered on reaching this state.
    """

    sender: Role
    receiver: Role
    arms: Mapping[str, Arm]
    within: timedelta | None
    unfolds: int


@dataclass(frozen=True, slots=True)
class End:
    """The state in which the protocol is complete."""


@dataclass(frozen=True)
class Graph:
    """The states of a protocol; an arm's `next` and `start` are indices into `states`."""

    states: tuple[Interaction | End, ...]
    start: int


class _Frame(NamedTuple):
    """One sequence of steps in its place: what follows it, and the loop that a `repeat` in it means.

    Frames are compared by identity (`number`); `_Compiler` makes no two that mean the same.
    """

    number: int
    steps: tuple[Step, ...]
    after: _Place | None
    loop: _Place | None


class _Place(NamedTuple):
    """A step about to be taken: `frame.steps[at]`."""

    frame: _Frame
    at: int


class _Row(NamedTuple):
    """What the compiler needs to know of a row of steps, looked at once."""

    number: int
    falls_through: bool
    free_repeat: bool


_StateKey = tuple[int, int, int]
_FrameKey = tuple[int, tuple[int, int] | None, tuple[int, int] | None]
_END: _StateKey = (-1, 0, 0)


class _Compiler:
    def __init__(self) -> None:
        self._rows: dict[int, _Row] = {}
        self._same_rows: dict[tuple[int, ...], _Row] = {}
        self._frames: dict[_FrameKey, _Frame] = {}
        self._numbers: dict[_StateKey, int] = {}
        self._found: list[tuple[_Place, int] | None] = []

    def compile(self, steps: tuple[Step, ...]) -> Graph:
        start = self._state(self._enter(steps, None, None))
        states: list[Interaction | End] = []
        while len(states) < len(self._found):
            found = self._found[len(states)]
            states.append(End() if found is None else self._interaction(*found))
        return Graph(tuple(states), start)

    def _interaction(self, place: _Place, unfolds: int) -> Interaction:
        step = place.frame.steps[place.at]
        assert isinstance(step, Exchange)
        after = _following(place)
        arms = {
            kind.label: Arm(kind, self._state(self._enter(branch, after, place.frame.loop)))
            for kind, branch in step.branches
        }
        return Interaction(step.sender, step.receiver, MappingProxyType(arms), step.within, unfolds)

    def _enter(self, steps: tuple[Step, ...], after: _Place | None, loop: _Place | None) -> _Place | None:
        """The place where `steps` begin when `after` follows them."""
        if not steps:
            return after
        # What cannot matter is left out of the key, so that more sequences are recognised as the same.
        row = self._row(steps)
        after = after if row.falls_through else None
        loop = loop if row.free_repeat else None
        key = (row.number, _name(after), _name(loop))
        frame = self._frames.get(key)
        if frame is None:
            frame = self._frames[key] = _Frame(len(self._frames), steps, after, loop)
        return _Place(frame, 0)

    def _row(self, steps: tuple[Step, ...]) -> _Row:
        # By identity, which is safe while the declaration is alive, and without reading a long row again.
        row = self._rows.get(id(steps))
        if row is None:
            fresh = _Row(len(self._same_rows), falls_through(steps), has_free_repeat(steps))
            row = self._rows[id(steps)] = self._same_rows.setdefault(tuple(map(id, steps)), fresh)
        return row

    def _state(self, place: _Place | None) -> int:
        """The number of the state that begins at `place`, found by going through loop heads and repeats."""
        unfolds = 0
        while place is not None:
            step = place.frame.steps[place.at]
            if isinstance(step, Exchange):
                return self._number((place.frame.number, place.at, unfolds), (place, unfolds))
            if isinstance(step, Loop):
                unfolds += 1
                place = self._enter(step.body, _following(place), place)
            else:
                place = place.frame.loop
        return self._number(_END, None)

    def _number(self, key: _StateKey, found: tuple[_Place, int] | None) -> int:
        number = self._numbers.setdefault(key, len(self._found))
        if number == len(self._found):
            self._found.append(found)
        return number


def _following(place: _Place) -> _Place | None:
    frame, at = place
    return _Place(frame, at + 1) if at + 1 < len(frame.steps) else frame.after


def _name(place: _Place | None) -> tuple[int, int] | None:
    return None if place is None else (place.frame.number, place.at)


def compile_steps(steps: tuple[Step, ...]) -> Graph:
    """The graph of a closed, well-formed sequence of steps."""
    return _Compiler().compile(steps)
