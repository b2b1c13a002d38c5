"""The compiled form of a protocol: integer states.

A `Flow` holds every protocol. A `Graph` is the flow of a protocol without `par`, in which exactly one interaction is
under way at any time; `Flow.sequential` makes it, or refuses. `tracks` walks a flow, `compiler` makes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from partyctl_actors.errors import ProtocolError
from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.role import Role


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
class Fork:
    """A state that is left at once: every branch goes on by itself until it comes to the `Join`.

    Attributes:
        branches: the first state of each branch, in the order of the names of their roles.
        members: the roles that take part in each branch; no role is in two.
        join: the state in which all branches end, and no other state does.
        unfolds: how many loop heads are entered on reaching this state.
    """

    branches: tuple[int, ...]
    members: tuple[frozenset[Role], ...]
    join: int
    unfolds: int


@dataclass(frozen=True, slots=True)
class Join:
    """The end of every branch of a fork; the protocol goes on at `next` when all of them have come here.

    `next` is None if that never happens, because some branch goes on for ever.
    """

    next: int | None


@dataclass(frozen=True, slots=True)
class End:
    """The state in which the protocol is complete."""


State: TypeAlias = Interaction | Fork | Join | End


@dataclass(frozen=True)
class Graph:
    """The states of a protocol without `par`; an arm's `next` and `start` are indices into `states`."""

    states: tuple[Interaction | End, ...]
    start: int


@dataclass(frozen=True)
class Flow:
    """The states of any protocol; every number in a state, and `start`, is an index into `states`."""

    states: tuple[State, ...]
    start: int

    @property
    def forks(self) -> bool:
        """Whether there is a `par` in it."""
        return any(isinstance(state, Fork) for state in self.states)

    def sequential(self) -> Graph:
        """The same as a graph.

        Raises:
            ProtocolError: there is a `par` in it, so more than one interaction may be under way at a time.
        """
        plain = tuple(state for state in self.states if isinstance(state, (Interaction, End)))
        if len(plain) < len(self.states):
            fork = next(state for state in self.states if isinstance(state, Fork))
            branches = " and ".join(", ".join(sorted(map(str, roles))) for roles in fork.members)
            raise ProtocolError(
                "This protocol cannot be run one interaction at a time",
                where="par()",
                why=f"it has branches that go on at the same time, of {branches}, and nothing here can run those yet",
                fix="Write the branches one after the other",
            )
        return Graph(plain, self.start)
