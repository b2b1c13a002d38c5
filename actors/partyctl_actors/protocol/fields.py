"""The types a message field may have, and their three forms: Python annotation, wire value, definition.

type      annotation               wire                 definition
Scalar    str int float bool None  itself               "str" "int" "float" "bool" "none"
ListOf    list[T]                  list                 {"list": T}
DictOf    dict[str, T]             map                  {"dict": T}
Optional  T | None                 nil or T             {"optional": T}
OneOf     Literal["a", 1]          itself               {"literal": ["a", 1]}
EnumOf    an Enum class            value of the member  {"enum": {"name", "base", "members": [[name, value]]}}
Nested    a Message class          map of its fields    {"message": label}
Refined   Annotated[T, between(low, high)]    like T    {"between": {"of": T, "low": low, "high": high}}
          Annotated[T, where(words, check)]   like T    {"where": {"of": T, "requirement", "transferable": false}}
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, Flag
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import AfterValidator, AllowInfNan

from partyctl_actors.protocol.refine import Between, Refinement, Where

if TYPE_CHECKING:
    from partyctl_actors.protocol.message import Message

# The span of a MessagePack integer: a larger one would fail on its way, far from the line that made it.
_LEAST_INT, _GREATEST_INT = -(2**63), 2**64 - 1
_ALLOWED = (
    "str, int, float, bool, None, list[T], dict[str, T], T | None, Literal, an Enum, another Message, or Annotated"
)


class UnsupportedType(TypeError):
    """An annotation that no message field may have; its text says why."""


def _within_wire_range(value: int) -> int:
    if not _LEAST_INT <= value <= _GREATEST_INT:
        raise ValueError("an integer beyond 64 bits does not fit on the wire")
    return value


def _encodable(value: str) -> str:
    # Half a surrogate pair (JSON text of a model may hold one) cannot be written as UTF-8.
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("half a surrogate pair is no character") from None
    return value


class FieldType:
    """The type of one field; `plain` means that a value is its own wire form and nobody else can change it."""

    plain = False

    def checked(self) -> object:
        """The annotation under which a value is validated."""
        raise NotImplementedError

    def encode(self, value: Any) -> Any:
        """The wire form of a valid value."""
        return value

    def decode(self, value: Any) -> Any:
        """The value of a wire form; what does not fit is left as it is, for validation to refuse."""
        return value

    def nested(self) -> tuple[type[Message], ...]:
        """The message classes that values of this type hold."""
        return ()


_SCALARS: dict[object, str] = {str: "str", int: "int", float: "float", bool: "bool", type(None): "none"}
_CHECKED: dict[str, object] = {
    "str": Annotated[str, AfterValidator(_encodable)],
    "int": Annotated[int, AfterValidator(_within_wire_range)],
    "float": Annotated[float, AllowInfNan(False)],  # not a number equals nothing, and JSON has no word for it
    "bool": bool,
    "none": None,
}


@dataclass(frozen=True, slots=True)
class Scalar(FieldType):
    name: str
    plain = True

    def checked(self) -> object:
        return _CHECKED[self.name]


@dataclass(frozen=True, slots=True)
class ListOf(FieldType):
    item: FieldType

    def checked(self) -> object:
        return types.GenericAlias(list, (self.item.checked(),))

    def encode(self, value: Any) -> Any:
        return list(value) if self.item.plain else [self.item.encode(item) for item in value]

    def decode(self, value: Any) -> Any:
        return [self.item.decode(item) for item in value] if isinstance(value, list) else value

    def nested(self) -> tuple[type[Message], ...]:
        return self.item.nested()


@dataclass(frozen=True, slots=True)
class DictOf(FieldType):
    item: FieldType

    def checked(self) -> object:
        return types.GenericAlias(dict, (_CHECKED["str"], self.item.checked()))

    def encode(self, value: Any) -> Any:
        return {key: self.item.encode(item) for key, item in value.items()}

    def decode(self, value: Any) -> Any:
        return {key: self.item.decode(item) for key, item in value.items()} if isinstance(value, dict) else value

    def nested(self) -> tuple[type[Message], ...]:
        return self.item.nested()


@dataclass(frozen=True, slots=True)
class Optional(FieldType):
    item: FieldType

    @property
    def plain(self) -> bool:  # type: ignore[override]
        return self.item.plain

    def checked(self) -> object:
        return Union[self.item.checked(), None]  # noqa: UP007  (None | None is no type)

    def encode(self, value: Any) -> Any:
        return None if value is None else self.item.encode(value)

    def decode(self, value: Any) -> Any:
        return None if value is None else self.item.decode(value)

    def nested(self) -> tuple[type[Message], ...]:
        return self.item.nested()


@dataclass(frozen=True, slots=True)
class OneOf(FieldType):
    values: tuple[str | int | bool | None, ...]
    plain = True

    def checked(self) -> object:
        return Literal[self.values]


@dataclass(frozen=True, slots=True)
class EnumOf(FieldType):
    kind: type[Enum]

    def checked(self) -> object:
        return self.kind

    def encode(self, value: Any) -> Any:
        return value.value

    def decode(self, value: Any) -> Any:
        # Not `kind(value)`: it takes 1.0 and True for 1, and may run a `_missing_` of the class.
        for member in self.kind:
            if member.value == value and type(member.value) is type(value):
                return member
        return value


@dataclass(frozen=True, slots=True)
class Nested(FieldType):
    kind: type[Message]

    def checked(self) -> object:
        return self.kind

    def encode(self, value: Any) -> Any:
        return value.to_wire()

    def decode(self, value: Any) -> Any:
        return self.kind.from_wire(value) if isinstance(value, Mapping) else value

    def nested(self) -> tuple[type[Message], ...]:
        return (self.kind,)


@dataclass(frozen=True, slots=True)
class Refined(FieldType):
    item: FieldType
    refinement: Refinement

    @property
    def plain(self) -> bool:  # type: ignore[override]
        return self.item.plain

    def checked(self) -> object:
        inner, markers = self.item.checked(), self.refinement.markers()
        if isinstance(self.refinement, Between) and get_origin(inner) is Annotated:
            # Next to the type itself, where pydantic knows that a JSON schema can say it.
            return Annotated[(get_args(inner)[0], *markers, *get_args(inner)[1:])]
        return Annotated[(inner, *markers)]

    def encode(self, value: Any) -> Any:
        return self.item.encode(value)

    def decode(self, value: Any) -> Any:
        return self.item.decode(value)

    def nested(self) -> tuple[type[Message], ...]:
        return self.item.nested()


def parse(annotation: object, message: type[Message]) -> FieldType:
    """The field type of a resolved annotation.

    Args:
        annotation: what stands behind the colon.
        message: the base class of all messages.

    Raises:
        UnsupportedType: it is not in the table above.
    """
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return _parse_class(annotation, message)
    if annotation is None:
        return Scalar("none")
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _parse_annotated(arguments[0], arguments[1:], message)
    if origin is list:
        return ListOf(parse(arguments[0], message))
    if origin is dict:
        if arguments[0] is not str:
            raise UnsupportedType("the keys of a dict field are str, as on every wire")
        return DictOf(parse(arguments[1], message))
    if origin is Literal:
        return _parse_literal(arguments)
    if origin in (Union, types.UnionType):
        return _parse_union(arguments, message)
    raise UnsupportedType(f"{annotation} is none of {_ALLOWED}")


def _parse_annotated(inner: object, markers: tuple[object, ...], message: type[Message]) -> FieldType:
    kind = parse(inner, message)
    for marker in markers:
        if not isinstance(marker, (Between, Where)):
            raise UnsupportedType(f"Annotated takes between(...) and where(...), not {marker!r:.60}")
        if isinstance(marker, Between) and _unrefined(kind) not in (Scalar("int"), Scalar("float")):
            raise UnsupportedType(f"between(...) is of int and float; write Annotated[int, {_shown(marker)}] | None")
        kind = Refined(kind, marker)
    return kind


def _unrefined(kind: FieldType) -> FieldType:
    while isinstance(kind, Refined):
        kind = kind.item
    return kind


def _shown(marker: Between) -> str:
    return f"between({marker.low}, {marker.high})"


def _parse_class(kind: type, message: type[Message]) -> FieldType:
    if kind in _SCALARS:
        return Scalar(_SCALARS[kind])
    if kind in (list, dict):
        raise UnsupportedType(f"say of what: {'list[str]' if kind is list else 'dict[str, int]'}")
    if issubclass(kind, Enum):
        _check_enum(kind)
        return EnumOf(kind)
    if issubclass(kind, message) and kind is not message:
        if "label" not in kind.__dict__:
            raise UnsupportedType("a message cannot hold itself")
        return Nested(kind)
    raise UnsupportedType(f"{kind.__name__} is none of {_ALLOWED}")


def _check_enum(kind: type[Enum]) -> None:
    if issubclass(kind, Flag):
        raise UnsupportedType(f"{kind.__name__} is a Flag: its combinations have no names; use a list of an Enum")
    values = [member.value for member in kind]
    if not values:
        raise UnsupportedType(f"{kind.__name__} has no members")
    if any(name.startswith("_") for name in kind.__members__):
        raise UnsupportedType(f"{kind.__name__} has a member whose name begins with an underscore")
    if any(type(value) not in (str, int, bool) for value in values):
        raise UnsupportedType(f"the values of {kind.__name__} are not all str, int or bool")


def _parse_literal(values: tuple[object, ...]) -> FieldType:
    plain: list[str | int | bool | None] = []
    for value in values:
        if value is not None and type(value) not in (str, int, bool):
            raise UnsupportedType(f"Literal[{value!r}] is not of str, int, bool or None")
        assert value is None or isinstance(value, (str, int))
        plain.append(value)
    return OneOf(tuple(plain))


def _parse_union(arguments: tuple[object, ...], message: type[Message]) -> FieldType:
    rest = [argument for argument in arguments if argument is not type(None)]
    if len(rest) != 1 or len(rest) == len(arguments):
        raise UnsupportedType("a field has one type, or that type and None; use a choice between two messages instead")
    item = parse(rest[0], message)
    return item if isinstance(item, Optional) else Optional(item)
