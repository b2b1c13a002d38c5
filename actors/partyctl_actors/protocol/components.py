"""Groups of things that lead to each other: strongly connected components, by Tarjan's algorithm without recursion."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def bottoms(nodes: Iterable[T], after: Callable[[T], Sequence[T]]) -> Iterator[list[T]]:
    """The groups that nothing leads out of; what `after` names beyond `nodes` is passed over."""
    known = set(nodes)
    done: dict[T, int] = {}
    for number, group in enumerate(_components(known, lambda node: [one for one in after(node) if one in known])):
        done.update(dict.fromkeys(group, number))
        if all(done[one] == number for node in group for one in after(node) if one in known):
            yield group


def _components(nodes: set[T], after: Callable[[T], list[T]]) -> Iterator[list[T]]:
    """Every component, those that it leads to before it."""
    order: dict[T, int] = {}
    low: dict[T, int] = {}
    closed: set[T] = set()
    opened: list[T] = []
    for root in nodes:
        walk: list[tuple[T, Iterator[T]]] = []
        if root not in order:
            walk.append((root, iter(after(root))))
            order[root] = low[root] = len(order)
            opened.append(root)
        while walk:
            node, rest = walk[-1]
            following = next((one for one in rest if one not in closed), None)
            if following is None:
                walk.pop()
                if walk:
                    low[walk[-1][0]] = min(low[walk[-1][0]], low[node])
                if low[node] == order[node]:
                    group = [opened.pop()]
                    while group[-1] != node:
                        group.append(opened.pop())
                    closed.update(group)
                    yield group
            elif following in order:
                low[node] = min(low[node], order[following])
            else:
                order[following] = low[following] = len(order)
                opened.append(following)
                walk.append((following, iter(after(following))))
