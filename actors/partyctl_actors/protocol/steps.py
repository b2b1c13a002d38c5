"""The words a protocol is written in: `send`, `choose`, `loop`, `repeat`, `par`, `stop`.

Every word checks its own arguments when it is used, so an error points at the line that is wrong:

1. A sender and a receiver are two different roles; a message is given as its class.
2. A choice has a branch; its labels differ. An empty branch goes on with the steps after the choice.
3. A loop begins with a message or a `par`. A path that reaches the end of its body leaves it.
4. `repeat()` means the nearest loop, `repeat("round")` the nearest one around it of that name.
5. The branches of a `par` have no role in common. Each goes on to the steps after it, which begin when all have: none
   leaves it by a `stop`, or by a `repeat` of a loop around it.
6. A protocol written among the steps of another means its steps; a `stop` in it ends the whole.
7. No step is written where it could never run: after a `repeat`, a `stop`, or a step that never ends otherwise.
8. A `repeat` is inside a loop of its name (checked when the protocol is closed).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from datetime import timedelta
from typing import TypeVar

from partyctl_actors.errors import ProtocolError
from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.nodes import (
    NEAREST,
    Composite,
    Exchange,
    Loop,
    Meet,
    Par,
    Repeat,
    Row,
    Step,
    Steps,
    Stop,
    facts,
    joined,
)
from partyctl_actors.protocol.role import Role
from partyctl_actors.protocol.rows import roles_of

K = TypeVar("K", bound=type[Message])
_LONGEST_NAME = 100


def send(sender: Role, receiver: Role, kind: type[Message], *, within: timedelta | None = None) -> Step:
    """`sender` says one message of class `kind` to `receiver`.

    Args:
        within: the time the sender has to author it; None is no limit.

    Raises:
        ProtocolError: not two different roles, not a message class, or a time that is not positive.
    """
    where = f"send({_shown(sender)}, {_shown(receiver)}, {_shown(kind)})"
    _check_peers(sender, receiver, where)
    return Exchange(sender, receiver, ((_checked_kind(kind, where), ()),), _checked_time(within, where))


def choose(decider: Role, hearer: Role, branches: Mapping[K, Steps], *, within: timedelta | None = None) -> Step:
    """`decider` picks one of the message classes, says it to `hearer`, and the steps of its branch follow.

    Args:
        branches: message class to the steps that follow it. An empty branch goes on with the steps after the choice,
            as does every branch that does not end in a `repeat` or a `stop`.
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
    known = [facts(steps) for _, steps in arms]
    return Exchange(
        decider,
        hearer,
        arms,
        _checked_time(within, where),
        any(branch.falls_through for branch in known),
        joined([branch.free for branch in known]),
        any(branch.stops for branch in known),
    )


def loop(*steps: Steps, name: str | None = None) -> Step:
    """`steps`, begun anew whenever a `repeat()` in them is reached; a path without one leaves the loop at its end.

    Args:
        name: what a `repeat` in a loop within this one calls it: `loop(..., name="round")`, `repeat("round")`.

    Raises:
        ProtocolError: no steps, a `repeat` or `stop` that is reached before any message, or no usable name.
    """
    where = "loop()" if name is None else f"loop(name={_shown(name)})"
    named = NEAREST if name is None else _checked_name(name, where)
    body = sequence(steps, where)
    if not body:
        raise ProtocolError("A loop needs steps", where=where, fix="Write loop(send(...), ..., repeat())")
    if isinstance(body[0], (Repeat, Stop)):
        raise ProtocolError(
            f"A loop {'repeats' if isinstance(body[0], Repeat) else 'stops'} before any message is sent",
            where=where,
            why="it would turn for ever and say nothing" if isinstance(body[0], Repeat) else "it would say nothing",
            fix=f"Put a send or a choose before {body[0]!r}",
        )
    known = facts(body)
    own = frozenset((NEAREST, named))
    free = known.free - own if known.free else known.free
    return Loop(body, named, known.falls_through, free, known.stops, bool(known.free & own))


