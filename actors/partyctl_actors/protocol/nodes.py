"""What a declaration is made of: steps, and what is known of a step without following it.

Each step knows three facts of itself, gathered when it is made:

- `falls_through`: whether the steps written after it can ever run.
- `free`: the loops around it that a `repeat` in it goes back to, by name; "" is the nearest.
- `stops`: whether a `stop` is in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple, TypeAlias

from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.role import Role

NEAREST = ""
_NOTHING: frozenset[str] = frozenset()


class Step:
    """One step of a protocol, made by `send`, `choose`, `loop`, `repeat`, `par` or `stop`; compared by identity."""

    __slots__ = ()

    # Declared only: a property here would become the default of the dataclass field of its name.
    falls_through: bool
    free: frozenset[str]
    stops: bool


class Composite:
    """Something that means its `steps` wherever a step may be written: a `Protocol` within another."""

    __slots__ = ()

    steps: tuple[Step, ...]


Steps: TypeAlias = "Step | Composite | Sequence[Steps]"
"""A step, a protocol, or steps in a row; rows within rows are flattened."""
Row = tuple[Step, ...]


class Facts(NamedTuple):
    """The three facts of the module's docstring, of a row of steps."""

    falls_through: bool
    free: frozenset[str]
    stops: bool


def facts(row: Row) -> Facts:
    """What is known of a row: one pass over its steps."""
    # Only the last step decides on falling through: no row holds a step after one that does not.
    falls = not row or row[-1].falls_through
    return Facts(falls, joined([step.free for step in row]), any(step.stops for step in row))


def joined(sets: Sequence[frozenset[str]]) -> frozenset[str]:
    """The union, and nothing new where they are all empty or one is all of it."""
    whole = _NOTHING
    for one in sets:
        if one is not whole and not one <= whole:
            whole = one if whole <= one else whole | one
    return whole


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Exchange(Step):
    """One message from `sender` to `receiver`: a `send` has one branch, a `choose` one per label."""

    sender: Role
    receiver: Role
    branches: tuple[tuple[type[Message], Row], ...]
    within: timedelta | None
    falls_through: bool = True
    free: frozenset[str] = _NOTHING
    stops: bool = False

    def __repr__(self) -> str:
        labels = " | ".join(kind.label for kind, _ in self.branches)
        return f"<{self.sender} -> {self.receiver}: {labels}>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Loop(Step):
    """`body`, begun anew by each `repeat` that reaches it; `name` is "" if it has none."""

    body: Row
    name: str
    falls_through: bool
    free: frozenset[str]
    stops: bool
    repeats: bool
    """Whether a `repeat` in it means this loop."""

    def __repr__(self) -> str:
        return f"<loop{' ' + self.name if self.name else ''} of {len(self.body)} steps>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Repeat(Step):
    """Back to the head of the loop of this name around it; "" is the nearest."""

    target: str
    free: frozenset[str]
    falls_through: bool = False
    stops: bool = False

    def __repr__(self) -> str:
        return f"<repeat{' ' + self.target if self.target else ''}>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Stop(Step):
    """The end of the whole protocol."""

    falls_through: bool = False
    free: frozenset[str] = _NOTHING
    stops: bool = True

    def __repr__(self) -> str:
        return "<stop>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Meet(Step):
    """Where the branches of one `par` come together; nobody writes it, the compiler puts it behind each branch."""

    falls_through: bool
    free: frozenset[str] = _NOTHING
    stops: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Par(Step):
    """`branches` that go on independently, each of them the business of its own `members`."""

    branches: tuple[Row, ...]
    members: tuple[frozenset[Role], ...]
    meet: tuple[Meet]
    falls_through: bool
    free: frozenset[str] = _NOTHING
    stops: bool = False

    def __repr__(self) -> str:
        return f"<par of {len(self.branches)} branches>"
