"""What a pattern is, and what its functions share."""

from __future__ import annotations

import difflib
import keyword
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from partyctl_actors.errors import ProtocolError
from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.nodes import Steps
from partyctl_actors.protocol.protocol import Protocol
from partyctl_actors.protocol.role import Role

if TYPE_CHECKING:

    class Generated(Message):
        """What a type checker takes the message class of a pattern for: it may have a text."""

        text: str = ""


class Pattern(Protocol):
    """A protocol with its message classes as attributes: `review.Draft`.

    Args:
        named: the message classes by the names under which the pattern knows them.
        steps: see `Protocol`.

    Raises:
        ProjectionError, ProtocolError: see `Protocol`.
    """

    __slots__ = ("named",)

    named: Mapping[str, type[Message]]

    def __init__(self, named: Mapping[str, type[Message]], *steps: Steps) -> None:
        self.named = MappingProxyType(dict(named))
        super().__init__(*steps)

    @property
    def protocol(self) -> Protocol:
        """The protocol, which is the pattern itself."""
        return self

    def __getattr__(self, name: str) -> type[Generated]:
        # Asked only for what is no attribute; not even `named` is one while a copy is being made.
        named = object.__getattribute__(self, "named")
        if name in named:
            found: type[Generated] = named[name]
            return found
        near = difflib.get_close_matches(name, named, n=1)
        hint = f"did you mean {near[0]}?" if near else f"its messages are {', '.join(named)}"
        raise AttributeError(f"the pattern has no message {name}; {hint}", name=name, obj=self)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.named]


def message(label: str, intent: str, given: type[Message] | None = None, *, text: bool = True) -> type[Message]:
    """The class that was given, or one of this label with a text, or without any field."""
    if given is not None:
        return given
    fields = {"text": str} if text else {}
    return type(label, (Message,), {"__annotations__": fields, "__doc__": intent})


def as_role(given: Role | str) -> Role:
    """The role, or the role of that name."""
    return Role(given) if isinstance(given, str) else given


def as_roles(given: Iterable[Role | str], what: str, least: int = 1) -> list[Role]:
    """At least so many different roles.

    Raises:
        ProtocolError: there are fewer, or one of them twice.
    """
    found = [as_role(one) for one in given]
    twice = next((role for role in found if found.count(role) > 1), None)
    if twice is not None:
        raise ProtocolError("A role is named twice", where=what, why=f"{twice} cannot be in two places")
    if len(found) < least:
        raise ProtocolError("There are too few roles", where=what, why=f"got {len(found)}, at least {least} are needed")
    return found


def label_of(name: str, before: str = "") -> str:
    """A class name made of a role's name: "back office" becomes BackOffice."""
    words = "".join(character if character.isalnum() else " " for character in name).split()
    label = before + "".join(word[:1].upper() + word[1:] for word in words)
    if not label.isidentifier() or keyword.iskeyword(label):
        raise ProtocolError(
            "No message can be named after this role", where=name, fix="Give the role a name in letters"
        )
    return label