def repeat(name: str | None = None) -> Step:
    """Back to the head of the nearest loop around it, or of the nearest one of that name.

    Raises:
        ProtocolError: no usable name.
    """
    target = NEAREST if name is None else _checked_name(name, f"repeat({_shown(name)})")
    return Repeat(target, frozenset((target,)))


def stop() -> Step:
    """The protocol ends here, whatever is written after the choice or loop that this is in."""
    return Stop()


def par(*branches: Steps) -> Step:
    """`branches` go on independently of each other; the steps after it begin when all of them are through.

    Their order means nothing: they are kept in the order of the names of their roles.

    Args:
        branches: a step, a protocol or a list of steps each; no role takes part in two of them.

    Raises:
        ProtocolError: no branch, one without steps, a role in two branches, or a branch that leaves the `par` otherwise
            than at its end.
    """
    if not branches:
        raise ProtocolError("A par needs branches", where="par()", fix="Write par([send(...), ...], [send(...), ...])")
    rows = [_branch(branch, f"par(), branch {number}") for number, branch in enumerate(branches, 1)]
    members = [frozenset(roles_of(row)) for row in rows]
    taken: dict[Role, int] = {}
    for number, roles in enumerate(members, 1):
        for role in sorted(roles, key=str):
            if role in taken:
                raise ProtocolError(
                    "A role is in two branches of a par",
                    where=f"par(), branches {taken[role]} and {number}",
                    why=f"{role} would have to be in two places at once",
                    fix=f"Write the steps of {role} one after the other, before or after the par",
                )
            taken[role] = number
    order = sorted(range(len(rows)), key=lambda i: sorted(role.name for role in members[i]))
    falls = all(facts(row).falls_through for row in rows)
    return Par(tuple(rows[i] for i in order), tuple(members[i] for i in order), (Meet(falls),), falls)


def _branch(steps: Steps, where: str) -> Row:
    row = sequence(steps, where)
    if not row:
        raise ProtocolError("A branch of a par needs steps", where=where, fix="Leave the branch out")
    known = facts(row)
    if known.free or known.stops:
        way = "goes back to a loop around it" if known.free else "stops the protocol"
        raise ProtocolError(
            f"A branch of a par {way}",
            where=where,
            why="the roles of the other branches cannot know of it",
            fix="Decide after the par, in a choice that tells everybody",
        )
    return row


def sequence(steps: Steps, where: str) -> Row:
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
        elif isinstance(item, Composite):
            waiting.extend(reversed(item.steps))
        elif not isinstance(item, Step):
            raise ProtocolError(
                "This is not a step",
                where=where,
                why=f"got {_shown(item)}",
                fix="Steps are made by send, choose, loop, repeat, par and stop; an empty branch is []",
            )
        elif flat and not flat[-1].falls_through:
            raise ProtocolError(
                "A step can never run",
                where=f"{where}, at {item!r}",
                why=f"no path through {flat[-1]!r} before it goes on to what follows",
                fix="Remove it, or let a path before it go on: without repeat() and stop() at its end",
            )
        else:
            flat.append(item)
    return tuple(flat)


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


def _checked_name(name: object, where: str) -> str:
    if not isinstance(name, str):
        why = f"got {_shown(name)}"
    elif not name.strip() or name != name.strip():
        why = "it is empty, or begins or ends with a blank"
    elif len(name) > _LONGEST_NAME:
        why = f"it has {len(name)} characters, at most {_LONGEST_NAME} are allowed"
    elif any(unicodedata.category(character) in ("Cc", "Cs") for character in name):
        why = "it holds a control character or half a surrogate pair"
    else:
        return name
    raise ProtocolError("This cannot name a loop", where=where, why=why, fix='Write loop(..., name="round")')


def _shown(value: object) -> str:
    """A short name of what was passed, for an error."""
    if isinstance(value, Role):
        return value.name
    if isinstance(value, type):
        return value.__name__
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
