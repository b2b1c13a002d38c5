"""One role's own view of a protocol.

A role sees only what it sends and receives. Its view is therefore the flow with everything else removed and made
deterministic: a view state stands for all the states of the flow that the role cannot tell apart. Rules for such a set,
where what does not concern the role has been passed over:

1. Nothing but the end, or nothing at all (others go on for ever without it): the role is finished.
2. Only receptions from one sender: the role waits for any of their labels.
3. Only sends to one receiver, each offering the same labels: the role sends one of them.
4. Anything else is refused: the role would have to act differently in situations that look the same to it. Where some
   conductor could still have got it through, the refusal names the rule that it broke (`witness`).

Sets are followed along the flow itself, so the exits of inner loops, loops a role takes no part in, and the branches of
a `par` that are the business of others need no rule of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from partyctl_actors.protocol.frontier import Frontiers, Shape, union
from partyctl_actors.protocol.graph import Flow, Interaction
from partyctl_actors.protocol.role import Role
from partyctl_actors.protocol.witness import explain, too_much

if TYPE_CHECKING:
    from partyctl_actors.protocol.protocol import Protocol

# Making a flow deterministic can take exponentially many states; a declaration that people write takes about
# as many as it has interactions.
_STATES_PER_INTERACTION = 20
_STATES_AT_LEAST = 10_000


@dataclass(frozen=True, slots=True)
class SendState:
    """The role sends one of `arms` (label to next view state) to `receiver`."""

    receiver: Role
    arms: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ReceiveState:
    """The role waits for one of `arms` (label to next view state) from `sender`."""

    sender: Role
    arms: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class EndState:
    """The role neither sends nor receives again."""


ViewState = SendState | ReceiveState | EndState


@dataclass(frozen=True, slots=True)
class View:
    """What `role` does, by itself: its states, and the index of the first."""

    role: Role
    start: int
    states: tuple[ViewState, ...]


def project(protocol: Protocol, role: Role) -> View:
    """The view that `role` has of `protocol`.

    Raises:
        ProjectionError: the protocol has no such role.
    """
    return protocol.view(role)


_Set = frozenset[int]


class Projector:
    """Views of one flow, role by role."""

    def __init__(self, flow: Flow) -> None:
        self._shape = Shape(flow)

    def view(self, role: Role) -> View:
        """The view of `role`.

        Raises:
            ProjectionError: the role cannot tell apart two situations in which it has to act differently.
        """
        return _Determinisation(self._shape, role).run()


class _Determinisation:
    def __init__(self, shape: Shape, role: Role) -> None:
        self._flow = shape.flow
        self._shape = shape
        self._role = role
        self._frontiers = Frontiers(shape, role)
        self._numbers: dict[_Set, int] = {}
        self._found: list[_Set] = []
        # How each view state was first reached: from which one, and by which label.
        self._came: list[tuple[int, str] | None] = []

    def run(self) -> View:
        limit = max(_STATES_AT_LEAST, _STATES_PER_INTERACTION * len(self._flow.states))
        self._number([self._flow.start], None)
        states: list[ViewState] = []
        while len(states) < len(self._found):
            if len(states) >= limit:
                raise too_much(self._role, limit)
            states.append(self._state(len(states)))
        return View(self._role, 0, tuple(states))

    def _state(self, number: int) -> ViewState:
        members = sorted(self._found[number])
        first = self._agreed(number, members) if len(members) > 1 else self._only(members)
        if first is None:
            return EndState()
        if len(members) == 1:
            arms = {label: self._number([arm.next], (number, label)) for label, arm in first.arms.items()}
        else:
            targets: dict[str, list[int]] = {}
            for i in members:
                act = self._flow.states[i]
                assert isinstance(act, Interaction)
                for label, arm in act.arms.items():
                    targets.setdefault(label, []).append(arm.next)
            arms = {label: self._number(after, (number, label)) for label, after in targets.items()}
        view = MappingProxyType(arms)
        return SendState(first.receiver, view) if first.sender == self._role else ReceiveState(first.sender, view)

    def _only(self, members: list[int]) -> Interaction | None:
        for i in members:
            state = self._flow.states[i]
            if isinstance(state, Interaction):
                return state
        return None

    def _agreed(self, number: int, members: list[int]) -> Interaction:
        """The first of several interactions in which the role does the same (rules 2 to 4)."""
        states = self._flow.states
        j = next(i for i in members if isinstance(states[i], Interaction))
        first = states[j]
        assert isinstance(first, Interaction)
        for i in members:
            state = states[i]
            if not isinstance(state, Interaction) or not _agree(self._role, first, state):
                raise explain(self._shape, self._role, self._word(number), (j, i))
        return first

    def _number(self, states: list[int], came: tuple[int, str] | None) -> int:
        frontier = self._frontiers.of
        members = frontier(states[0]) if len(states) == 1 else union(map(frontier, states))
        number = self._numbers.setdefault(members, len(self._found))
        if number == len(self._found):
            self._found.append(members)
            self._came.append(came)
        return number

    def _word(self, number: int) -> list[str]:
        """The labels by which the view state was first reached."""
        word: list[str] = []
        came = self._came[number]
        while came is not None:
            word.append(came[1])
            came = self._came[came[0]]
        return word[::-1]


def _agree(role: Role, one: Interaction, other: Interaction) -> bool:
    """Whether `role` does the same in both, or will see by itself which of them it is (rules 2 and 3)."""
    if one.sender != other.sender or one.receiver != other.receiver:
        return False
    return one.receiver == role or one.arms.keys() == other.arms.keys()
