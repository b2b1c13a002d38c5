"""Where a run is in a flow: one track, and while a `par` is under way one more for each of its branches.

A track's path is () for the whole protocol, and the path of the track that forked with the number of the branch behind
it for a branch. A track is at an interaction, or waits at a fork for its branches. In a protocol without `par` there is
never more than the one track.

    marking = begin(flow)                     every interaction in `marking.at` may happen now, in any order
    marking = advance(flow, marking, path, label)     one of them happened
    marking.fresh                             the tracks that thereby came to an interaction, in the order of paths
    marking.over                              nothing will happen any more: the protocol is complete
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from partyctl_actors.protocol.graph import Flow, Fork, Interaction, Join

Path: TypeAlias = tuple[int, ...]


class Waiting(NamedTuple):
    """A track that waits for its branches.

    Attributes:
        join: the state in which they end.
        left: how many are still under way.
    """

    join: int
    left: int


class Marking(NamedTuple):
    """Where a run is.

    Attributes:
        at: the interaction that each track is at, by path.
        waiting: the tracks that wait for branches, by path.
        fresh: the tracks that came to an interaction with the last step, in the order of paths.
        unfolds: how many loop heads were entered on the way to forks with the last step; those entered on the way to
            an interaction are in its own `unfolds`.
        over: whether the protocol is complete.
    """

    at: Mapping[Path, int]
    waiting: Mapping[Path, Waiting]
    fresh: tuple[Path, ...]
    unfolds: int
    over: bool


@lru_cache(maxsize=4096)
def alone(position: int) -> Marking:
    """Where a run is that has come to an interaction on its one track."""
    return Marking({(): position}, {}, ((),), 0, False)


def begin(flow: Flow) -> Marking:
    """Where a run starts."""
    return _settle(flow, {}, {}, (), flow.start)


def advance(flow: Flow, marking: Marking, path: Path, label: str) -> Marking:
    """Where the run is when the interaction that the track is at happened.

    Raises:
        KeyError: the track is at no interaction, or that has no such label.
    """
    state = flow.states[marking.at[path]]
    assert isinstance(state, Interaction)
    at = dict(marking.at)
    del at[path]
    return _settle(flow, at, dict(marking.waiting), path, state.arms[label].next)


def _settle(flow: Flow, at: dict[Path, int], waiting: dict[Path, Waiting], path: Path, number: int) -> Marking:
    """Go on from state `number` on the track `path`, through forks and joins, to interactions."""
    fresh: list[Path] = []
    unfolds = 0
    todo: list[tuple[Path, int]] = [(path, number)]
    while todo:
        path, number = todo.pop()
        state = flow.states[number]
        if isinstance(state, Interaction):
            at[path] = number
            fresh.append(path)
        elif isinstance(state, Fork):
            unfolds += state.unfolds
            waiting[path] = Waiting(state.join, len(state.branches))
            todo.extend(((*path, i), branch) for i, branch in reversed(list(enumerate(state.branches))))
        elif isinstance(state, Join):
            parent = path[:-1]
            join, left = waiting[parent]
            waiting[parent] = Waiting(join, left - 1)
            if left == 1 and state.next is not None:
                del waiting[parent]
                todo.append((parent, state.next))
    return Marking(at, waiting, tuple(fresh), unfolds, not at and not waiting)
