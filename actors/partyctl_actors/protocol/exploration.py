"""What can happen when roles follow views that no protocol was the source of.

A role that is served from elsewhere brings its own view. `explore` takes every course of events of a set of views that
talk over one queue per pair of roles, each holding a bounded number of messages, and finds:

deadlock    nobody can go on, and somebody is not done; if roles wait for each other in a circle, it is named
unexpected  a role finds a message that it is not prepared for at the head of the queue it listens to
unheard     everybody is done, and a message was never taken
starvation  a role is not done and never goes on again, though the others go on for ever

Each finding has a witness: what happened until then. Courses of events are taken shortest first, up to a bounded number
of situations; without a finding, `complete` says whether all of them were seen. `refines` compares one view with the
projection it should have been, which needs no bound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from partyctl_actors.protocol.components import bottoms
from partyctl_actors.protocol.projection import EndState, ReceiveState, SendState, View
from partyctl_actors.protocol.role import Role

Trouble: TypeAlias = Literal["deadlock", "unexpected", "unheard", "starvation"]


class Act(NamedTuple):
    """Something a role did: it said (`says`) a message to `peer`, or took one from it."""

    role: str
    says: bool
    peer: str
    label: str

    def __str__(self) -> str:
        return f"{self.role} {'!' if self.says else '?'}{self.peer} {self.label}"


@dataclass(frozen=True, slots=True)
class Exploration:
    """What was found.

    Attributes:
        trouble: the kind of the first finding; None if there is none.
        roles: whom it concerns.
        witness: what happened until then, in order.
        what: the finding in words.
        situations: how many were looked at.
        complete: whether that is all there are.
    """

    trouble: Trouble | None
    roles: tuple[Role, ...]
    witness: tuple[Act, ...]
    what: str
    situations: int
    complete: bool

    @property
    def sound(self) -> bool:
        """Whether everything was looked at, and nothing found."""
        return self.trouble is None and self.complete


# Places of the roles, then the queues that hold something: ((sender, receiver), labels), sorted.
_Queue = tuple[tuple[int, int], tuple[str, ...]]
_Situation = tuple[tuple[int, ...], tuple[_Queue, ...]]


def explore(views: Iterable[View], *, capacity: int = 1, most: int = 20_000) -> Exploration:
    """Take every course of events of these views.

    Args:
        views: one of each role.
        capacity: how many messages a queue holds before its sender has to wait; at least 1.
        most: the number of situations to look at.
    """
    return _Explorer(tuple(views), max(capacity, 1), most).run()


class _Explorer:
    def __init__(self, views: tuple[View, ...], capacity: int, most: int) -> None:
        self._views = views
        self._numbers = {view.role: number for number, view in enumerate(views)}
        self._capacity = capacity
        self._most = most
        self._came: dict[_Situation, tuple[_Situation, Act] | None] = {}
        self._after: dict[_Situation, list[tuple[_Situation, int]]] = {}

    def run(self) -> Exploration:
        root: _Situation = (tuple(view.start for view in self._views), ())
        self._came[root] = None
        waiting = deque([root])
        while waiting:
            situation = waiting.popleft()
            surprised = self._surprised(situation)
            if surprised is not None:
                return self._found("unexpected", (surprised,), situation, "finds a message it is not prepared for")
            moves = list(self._moves(situation))
            if not moves:
                stuck = self._undone(situation)
                if stuck:
                    circle = self._circle(situation, stuck)
                    what = f"cannot go on, and nobody can{': ' if circle else ''}{circle}"
                    return self._found("deadlock", stuck, situation, what)
                if situation[1]:
                    unheard = tuple(receiver for (_, receiver), _ in situation[1])
                    return self._found("unheard", unheard, situation, "is done, and was told something more")
            self._after[situation] = [(following, number) for following, number, _ in moves]
            for following, _, act in moves:
                if following not in self._came and len(self._came) < self._most:
                    self._came[following] = (situation, act)
                    waiting.append(following)
        return self._starved() or Exploration(None, (), (), "", len(self._came), len(self._came) < self._most)

    def _moves(self, situation: _Situation) -> Iterator[tuple[_Situation, int, Act]]:
        places, queues = situation[0], dict(situation[1])
        for number, view in enumerate(self._views):
            state = view.states[places[number]]
            if isinstance(state, EndState):
                continue
            says = isinstance(state, SendState)
            peer = state.receiver if isinstance(state, SendState) else state.sender
            other = self._numbers.get(peer)
            if other is None:
                continue
            pair = (number, other) if says else (other, number)
            queued = queues.get(pair, ())
            if says and len(queued) >= self._capacity:
                continue
            for label in list(state.arms) if says else [head for head in queued[:1] if head in state.arms]:
                left = (*queued, label) if says else queued[1:]
                moved = (*places[:number], state.arms[label], *places[number + 1 :])
                following = (moved, tuple(sorted((k, v) for k, v in {**queues, pair: left}.items() if v)))
                yield following, number, Act(view.role.name, says, peer.name, label)

    def _surprised(self, situation: _Situation) -> int | None:
        places, queues = situation
        for (sender, receiver), labels in queues:
            state = self._views[receiver].states[places[receiver]]
            listens = isinstance(state, ReceiveState) and state.sender == self._views[sender].role
            if listens and not isinstance(state, EndState) and labels[0] not in state.arms:
                return receiver
        return None

    def _undone(self, situation: _Situation) -> tuple[int, ...]:
        places = situation[0]
        return tuple(i for i, view in enumerate(self._views) if not isinstance(view.states[places[i]], EndState))

    def _circle(self, situation: _Situation, stuck: tuple[int, ...]) -> str:
        """Who waits for whom, from a role back to itself; "" if nobody waits in a circle."""
        waits: dict[int, int] = {}
        for number in stuck:
            state = self._views[number].states[situation[0][number]]
            assert not isinstance(state, EndState)
            peer = self._numbers.get(state.receiver if isinstance(state, SendState) else state.sender)
            if peer in stuck:
                waits[number] = peer
        for first in stuck:
            row = [first]
            while (after := waits.get(row[-1])) is not None:
                if after == first:
                    names = [self._views[number].role.name for number in (*row, first)]
                    return ", ".join(f"{one} waits for {other}" for one, other in pairwise(names))
                if after in row:
                    break
                row.append(after)
        return ""

    def _starved(self) -> Exploration | None:
        """Look at the groups of situations that are never left: who is not done in them, and never goes on?"""
        order = {situation: number for number, situation in enumerate(self._after)}
        for group in bottoms(self._after, lambda situation: [after for after, _ in self._after[situation]]):
            if any(after not in self._after for situation in group for after, _ in self._after[situation]):
                continue
            going = {number for situation in group for _, number in self._after[situation]}
            idle = tuple(number for number in self._undone(group[0]) if number not in going)
            if going and idle:
                first = min(group, key=order.__getitem__)
                return self._found("starvation", idle, first, "never goes on, though the others do")
        return None

    def _found(self, trouble: Trouble, roles: tuple[int, ...], situation: _Situation, what: str) -> Exploration:
        witness: list[Act] = []
        step = self._came[situation]
        while step is not None:
            witness.append(step[1])
            step = self._came[step[0]]
        named = tuple(self._views[number].role for number in dict.fromkeys(roles))
        words = f"{', '.join(map(str, named))} {what}"
        return Exploration(trouble, named, tuple(witness[::-1]), words, len(self._came), False)


def refines(view: View, projection: View) -> tuple[str, ...] | None:
    """Whether a role that follows `view` does nothing else than `projection` asks of it.

    It may be prepared for more than it is told, and say less than it might; all else is as in the projection.

    Returns:
        None if so; else the labels said and heard until the two differ.
    """
    root = (view.start, projection.start)
    words: dict[tuple[int, int], tuple[tuple[int, int], str] | None] = {root: None}
    waiting = deque([root])
    while waiting:
        pair = waiting.popleft()
        mine, due = view.states[pair[0]], projection.states[pair[1]]
        if isinstance(mine, SendState) and isinstance(due, SendState) and mine.receiver == due.receiver:
            fits, labels = mine.arms.keys() <= due.arms.keys(), list(mine.arms)
        elif isinstance(mine, ReceiveState) and isinstance(due, ReceiveState) and mine.sender == due.sender:
            fits, labels = due.arms.keys() <= mine.arms.keys(), list(due.arms)
        else:
            fits, labels = isinstance(mine, EndState) and isinstance(due, EndState), []
        if not fits:
            return _word(words, pair)
        for label in labels:
            assert not isinstance(mine, EndState)
            assert not isinstance(due, EndState)
            following = (mine.arms[label], due.arms[label])
            if following not in words:
                words[following] = (pair, label)
                waiting.append(following)
    return None


def _word(
    words: Mapping[tuple[int, int], tuple[tuple[int, int], str] | None], pair: tuple[int, int]
) -> tuple[str, ...]:
    word: list[str] = []
    step = words[pair]
    while step is not None:
        word.append(step[1])
        step = words[step[0]]
    return tuple(word[::-1])
