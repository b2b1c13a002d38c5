"""Random small protocols, and a second, naive reading of the language that shares no code with the first.

A protocol is a row of tuples here: ("say", sender, receiver, ((label, row), ...), number), ("loop", name, row),
("repeat", name), ("par", (row, ...)), ("stop",); the name "" is no name. It is read by rewriting: a course of events is
a row of what is still to come, and a situation is

    ("at", course, entered)                         a message comes next, after so many loop heads
    ("par", (situation, ...), course, entered)      branches are under way, and then the course
    ("end",)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import count
from random import Random
from typing import Any

from partyctl_actors.protocol import Message, Role, Step, choose, loop, par, repeat, send, stop

Row = tuple[Any, ...]
Situation = tuple[Any, ...]
NAMES = ("A", "B", "C", "D")
LABELS = ("X", "Y", "Z")
PAIRS = ((("A", "B"), ("C", "D")), (("A", "C"), ("B", "D")), (("A", "D"), ("B", "C")))
END: Situation = ("end",)


@cache
def kind(label: str) -> type[Message]:
    """The message class of this label."""
    return type(label, (Message,), {})


class Generator:
    """Rows in which every step can run. Drawn from a seed, not draw by draw: thirty times as fast."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self._numbers = count()
        # Fewer roles make it likelier that everybody can follow.
        self._everybody = NAMES[: self.random.choice((2, 3, 3, 4, 4))]

    def protocol(self, depth: int) -> Row:
        """A whole protocol."""
        return self._row(depth, self._everybody, (), head=True, may_stop=True)

    def _row(self, depth: int, names: tuple[str, ...], loops: tuple[str, ...], *, head: bool, may_stop: bool) -> Row:
        row: list[Any] = []
        for _ in range(self.random.randint(1 if head else 0, 3)):
            row.append(self._item(depth, names, loops, may_stop))
            if not falls_through(row[-1]):
                return tuple(row)
        if loops and (row or not head) and self.random.random() < 0.4:
            row.append(("repeat", self.random.choice(("", *loops))))
        elif may_stop and (row or not head) and self.random.random() < 0.1:
            row.append(("stop",))
        return tuple(row)

    def _item(self, depth: int, names: tuple[str, ...], loops: tuple[str, ...], may_stop: bool) -> Any:
        chance = self.random.random()
        if depth and chance < 0.25:
            name = self.random.choice(("", "r", "s"))
            inner = self._row(depth - 1, names, (*loops, name), head=True, may_stop=may_stop)
            return ("loop", name, inner)
        if depth and chance < 0.35 and len(names) == 4:
            pairs = self.random.choice(PAIRS)
            return ("par", tuple(self._row(depth - 1, pair, (), head=True, may_stop=False) for pair in pairs))
        sender, receiver = self.random.sample(names, 2)
        labels = self.random.sample(LABELS, self.random.choice((1, 1, 2)))
        rows = [self._row(depth - 1, names, loops, head=False, may_stop=may_stop) if depth else () for _ in labels]
        return ("say", sender, receiver, tuple(zip(labels, rows, strict=True)), next(self._numbers))


def falls_through(item: Any) -> bool:
    """Whether what follows the item can ever run."""
    if item[0] in ("repeat", "stop"):
        return False
    if item[0] == "par":
        return all(all(map(falls_through, row)) for row in item[1])
    inner = [item[2]] if item[0] == "loop" else [row for _, row in item[3]]
    return any(all(map(falls_through, row)) for row in inner)


def declared(row: Row) -> list[Step]:
    """The same row in the words of the language."""
    return [_step(item) for item in row]


def _step(item: Any) -> Step:
    if item[0] == "repeat":
        return repeat(item[1] or None)
    if item[0] == "stop":
        return stop()
    if item[0] == "loop":
        return loop(declared(item[2]), name=item[1] or None)
    if item[0] == "par":
        return par(*map(declared, item[1]))
    _, sender, receiver, arms, _ = item
    if len(arms) == 1 and not arms[0][1]:
        return send(Role(sender), Role(receiver), kind(arms[0][0]))
    return choose(Role(sender), Role(receiver), {kind(label): declared(inner) for label, inner in arms})


def told(row: Row, number: int, role: str) -> Row:
    """The row in which every branch of the choice of this number begins with a message of its own to the role."""
    done: list[Any] = []
    for item in row:
        if item[0] == "loop":
            item = (*item[:2], told(item[2], number, role))
        elif item[0] == "par":
            item = ("par", tuple(told(branch, number, role) for branch in item[1]))
        elif item[0] == "say":
            _, sender, receiver, arms, own = item
            arms = tuple((label, told(inner, number, role)) for label, inner in arms)
            if own == number:
                arms = tuple(
                    (label, (("say", sender, role, ((f"Told{label}{role}{own}", ()),), -1), *inner))
                    for label, inner in arms
                )
            item = ("say", sender, receiver, arms, own)
        done.append(item)
    return tuple(done)


def bound(row: Row, names: frozenset[str], target: Row) -> Row:
    """`row` with each `repeat` of one of these names replaced by what it leads to, but for those of loops in it."""
    done: list[Any] = []
    for item in row:
        if item[0] == "repeat" and item[1] in names:
            done.append(("go", target))
        elif item[0] == "say":
            arms = tuple((label, bound(inner, names, target)) for label, inner in item[3])
            done.append((*item[:3], arms, item[4]))
        elif item[0] == "loop":
            done.append((*item[:2], bound(item[2], names - {"", item[1]}, target)))
        else:
            done.append(item)
    return tuple(done)


