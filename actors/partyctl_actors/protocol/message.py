"""Messages: what roles say to each other.

A subclass of `Message` becomes a frozen pydantic dataclass the moment it is defined: fields by position or name,
checked strictly (no "7" for 7, nothing undeclared) when a message is built, so that what exists can be sent.
"""

from __future__ import annotations

import dataclasses
import inspect
import keyword
import sys
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar, dataclass_transform, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as pydantic_dataclass
from pydantic.fields import FieldInfo
from pydantic_core import ArgsKwargs

from partyctl_actors.errors import ContentError, ProtocolError
from partyctl_actors.protocol.fields import FieldType, UnsupportedType, parse

M = TypeVar("M", bound="Message")

_CONFIG = ConfigDict(strict=True, extra="forbid")
_RESERVED = frozenset({"label", "intent", "to_wire", "from_wire", "field_types", "is_plain"})


@dataclass_transform(frozen_default=True, kw_only_default=False, field_specifiers=(dataclasses.field,))
class Message:
    """The base of all messages; a subclass declares its fields, and its docstring says what it means.

    Attributes:
        label: the name of the class, by which a choice tells its branches apart.
        intent: the docstring, told to whoever authors the message.
        field_types: the name and type of every field, in order.
        is_plain: whether no field can be changed from within, so that a message may be shared instead of copied.

    Raises:
        ProtocolError: at the definition of a class that cannot be a message.
        ContentError: at the making of a message whose fields do not fit.
    """

    label: ClassVar[str]
    intent: ClassVar[str]
    field_types: ClassVar[Mapping[str, FieldType]]
    is_plain: ClassVar[bool]

    def __init__(self) -> None:
        raise ProtocolError("Message itself cannot be sent", fix="Declare class Ticket(Message): ... and make a Ticket")

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _define(cls, dict(sys._getframe(1).f_locals))

    def to_wire(self) -> dict[str, Any]:
        """The fields as plain values that JSON and MessagePack can carry; the message keeps none of them."""
        values = self.__dict__
        return {
            name: values[name] if kind.plain else kind.encode(values[name]) for name, kind in self.field_types.items()
        }

    @classmethod
    def from_wire(cls: type[M], data: Mapping[str, Any]) -> M:
        """The message of these fields; a field that has a default may be missing.

        Raises:
            ContentError: it is not a mapping, or a field is missing, undeclared, or of another type.
        """
        if not isinstance(data, Mapping) or not all(isinstance(name, str) for name in data):
            raise ContentError(
                f"This is no {cls.label}",
                why=f"its fields come as a mapping from their names, not as {type(data).__name__}",
            )
        fields = dict(data)
        for name, kind in cls.field_types.items():
            if not kind.plain and name in fields:
                try:
                    fields[name] = kind.decode(fields[name])
                except ContentError as error:
                    raise _within(cls, name, error) from None
        return cls(**fields)


def _checked_init(self: Any, /, *args: Any, **kwargs: Any) -> None:
    # In place of pydantic's own, which differs only in the error it lets out.
    try:
        self.__pydantic_validator__.validate_python(ArgsKwargs(args, kwargs), self_instance=self)
    except ValidationError as error:
        raise _content_error(type(self), error) from None


def _content_error(cls: type[Message], error: ValidationError) -> ContentError:
    problems = tuple(_problem(list(cls.field_types), details) for details in error.errors(include_url=False))
    fields = ", ".join(cls.field_types) or "no fields"
    return ContentError(
        f"This is no {cls.label}",
        why="; ".join(problems),
        fix=f"{cls.label} has {fields}",
        problems=problems,
    )


def _within(cls: type[Message], field: str, error: ContentError) -> ContentError:
    """`error` of a nested message, told as one of the message around it."""
    problems = tuple(f"{field}.{problem}" for problem in error.problems)
    return ContentError(f"This is no {cls.label}", where=field, why=str(error), problems=problems)


