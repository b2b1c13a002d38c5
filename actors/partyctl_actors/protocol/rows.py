"""A walk over a declaration from the inside out, without recursion and each row of steps once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from partyctl_actors.protocol.nodes import Exchange, Loop, Par, Row, Step
from partyctl_actors.protocol.role import Role

T = TypeVar("T")


def inner_rows(step: Step) -> Iterator[Row]:
    """The rows of steps inside a step, in the order of declaration; an empty branch is no row."""
    if isinstance(step, Loop):
        yield step.body
    elif isinstance(step, Par):
        yield from step.branches
    elif isinstance(step, Exchange):
        for _, branch in step.branches:
            if branch:
                yield branch


def fold(root: Row, combine: Callable[[Row, Callable[[Row], T]], T]) -> T:
    """`combine(row, result_of)` for every row, inner rows first; the result for `root`."""
    done: dict[int, T] = {}
    waiting = [root]
    while waiting:
        row = waiting[-1]
        if id(row) not in done:
            missing = [inner for step in row for inner in inner_rows(step) if id(inner) not in done]
            if missing:
                waiting.extend(reversed(missing))
                continue
            done[id(row)] = combine(row, lambda inner: done[id(inner)])
        waiting.pop()
    return done[id(root)]


def steps_in_order(root: Row) -> Iterator[Step]:
    """Every step once, in the order in which it is first written."""
    seen: set[int] = set()
    waiting: list[Step] = list(reversed(root))
    while waiting:
        step = waiting.pop()
        if id(step) in seen:
            continue
        seen.add(id(step))
        yield step
        waiting.extend(reversed([inner for row in inner_rows(step) for inner in row]))


def roles_of(row: Row) -> tuple[Role, ...]:
    """The roles that take part in a row of steps, in the order in which they are first written."""
    found: dict[Role, None] = {}
    for step in steps_in_order(row):
        if isinstance(step, Exchange):
            found[step.sender] = found[step.receiver] = None
    return tuple(found)
