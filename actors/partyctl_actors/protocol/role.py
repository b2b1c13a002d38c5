"""Roles: the named parties of a protocol."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from partyctl_actors.errors import ProtocolError

_LONGEST = 100


@dataclass(frozen=True, slots=True)
class Role:
    """A named party of a protocol; two roles of one name are the same role.

    Args:
        name: any text of 1 to 100 characters without control characters, "/", "*" and blanks at either end
            (the name is part of an address).

    Raises:
        ProtocolError: the name cannot be used.
    """

    name: str

    def __post_init__(self) -> None:
        trouble = _trouble(self.name)
        if trouble:
            raise ProtocolError("This name cannot name a role", where=repr(self.name), why=trouble)

    def __str__(self) -> str:
        return self.name


def _trouble(name: object) -> str:
    if not isinstance(name, str):
        return f"a role's name is text, not {type(name).__name__}"
    if not name.strip() or name != name.strip():
        return "it is empty, or begins or ends with a blank"
    if len(name) > _LONGEST:
        return f"it has {len(name)} characters, at most {_LONGEST} fit into an address"
    if any(character in "/*" or unicodedata.category(character) in ("Cc", "Cs") for character in name):
        return 'it holds "/", "*", a control character or half a surrogate pair, which an address cannot'
    return ""


def roles(*names: str) -> tuple[Role, ...]:
    """The roles of these names, in this order: `Customer, Support = roles("Customer", "Support")`.

    Raises:
        ProtocolError: no name, the same name twice, or a name that cannot be used.
    """
    if not names:
        raise ProtocolError("roles() needs at least one name", fix='Write Customer, Support = roles("Customer", ...)')
    made = tuple(Role(name) for name in names)
    if len(set(made)) < len(made):
        twice = next(role.name for role in made if made.count(role) > 1)
        raise ProtocolError("Two roles have the same name", where=twice, fix="Give each role its own name")
    return made
