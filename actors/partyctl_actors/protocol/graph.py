"""The compiled form of a protocol: integer states. `compiler` makes it, `tracks` walks it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

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
class Flow:
    """The states of a protocol; every number in a state, and `start`, is an index into `states`."""

    states: tuple[State, ...]
    start: int