def _problem(names: list[str], details: Any) -> str:
    place = [str(part) for part in details["loc"]]
    if place and place[0].isdigit() and int(place[0]) < len(names):
        place[0] = names[int(place[0])]
    message = details["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    kind = details["type"]
    if kind.startswith(("missing", "unexpected")):
        return f"{'.'.join(place)}: {message}"
    shown = repr(details["input"])
    return f"{'.'.join(place)}: {message}, got {shown if len(shown) <= 60 else shown[:57] + '...'}"


def _define(cls: type[Message], scope: dict[str, Any]) -> None:
    """Turn a class that was just defined into a message; `scope` holds the names around its definition."""
    if not cls.__name__.isidentifier() or keyword.iskeyword(cls.__name__):
        raise _wrong(cls, "", "This name cannot be a label", "it is no name of a class")
    _check_bases(cls)
    intent = inspect.cleandoc(cls.__dict__.get("__doc__") or "")
    annotations = _resolved(cls, scope)
    kinds: dict[str, FieldType] = {}
    checked: dict[str, Any] = {}
    for name, annotation in annotations.items():
        if annotation is ClassVar or get_origin(annotation) is ClassVar:
            continue
        _check_name(cls, name)
        try:
            kinds[name] = parse(annotation, Message)
        except UnsupportedType as error:
            raise _wrong(cls, name, "A message field cannot have this type", str(error)) from None
        checked[name] = kinds[name].checked()
        _check_default(cls, name, checked[name])
    cls.__annotations__ = annotations | checked
    try:
        pydantic_dataclass(cls, frozen=True, config=_CONFIG)
    except (TypeError, ValueError) as error:
        raise _wrong(cls, "", "This class cannot be a message", str(error)) from None
    cls.__annotations__ = annotations
    setattr(cls, "__init__", _checked_init)  # noqa: B010  (mypy lets no method be assigned)
    cls.__doc__ = intent or None
    cls.label = cls.__name__
    cls.intent = intent
    cls.field_types = kinds
    cls.is_plain = all(kind.plain for kind in kinds.values())


def _resolved(cls: type[Message], scope: dict[str, Any]) -> dict[str, Any]:
    own = inspect.get_annotations(cls)
    if not own:
        return {}
    try:
        # Types defined in the body of the class count, values do not: a default may have the name of a type.
        inner = {name: value for name, value in vars(cls).items() if isinstance(value, type)}
        hints = get_type_hints(cls, localns={**scope, **inner, cls.__name__: cls}, include_extras=True)
    except (NameError, TypeError, SyntaxError, AttributeError) as error:
        raise _wrong(cls, "", "The types of a message could not be read", str(error)) from None
    return {name: hints[name] for name in own}


def _check_bases(cls: type[Message]) -> None:
    for base in cls.__mro__[1:]:
        if base is Message or base is object:
            continue
        if issubclass(base, Message):
            why = f"{base.__name__} is a message itself, and a role could not tell the two apart"
            raise _wrong(cls, "", "Messages do not inherit from each other", why, "Hold shared fields in a field")
        if dataclasses.is_dataclass(base):
            raise _wrong(cls, "", "A message declares its own fields", f"{base.__name__} is a dataclass")


def _check_name(cls: type[Message], name: str) -> None:
    if name in _RESERVED:
        raise _wrong(cls, name, "This name is taken by Message itself", "", f"Name the field {name}_ or better")
    if name.startswith("_"):
        raise _wrong(cls, name, "A message field cannot be private", "it is part of what is said")


def _check_default(cls: type[Message], name: str, checked: Any) -> None:
    if name not in cls.__dict__:
        return
    default = cls.__dict__[name]
    if isinstance(default, FieldInfo):
        raise _wrong(cls, name, "A pydantic Field cannot be kept in a definition", "", "Use dataclasses.field")
    if isinstance(default, dataclasses.Field):
        if not default.init:
            raise _wrong(
                cls, name, "A message field cannot be left out of the constructor", "it is part of what is said"
            )
        default = default.default
    if default is not dataclasses.MISSING:
        try:
            # Pydantic takes a default as it is, so a wrong one would only be noticed by whoever reads the message.
            TypeAdapter(checked).validate_python(default, strict=True)
        except ValidationError as error:
            raise _wrong(cls, name, "The default does not fit its field", error.errors()[0]["msg"]) from None


def _wrong(cls: type, field: str, what: str, why: str, fix: str = "") -> ProtocolError:
    return ProtocolError(what, where=f"{cls.__name__}.{field}" if field else cls.__name__, why=why, fix=fix)
