"""The words a protocol is written in: `send`, `choose`, `loop`, `repeat`.

Every word checks its own arguments when it is used, so an error points at the line that is wrong:

1. A sender and a receiver are two different roles; a message is given as its class.
2. A choice has a branch; its labels differ. An empty branch goes on with the steps after the choice.
3. A loop has steps, the first of which is not a `repeat`. A path that reaches the end of its body leaves it.
4. No step is written where it could never run: after a `repeat`, or after a step that never ends otherwise.
5. A `repeat` is inside a loop (checked when the protocol is closed).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias, TypeVar

from partyctl_actors.errors import ProtocolError
from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.role import Role

K = TypeVar("K", bound=type[Message])


class Step:
    """One step of a protocol, made by `send`, `choose`, `loop` or `repeat`; compared by identity."""

    __slots__ = ()

    @property
    def falls_through(self) -> bool:
        """Whether the steps written after this one can ever run."""
        raise NotImplementedError

    @property
    def free_repeat(self) -> bool:
        """Whether a `repeat` in here belongs to a loop around this step."""
        raise NotImplementedError


Steps: TypeAlias = "Step | Sequence[Steps]"
"""A step, or steps in a row; rows within rows are flattened."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Exchange(Step):
    """One message from `sender` to `receiver`: a `send` has one branch, a `choose` one per label."""

    sender: Role
    receiver: Role
    branches: tuple[tuple[type[Message], tuple[Step, ...]], ...]
    within: timedelta | None
    falls_through: bool
    free_repeat: bool

    def __repr__(self) -> str:
        labels = " | ".join(kind.label for kind, _ in self.branches)
        return f"<{self.sender} -> {self.receiver}: {labels}>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Loop(Step):
    """`body`, begun anew by each `repeat` that reaches it."""

    body: tuple[Step, ...]
    falls_through: bool
    free_repeat: bool = False

    def __repr__(self) -> str:
        return f"<loop of {len(self.body)} steps>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Repeat(Step):
    """Back to the head of the nearest loop."""

    falls_through: bool = False
    free_repeat: bool = True

    def __repr__(self) -> str:
        return "<repeat>"


def send(sender: Role, receiver: Role, kind: type[Message], *, within: timedelta | None = None) -> Step:
    """`sender` says one message of class `kind` to `receiver`.

    Args:
        within: the time the sender has to author it; None is no limit.

    Raises:
        ProtocolError: not two different roles, not a message class, or a time that is not positive.
    """
    where = f"send({_shown(sender)}, {_shown(receiver)}, {_shown(kind)})"
    _check_peers(sender, receiver, where)
    return Exchange(sender, receiver, ((_checked_kind(kind, where), ()),), _checked_time(within, where), True, False)


def choose(decider: Role, hearer: Role, branches: Mapping[K, Steps], *, within: timedelta | None = None) -> Step:
    """`decider` picks one of the message classes, says it to `hearer`, and the steps of its branch follow.

    Args:
        branches: message class to the steps that follow it. An empty branch goes on with the steps after the choice,
            as does every branch that does not end in a `repeat`.
        within: the time the decider has; None is no limit.

    Raises:
        ProtocolError: not two different roles, no branch, two branches of one label, or a time that is not positive.
    """
    where = f"choose({_shown(decider)}, {_shown(hearer)})"
    _check_peers(decider, hearer, where)
    if not isinstance(branches, Mapping):
        raise ProtocolError(
            "The branches of a choice are not a mapping",
            where=where,
            why=f"got {_shown(branches)}",
            fix="Write {Approve: [], Reject: [...]}",
        )
    if not branches:
        raise ProtocolError("A choice needs at least one branch", where=where, fix="Write {Approve: [], Reject: [...]}")
    arms = tuple(
        (_checked_kind(kind, where), sequence(steps, f"{where}, branch {_shown(kind)}"))
        for kind, steps in branches.items()
    )
    labels = [kind.label for kind, _ in arms]
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise ProtocolError(
            "Two branches of one choice have the same label",
            where=f"{where}, {twice}",
            why="two message classes have this name, and the label is all that tells branches apart",
            fix="Rename one of the classes",
        )
    falls = any(falls_through(steps) for _, steps in arms)
    free = any(has_free_repeat(steps) for _, steps in arms)
    return Exchange(decider, hearer, arms, _checked_time(within, where), falls, free)


