"""Message classes as data, and message classes made from such data again."""

from __future__ import annotations

import dataclasses
import keyword
import types
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Annotated, Any, Literal, Union

from partyctl_actors.errors import ProtocolError
from partyctl_actors.protocol.fields import (
    DictOf,
    EnumOf,
    FieldType,
    ListOf,
    Nested,
    OneOf,
    Optional,
    Refined,
    Scalar,
    parse,
)
from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.refine import Between, Where, between

_SCALARS: dict[str, Any] = {"str": str, "int": int, "float": float, "bool": bool, "none": None}
_ENUM_BASES: dict[str, type | None] = {"": None, "str": str, "int": int}
_DEEPEST_TYPE = 32


def with_nested(kinds: Iterable[type[Message]]) -> dict[str, type[Message]]:
    """Label to class for these message classes and those their fields hold.

    Raises:
        ProtocolError: two different classes have the same label.
    """
    found: dict[str, type[Message]] = {}
    waiting = list(kinds)[::-1]
    while waiting:
        kind = waiting.pop()
        known = found.get(kind.label)
        if known is kind:
            continue
        if known is not None:
            raise ProtocolError(
                "Two message classes have the same label",
                where=kind.label,
                why=f"one is {_home(known)}, the other {_home(kind)}, and on the wire there is only the label",
                fix="Rename one of the classes",
            )
        found[kind.label] = kind
        waiting.extend(inner for field in kind.field_types.values() for inner in field.nested())
    return found


def describe(kind: type[Message]) -> dict[str, Any]:
    """The definition of one message class: its intent and its fields."""
    return {"intent": kind.intent, "fields": [_describe_field(kind, name) for name in kind.field_types]}


def _describe_field(kind: type[Message], name: str) -> dict[str, Any]:
    field_type = kind.field_types[name]
    described: dict[str, Any] = {"name": name, "type": _describe_type(field_type)}
    field = kind.__dataclass_fields__[name]  # type: ignore[attr-defined]
    if field.default is not dataclasses.MISSING:
        described["default"] = field_type.encode(field.default)
    elif field.default_factory in (list, dict):
        # Any other factory may give another value each time, and a definition has to stay the same.
        described["default"] = field.default_factory()
    return described


def _describe_type(kind: FieldType) -> Any:
    match kind:
        case Scalar(name):
            return name
        case ListOf(item):
            return {"list": _describe_type(item)}
        case DictOf(item):
            return {"dict": _describe_type(item)}
        case Optional(item):
            return {"optional": _describe_type(item)}
        case OneOf(values):
            return {"literal": list(values)}
        case EnumOf(enum):
            base = next((name for name, base in _ENUM_BASES.items() if base and issubclass(enum, base)), "")
            members = [[name, member.value] for name, member in enum.__members__.items()]
            return {"enum": {"name": enum.__name__, "base": base, "members": members}}
        case Nested(message):
            return {"message": message.label}
        case Refined(item, Between(low, high)):
            return {"between": {"of": _describe_type(item), "low": low, "high": high}}
        case Refined(item, Where(requirement)):
            # A function stays where it is: the words tell who loads this that something is not checked there.
            return {"where": {"of": _describe_type(item), "requirement": requirement, "transferable": False}}
    raise AssertionError(kind)


class Rebuilder:
    """Makes message classes from their definitions; a class comes after those its fields hold."""

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._made: dict[str, type[Message]] = {}
        self._making: list[str] = []
        self._enums: dict[str, type[Enum]] = {}

    def message(self, label: object) -> type[Message]:
        """The class of this label.

        Raises:
            ProtocolError: it has no definition, or one that no class can have.
        """
        if not isinstance(label, str) or label not in self._definitions:
            raise _malformed(f"message {label!r} has no definition")
        if label in self._making:
            raise _malformed(f"message {label} holds itself")
        if label not in self._made:
            self._making.append(label)
            self._made[label] = self._make(label, self._definitions[label])
            self._making.pop()
        return self._made[label]

    def _make(self, label: str, definition: Any) -> type[Message]:
        names: dict[str, Any] = {"__doc__": _text(definition["intent"]), "__module__": __name__}
        annotations: dict[str, Any] = {}
        defaults = False
        for field in definition["fields"]:
            name = field["name"]
            _checked_name(name)
            if name in annotations:
                raise _malformed(f"{label} has two fields {name}")
            annotations[name] = self._annotation(field["type"], 0)
            if "default" in field:
                names[name] = _default(annotations[name], field["default"])
                defaults = True
            elif defaults:
                names[name] = dataclasses.field(kw_only=True)
        return type(label, (Message,), {**names, "__annotations__": annotations})

    def _annotation(self, described: Any, depth: int) -> Any:
        if depth > _DEEPEST_TYPE:
            raise _malformed("a field's type is nested too deeply")
        if isinstance(described, str) and described in _SCALARS:
            return _SCALARS[described]
        if not isinstance(described, Mapping) or len(described) != 1:
            raise _malformed(f"{described!r} is no field type")
        ((word, inner),) = described.items()
        if word == "list":
            return list[self._annotation(inner, depth + 1)]  # type: ignore[misc]
        if word == "dict":
            return dict[str, self._annotation(inner, depth + 1)]  # type: ignore[misc]
        if word == "optional":
            return Union[self._annotation(inner, depth + 1), None]  # noqa: UP007  (None | None is no type)
        if word == "literal" and inner:
            return Literal[tuple(inner)]
        if word == "enum":
            return self._enum(inner)
        if word == "message":
            return self.message(inner)
        if word in ("between", "where"):
            marker = (
                between(inner["low"], inner["high"]) if word == "between" else Where(_text(inner["requirement"]), None)
            )
            return Annotated[self._annotation(inner["of"], depth + 1), marker]
        raise _malformed(f"{word!r} is no field type")

    def _enum(self, described: Mapping[str, Any]) -> type[Enum]:
        key = repr(described)
        if key not in self._enums:
            _checked_name(described["name"])
            members = [(_checked_name(name), value) for name, value in described["members"]]
            bases = (base, Enum) if (base := _ENUM_BASES[described["base"]]) else (Enum,)
            self._enums[key] = _make_enum(described["name"], bases, members)
        return self._enums[key]


def _checked_name(name: object) -> str:
    """`name` if a field, an enum or its member can have it."""
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
        raise _malformed(f"{name!r} is no name")
    return name


def _text(value: object) -> str:
    """`value` if it is text."""
    if not isinstance(value, str):
        raise _malformed(f"{value!r} is no text")
    return value


def _make_enum(name: str, bases: tuple[type, ...], members: list[tuple[str, Any]]) -> type[Enum]:
    def fill(names: Any) -> None:
        for member, value in members:
            names[member] = value

    return types.new_class(name, bases, exec_body=fill)


def _default(annotation: Any, value: Any) -> Any:
    default = parse(annotation, Message).decode(value)
    if default == [] or default == {}:
        return dataclasses.field(default_factory=type(default))
    return default


def _malformed(why: str) -> ProtocolError:
    return ProtocolError(
        "This is no definition of a protocol", why=why, fix="Make it with definition(protocol) of this version"
    )


def _home(kind: type[Message]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
