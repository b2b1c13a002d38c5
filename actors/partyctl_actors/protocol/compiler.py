"""From steps to states.

1. One state per interaction or `par`, and number of loop heads entered on the way to it; one `End`.
2. What follows a choice is one shared continuation, however many branches lead to it, so the flow is
   linear in the declaration, and so is a declaration in which one step object is used in many places.
3. A `repeat` is an edge back to the head of its loop, which it enters anew. A `stop` is an edge to the end.
4. A `par` is a `Fork`. All its branches end in one `Join`, which nothing else leads to.
5. Nothing here recurses: ten thousand steps in a line, or nested in each other, compile.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import NamedTuple

from partyctl_actors.protocol.graph import Arm, End, Flow, Fork, Interaction, Join, State
from partyctl_actors.protocol.nodes import NEAREST, Exchange, Facts, Loop, Meet, Par, Repeat, Row, Stop, facts


class _Frame(NamedTuple):
    """One row of steps in its place: what follows it, and the loops that the `repeat`s in it mean, by name.

    Frames are compared by identity (`number`); `_Compiler` makes no two that mean the same.
    """

    number: int
    steps: Row
    after: _Place | None
    loops: _Loops


class _Place(NamedTuple):
    """A step about to be taken: `frame.steps[at]`."""

    frame: _Frame
    at: int


class _KnownRow(NamedTuple):
    """What the compiler needs to know of a row of steps, looked at once."""

    number: int
    facts: Facts


_Loops = tuple[tuple[str, _Place], ...]
_Name = tuple[int, int] | None
_StateKey = tuple[int, int, int]
_FrameKey = tuple[int, _Name, tuple[tuple[str, _Name], ...]]
_END: _StateKey = (-1, 0, 0)


class _Compiler:
    def __init__(self) -> None:
        self._rows: dict[int, _KnownRow] = {}
        self._same_rows: dict[tuple[int, ...], _KnownRow] = {}
        self._frames: dict[_FrameKey, _Frame] = {}
        self._numbers: dict[_StateKey, int] = {}
        self._found: list[tuple[_Place, int] | None] = []

    def compile(self, steps: Row) -> Flow:
        start = self._state(self._enter(steps, None, ()))
        states: list[State] = []
        while len(states) < len(self._found):
            found = self._found[len(states)]
            states.append(End() if found is None else self._made(*found))
        return Flow(tuple(states), start)

    def _made(self, place: _Place, unfolds: int) -> State:
        step = place.frame.steps[place.at]
        after, loops = _following(place), place.frame.loops
        if isinstance(step, Exchange):
            arms = {
                kind.label: Arm(kind, self._state(self._enter(branch, after, loops))) for kind, branch in step.branches
            }
            return Interaction(step.sender, step.receiver, MappingProxyType(arms), step.within, unfolds)
        if isinstance(step, Par):
            meet = self._enter(step.meet, after, loops)
            branches = tuple(self._state(self._enter(branch, meet, ())) for branch in step.branches)
            return Fork(branches, step.members, self._state(meet), unfolds)
        assert isinstance(step, Meet)
        return Join(self._state(after) if step.falls_through else None)

    def _enter(self, steps: Row, after: _Place | None, loops: _Loops) -> _Place | None:
        """The place where `steps` begin when `after` follows them."""
        if not steps:
            return after
        # What cannot matter is left out of the key, so that more rows are recognised as the same.
        row = self._row(steps)
        after = after if row.facts.falls_through else None
        loops = tuple(one for one in loops if one[0] in row.facts.free) if row.facts.free else ()
        key = (row.number, _name(after), tuple((name, _name(place)) for name, place in loops))
        frame = self._frames.get(key)
        if frame is None:
            frame = self._frames[key] = _Frame(len(self._frames), steps, after, loops)
        return _Place(frame, 0)

    def _row(self, steps: Row) -> _KnownRow:
        # By identity, which is safe while the declaration is alive, and without reading a long row again.
        row = self._rows.get(id(steps))
        if row is None:
            fresh = _KnownRow(len(self._same_rows), facts(steps))
            row = self._rows[id(steps)] = self._same_rows.setdefault(tuple(map(id, steps)), fresh)
        return row

    def _state(self, place: _Place | None) -> int:
        """The number of the state that begins at `place`, found by going through loop heads, repeats and stops."""
        unfolds = 0
        while place is not None:
            step = place.frame.steps[place.at]
            if isinstance(step, Loop):
                unfolds += 1
                place = self._enter(step.body, _following(place), _bound(place, step.name))
            elif isinstance(step, Repeat):
                place = next(head for name, head in place.frame.loops if name == step.target)
            elif isinstance(step, Stop):
                place = None
            else:
                return self._number((place.frame.number, place.at, unfolds), (place, unfolds))
        return self._number(_END, None)

    def _number(self, key: _StateKey, found: tuple[_Place, int] | None) -> int:
        number = self._numbers.setdefault(key, len(self._found))
        if number == len(self._found):
            self._found.append(found)
        return number


def _bound(head: _Place, name: str) -> _Loops:
    """The loops that a `repeat` in the body of the loop at `head` may mean."""
    own = {NEAREST: head, name: head}
    return tuple({**dict(head.frame.loops), **own}.items())


def _following(place: _Place) -> _Place | None:
    frame, at = place
    return _Place(frame, at + 1) if at + 1 < len(frame.steps) else frame.after


def _name(place: _Place | None) -> _Name:
    return None if place is None else (place.frame.number, place.at)


def compile_steps(steps: Row) -> Flow:
    """The flow of a closed, well-formed row of steps."""
    return _Compiler().compile(steps)
