"""A cast as it is written, and a cast as it is run."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from partyctl_actors.errors import ConformanceError
from partyctl_actors.participants.conformity import Checked
from partyctl_actors.participants.function import Function, PlainFunction
from partyctl_actors.participants.interface import Participant
from partyctl_actors.protocol.protocol import Protocol
from partyctl_actors.protocol.role import Role

Cast: TypeAlias = Mapping[Role, Participant | PlainFunction]
"""Who plays which role; a plain function is called with the offer and what was heard."""


def participant(role: Role, given: object) -> Participant:
    """What a cast gives for `role`, as a participant.

    Raises:
        TypeError: it is none.
        ConformanceError: it is a function that cannot be called with (offer, heard).
    """
    if isinstance(given, type):
        raise TypeError(f"{role} is played by the class {given.__name__}: make one, {given.__name__}(...)")
    if isinstance(given, Participant):
        return given
    if callable(given):
        return Function(given)
    raise TypeError(
        f"{role} is played by {given!r:.100}, which is no participant: cast an Agent, a Human, a Script, or a function"
    )


def checked_cast(protocol: Protocol, cast: Cast) -> Mapping[Role, Participant]:
    """The participants by role, in the protocol's order of roles.

    Raises:
        TypeError: it is no mapping, a key is no role, or a value is no participant.
        ConformanceError: it names a role that the protocol does not have, leaves out more than one, or a participant
            cannot play its role.
    """
    if not isinstance(cast, Mapping):
        raise TypeError(f"a cast is a mapping from roles to participants, not {cast!r:.100}")
    for role in cast:
        if not isinstance(role, Role):
            raise TypeError(f"a cast is keyed by roles, not by {role!r:.100}")
        if role not in protocol.roles:
            raise ConformanceError(
                f"The protocol has no role {role}",
                where="the cast",
                why=f"its roles are {_names(protocol.roles)}",
                fix=_nearest(role, protocol),
            )
    missing = missing_roles(protocol, cast)
    if len(missing) > 1:
        raise ConformanceError(
            f"Nobody plays {_names(missing)}",
            where="the cast",
            fix="Cast them; at most one role may be left to the caller",
        )
    made = {role: participant(role, cast[role]) for role in protocol.roles if role in cast}
    for role, each in made.items():
        if isinstance(each, Checked):
            each.check(protocol, role)
    return MappingProxyType(made)


def missing_roles(protocol: Protocol, cast: Mapping[Role, object]) -> tuple[Role, ...]:
    """The protocol's roles that the cast leaves out."""
    return tuple(role for role in protocol.roles if role not in cast)


def _nearest(role: Role, protocol: Protocol) -> str:
    near = difflib.get_close_matches(role.name, [known.name for known in protocol.roles], n=1)
    return f"Did you mean {near[0]}?" if near else ""


def _names(roles: tuple[Role, ...]) -> str:
    return ", ".join(role.name for role in roles)