def loop(*steps: Steps) -> Step:
    """`steps`, begun anew whenever a `repeat()` in them is reached; a path without one leaves the loop at its end.

    Raises:
        ProtocolError: no steps, or a `repeat()` that is reached before any message.
    """
    body = sequence(steps, "loop()")
    if not body:
        raise ProtocolError("A loop needs steps", where="loop()", fix="Write loop(send(...), ..., repeat())")
    if isinstance(body[0], Repeat):
        raise ProtocolError(
            "A loop repeats before any message is sent",
            where="loop()",
            why="it would turn for ever and say nothing",
            fix="Put a send or a choose before repeat()",
        )
    return Loop(body, falls_through(body))


def repeat() -> Step:
    """Back to the head of the nearest loop around it."""
    return Repeat()


def sequence(steps: Steps, where: str) -> tuple[Step, ...]:
    """`steps` as one flat row, none of which is out of reach.

    Raises:
        ProtocolError: something is not a step, or could never run.
    """
    flat: list[Step] = []
    waiting: list[Steps] = [steps]
    while waiting:
        item = waiting.pop()
        if isinstance(item, (list, tuple)):
            waiting.extend(reversed(item))
        elif not isinstance(item, Step):
            raise ProtocolError(
                "This is not a step",
                where=where,
                why=f"got {_shown(item)}",
                fix="Steps are made by send, choose, loop and repeat; an empty branch is []",
            )
        elif flat and not flat[-1].falls_through:
            raise ProtocolError(
                "A step can never run",
                where=f"{where}, at {item!r}",
                why=f"every path through {flat[-1]!r} before it goes back to the head of a loop",
                fix="Remove it, or leave the loop in one of the branches before it",
            )
        else:
            flat.append(item)
    return tuple(flat)


def falls_through(steps: tuple[Step, ...]) -> bool:
    """Whether what follows these steps can ever run."""
    # Only the last step decides: `sequence` refuses a step after one that does not fall through.
    return not steps or steps[-1].falls_through


def has_free_repeat(steps: tuple[Step, ...]) -> bool:
    """Whether a `repeat` in these steps belongs to a loop around them."""
    return any(step.free_repeat for step in steps)


def _check_peers(sender: object, receiver: object, where: str) -> None:
    for role in (sender, receiver):
        if not isinstance(role, Role):
            raise ProtocolError(
                "This is not a role",
                where=where,
                why=f"got {_shown(role)}",
                fix='Make roles first: Customer, Support = roles("Customer", "Support")',
            )
    if sender == receiver:
        raise ProtocolError("A role cannot send to itself", where=where, fix="Name another receiver")


def _checked_kind(kind: object, where: str) -> type[Message]:
    if isinstance(kind, type) and issubclass(kind, Message) and kind is not Message:
        return kind
    fix = "Declare class Ticket(Message): ... and pass the class"
    if isinstance(kind, Message):
        fix = f"Pass the class {type(kind).label}, not a message of it"
    raise ProtocolError("This is not a message class", where=where, why=f"got {_shown(kind)}", fix=fix)


def _checked_time(within: object, where: str) -> timedelta | None:
    if within is None:
        return None
    if not isinstance(within, timedelta):
        why = f"got {_shown(within)}"
    elif within <= timedelta(0):
        why = f"{within} is not positive"
    else:
        return within
    raise ProtocolError("This is no time limit", where=f"{where}, within", why=why, fix="Write timedelta(seconds=5)")


def _shown(value: object) -> str:
    """A short name of what was passed, for an error."""
    if isinstance(value, Role):
        return value.name
    if isinstance(value, type):
        return value.__name__
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