def settle(course: Row) -> tuple[Situation, int]:
    """The situation at the head of a course, and the loop heads entered on the way to a `par`."""
    entered = 0
    while course:
        head, rest = course[0], course[1:]
        if head[0] == "go":
            course = head[1]
        elif head[0] == "loop":
            course = bound(head[2], frozenset(("", head[1])), course) + rest
            entered += 1
        elif head[0] == "stop":
            course = ()
        elif head[0] == "par":
            branches = [settle(branch) for branch in head[1]]
            made = ("par", tuple(branch for branch, _ in branches), rest, entered)
            return made, entered + sum(inner for _, inner in branches)
        else:
            return ("at", course, entered), 0
    return END, 0


def moves(situation: Situation) -> Iterator[tuple[tuple[int, ...], Any, str, Situation, int]]:
    """What may happen: path of the branch, item, label, the situation then, loop heads on the way to `par`s."""
    if situation[0] == "at":
        item, rest = situation[1][0], situation[1][1:]
        for label, inner in item[3]:
            yield ((), item, label, *settle(inner + rest))
    elif situation[0] == "par":
        _, branches, rest, entered = situation
        for number, branch in enumerate(branches):
            for path, item, label, after, forks in moves(branch):
                now = (*branches[:number], after, *branches[number + 1 :])
                if all(one == END for one in now):
                    yield ((number, *path), item, label, *settle(rest))
                else:
                    yield ((number, *path), item, label, ("par", now, rest, entered), forks)


def places(situation: Situation) -> dict[tuple[int, ...], tuple[Any, int]]:
    """Every message that may come next with the loop heads before it, by the path of its branch."""
    if situation[0] == "at":
        return {(): (situation[1][0], situation[2])}
    if situation[0] == "end":
        return {}
    return {
        (number, *path): found for number, branch in enumerate(situation[1]) for path, found in places(branch).items()
    }


def duty(situation: Situation, role: str) -> Any:
    """The message that the role is to say or hear next; () if everything is over; None if others go first."""
    if situation == END:
        return ()
    return next((item for item, _ in places(situation).values() if role in item[1:3]), None)


def agree(one: Any, other: Any, role: str) -> bool:
    """Whether the role can do the same for both duties, or will see by itself which it is."""
    if not one or not other:
        return bool(one == other)
    same_labels = {label for label, _ in one[3]} == {label for label, _ in other[3]}
    return bool(one[1:3] == other[1:3] and (one[2] == role or same_labels))


def is_confused(row: Row, role: str, most: int) -> bool | None:
    """Whether two courses of events look the same to the role and ask different things of it; None: too many."""
    start = settle(row)[0]
    seen = {(start, start)}
    waiting = [(start, start)]
    while waiting:
        one, other = waiting.pop()
        duties = duty(one, role), duty(other, role)
        if duties[0] is None:
            found = [(later, other) for _, item, _, later, _ in moves(one) if role not in item[1:3]]
        elif duties[1] is None:
            found = [(one, later) for _, item, _, later, _ in moves(other) if role not in item[1:3]]
        elif not agree(*duties, role):
            return True
        else:
            found = [(p, q) for a, p in _said(one, role) for b, q in _said(other, role) if a == b]
        fresh = [pair for pair in dict.fromkeys(found) if pair not in seen]
        seen.update(fresh)
        waiting.extend(fresh)
        if len(seen) > most:
            return None
    return False


def _said(situation: Situation, role: str) -> list[tuple[str, Situation]]:
    return [(label, later) for _, item, label, later, _ in moves(situation) if role in item[1:3]]


def own_part(row: Row, role: str) -> Row:
    """The row with each `par` replaced by the branch that the role is in, or by something that nobody sees."""
    done: list[Any] = []
    for item in row:
        if item[0] == "say":
            done.append((*item[:3], tuple((label, own_part(inner, role)) for label, inner in item[3]), item[4]))
        elif item[0] == "loop":
            done.append((*item[:2], own_part(item[2], role)))
        elif item[0] == "par":
            done += next((own_part(branch, role) for branch in item[1] if takes_part(branch, role)), (_UNSEEN,))
            if not falls_through(item):
                done.append(("loop", "", (_UNSEEN, ("repeat", ""))))
        else:
            done.append(item)
    return tuple(done)


_UNSEEN = ("say", "", "", (("", ()),), -2)


def takes_part(row: Row, role: str) -> bool:
    """Whether the role says or hears something in the row."""
    for item in row:
        inner = [item[2]] if item[0] == "loop" else item[1] if item[0] == "par" else []
        if item[0] == "say":
            inner = [inner_row for _, inner_row in item[3]]
            if role in item[1:3]:
                return True
        if any(takes_part(one, role) for one in inner):
            return True
    return False


def replay(row: Row, run: tuple[tuple[str, str, str], ...], role: str) -> tuple[list[int], Situation]:
    """The numbers of the items that are said in a run, and the situation after it, as far as they are the role's."""
    now = _seen(settle(own_part(row, role))[0])
    numbers: list[int] = []
    for message in run:
        ((number, now),) = [
            (item[4], _seen(later)) for _, item, said, later, _ in moves(now) if (item[1], item[2], said) == message
        ]
        numbers.append(number)
    return numbers, now


def _seen(situation: Situation) -> Situation:
    """The situation when what nobody sees has happened; itself if nothing else ever will."""
    unseen = {situation}
    while True:
        after = [later for _, item, _, later, _ in moves(situation) if item[4] == _UNSEEN[4]]
        if not after or after[0] in unseen:
            return situation
        situation = after[0]
        unseen.add(situation)
