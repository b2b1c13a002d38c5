"""What concerns a role next, from each state of a flow."""

from __future__ import annotations

from collections.abc import Iterable

from partyctl_actors.protocol.graph import Flow, Fork, Interaction, Join
from partyctl_actors.protocol.role import Role

_Set = frozenset[int]
_NOBODY = ("",)  # no role has this name


class Shape:
    """A flow as plain lists over its states, looked at once for all roles.

    Attributes:
        parties: the names of the two roles of an interaction; () for the end; nobody's for a fork or join.
        after: the states that may come next, each once.
        same: the first state that differs in nothing a role can see (loop heads entered, time allowed).
    """

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.parties: list[tuple[str, ...]] = []
        self.after: list[tuple[int, ...]] = []
        self.same: list[int] = []
        self._forks: dict[int, dict[str, int]] = {}
        first: dict[object, int] = {}
        for number, state in enumerate(flow.states):
            key: object = None
            parties: tuple[str, ...] = ()
            after: tuple[int, ...] = ()
            if isinstance(state, Interaction):
                parties = (state.sender.name, state.receiver.name)
                after = tuple(arm.next for arm in state.arms.values())
                key = (parties, after, tuple(state.arms))
            elif isinstance(state, Fork):
                parties, after, key = _NOBODY, (state.join,), (number,)
                self._forks[number] = {
                    role.name: branch
                    for branch, roles in zip(state.branches, state.members, strict=True)
                    for role in roles
                }
            elif isinstance(state, Join):
                parties, key = _NOBODY, (number,)
                after = () if state.next is None else (state.next,)
            self.parties.append(parties)
            self.after.append(tuple(dict.fromkeys(after)))
            self.same.append(first.setdefault(key, number))

    def after_for(self, role: Role) -> list[tuple[int, ...]]:
        """`after`, as far as it is the business of `role`: a fork leads into its own branch, or past all of them.

        The branches that it has no part in come to the join whatever is chosen in them, or never: nothing that the
        role does depends on them.
        """
        if not self._forks:
            return self.after
        after = list(self.after)
        for number, branches in self._forks.items():
            if role.name in branches:
                after[number] = (branches[role.name],)
        return after


class Frontiers:
    """For each state, what concerns the role next: its own interactions, and the end.

    States that others can go round in share one answer: strongly connected components, by Tarjan's algorithm
    without recursion. A long row of interactions of others shares one set object, which keeps this linear.
    """

    def __init__(self, shape: Shape, role: Role) -> None:
        self._shape = shape
        self._role = role.name
        self._after = shape.after_for(role)
        self._done: dict[int, _Set] = {}

    def of(self, state: int) -> _Set:
        """The states that concern the role and that others can bring about from `state`, `state` included."""
        if state not in self._done:
            self._search(state)
        return self._done[state]

    def _concerned(self, number: int) -> bool:
        parties = self._shape.parties[number]
        return not parties or self._role in parties

    def _search(self, root: int) -> None:
        done = self._done
        low: dict[int, int] = {}
        order: dict[int, int] = {}
        open_states: list[int] = []
        walk: list[tuple[int, int]] = [(root, -1)]
        while walk:
            number, at = walk.pop()
            after = self._after[number]
            if at < 0:
                if number in done or number in order:
                    continue
                if self._concerned(number):
                    done[number] = frozenset((self._shape.same[number],))
                    continue
                order[number] = low[number] = len(order)
                open_states.append(number)
            elif after[at] not in done:
                # Back from a successor that is still open, so it can come back here.
                low[number] = min(low[number], low[after[at]])
            at += 1
            if at < len(after):
                walk.append((number, at))
                walk.append((after[at], -1))
            elif low[number] == order[number]:
                self._close(number, open_states)

    def _close(self, root: int, open_states: list[int]) -> None:
        members: list[int] = []
        while not members or members[-1] != root:
            members.append(open_states.pop())
        frontier = union(self._done[after] for i in members for after in self._after[i] if after in self._done)
        for i in members:
            self._done[i] = frontier


def union(sets: Iterable[_Set]) -> _Set:
    """The union, and the very same object where one of the sets is all of it."""
    different = {id(one): one for one in sets}
    if not different:
        return frozenset()
    whole = max(different.values(), key=len)
    if all(one <= whole for one in different.values()):
        return whole
    return frozenset().union(*different.values())
