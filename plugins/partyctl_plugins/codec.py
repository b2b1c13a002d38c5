"""Frozen dataclasses to msgpack maps and back, by their type hints.

Both directions check every value against its hint: what a plugin reports wrongly is caught in its own worker, and what
a worker sends wrongly is caught at the other end. A class inside a union carries its name under "type". A field that
has its simple default is left out. Text may hold lone surrogates: command lines and model output do.

The hints understood are those our classes use: scalars, `object` (JSON-like data), enums, `Literal`, optional values,
`tuple[X, ...]`, `frozenset[X]`, `Mapping[str, X]`, dataclasses and unions of dataclasses. No library is used, because
the worker may import none of those that do this (pydantic alone is 20 MiB per process).
"""

import dataclasses
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Literal, NamedTuple, Union, cast, get_args, get_origin, get_type_hints

import msgpack

from partyctl_plugins.errors import RecordError

TAG = "type"


class Mismatch(Exception):
    """A value that does not fit its hint; `path` grows from the inside out."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path: list[str] = []

    def describe(self) -> str:
        """The problem with the place it was found at."""
        return f"{'.'.join(reversed(self.path))}: {self.problem}" if self.path else self.problem


class Codec(NamedTuple):
    """The two directions of one hint."""

    encode: Callable[[object], object]
    decode: Callable[[object], object]


def pack(value: object) -> bytes:
    """Bytes of an encoded value.

    Raises:
        RecordError: it holds what msgpack cannot carry.
    """
    try:
        return cast(bytes, msgpack.packb(value, unicode_errors="surrogatepass"))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise RecordError("a value cannot be sent", why=str(error)) from error


def unpack(data: bytes) -> object:
    """The encoded value in `data`.

    Raises:
        RecordError: these bytes are not msgpack.
    """
    try:
        return cast(object, msgpack.unpackb(data, unicode_errors="surrogatepass"))
    except (ValueError, msgpack.exceptions.UnpackException, RecursionError) as error:
        raise RecordError("a record is not msgpack", why=f"{type(error).__name__} {error}".strip()) from error


@cache
def codec(hint: object) -> Codec:
    """The codec of a type hint. A hint that is not understood is a TypeError, at import."""
    scalar = _SCALARS.get(hint)
    if scalar is not None:
        return Codec(scalar, scalar)
    if hint is object:
        return Codec(_plain, _plain)
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return _literal(args)
    if origin in (Union, UnionType):
        return _union(args)
    if origin is tuple and len(args) == 2 and args[1] is ...:
        return _sequence(codec(args[0]), tuple)
    if origin is frozenset:
        return _sequence(codec(args[0]), frozenset)
    if origin is Mapping:
        return _mapping(codec(args[1]))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum(hint)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _dataclass(hint)
    raise TypeError(f"no codec for the type hint {hint!r}")


def _scalar(expected: type | tuple[type, ...], name: str) -> Callable[[object], object]:
    def check(value: object) -> object:
        if isinstance(value, expected) and (expected is bool or not isinstance(value, bool)):
            return value
        raise Mismatch(f"{name} expected, not {_shown(value)}")

    return check


_SCALARS: dict[object, Callable[[object], object]] = {
    str: _scalar(str, "text"),
    int: _scalar(int, "a whole number"),
    float: _scalar((int, float), "a number"),
    bool: _scalar(bool, "true or false"),
    bytes: _scalar(bytes, "bytes"),
    NoneType: _scalar(NoneType, "nothing"),
}


def _plain(value: object) -> object:
    if value is None or isinstance(value, str | bool | int | float | bytes):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {_key(key): _plain(item) for key, item in value.items()}
    raise Mismatch(f"JSON-like data expected, not {_shown(value)}")


def _key(key: object) -> str:
    if isinstance(key, str):
        return key
    raise Mismatch(f"text expected as a key, not {_shown(key)}")


def _literal(values: tuple[object, ...]) -> Codec:
    def check(value: object) -> object:
        if value in values:
            return value
        raise Mismatch(f"one of {values} expected, not {_shown(value)}")

    return Codec(check, check)


def _enum(kind: type[Enum]) -> Codec:
    def encode(value: object) -> object:
        if isinstance(value, kind):
            return value.value
        raise Mismatch(f"{kind.__name__} expected, not {_shown(value)}")

    def decode(value: object) -> object:
        try:
            return kind(value)
        except ValueError:
            raise Mismatch(f"no {kind.__name__}: {_shown(value)}") from None

    return Codec(encode, decode)


def _sequence(inner: Codec, kind: type[tuple[object, ...]] | type[frozenset[object]]) -> Codec:
    def encode(value: object) -> object:
        if not isinstance(value, kind):
            raise Mismatch(f"{kind.__name__} expected, not {_shown(value)}")
        items = [inner.encode(item) for item in value]
        return sorted(items, key=str) if kind is frozenset else items

    def decode(value: object) -> object:
        if not isinstance(value, list):
            raise Mismatch(f"a list expected, not {_shown(value)}")
        return kind(inner.decode(item) for item in value)

    return Codec(encode, decode)


def _mapping(inner: Codec) -> Codec:
    def convert(value: object, each: Callable[[object], object]) -> object:
        if not isinstance(value, Mapping):
            raise Mismatch(f"a map expected, not {_shown(value)}")
        return {_key(key): each(item) for key, item in value.items()}

    return Codec(lambda value: convert(value, inner.encode), lambda value: convert(value, inner.decode))


def _union(args: tuple[object, ...]) -> Codec:
    classes = [arg for arg in args if arg is not NoneType]
    inner = codec(classes[0]) if len(classes) == 1 else tagged(cast("list[type]", classes), TAG)
    if len(classes) == len(args):
        return inner
    return Codec(
        lambda value: None if value is None else inner.encode(value),
        lambda value: None if value is None else inner.decode(value),
    )


def tagged(classes: list[type], tag: str, names: Callable[[type], str] = lambda cls: cls.__name__) -> Codec:
    """The codec of a union of dataclasses: the class is named under `tag`, as `names` calls it."""
    by_name = {names(cls): codec(cls) for cls in classes}
    by_class = {cls: (names(cls), codec(cls)) for cls in classes}

    def encode(value: object) -> object:
        for cls in type(value).__mro__:
            if cls in by_class:
                name, inner = by_class[cls]
                return {tag: name, **cast("dict[str, object]", inner.encode(value))}
        raise Mismatch(f"one of {', '.join(by_name)} expected, not {_shown(value)}")

    def decode(value: object) -> object:
        if not isinstance(value, dict):
            raise Mismatch(f"a map expected, not {_shown(value)}")
        name = value.get(tag)
        inner = by_name.get(name) if isinstance(name, str) else None
        if inner is None:
            raise Mismatch(f"unknown {tag} {_shown(name)}")
        return inner.decode({key: item for key, item in value.items() if key != tag})

    return Codec(encode, decode)


class _Field(NamedTuple):
    name: str
    codec: Codec
    default: object
    required: bool


def _dataclass(cls: type) -> Codec:
    hints = get_type_hints(cls)
    layout = [
        _Field(
            entry.name,
            codec(hints[entry.name]),
            entry.default,
            entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING,
        )
        for entry in dataclasses.fields(cls)
    ]
    names = {entry.name for entry in layout}

    def encode(value: object) -> object:
        if not isinstance(value, cls):
            raise Mismatch(f"{cls.__name__} expected, not {_shown(value)}")
        encoded: dict[str, object] = {}
        for entry in layout:
            item = getattr(value, entry.name)
            if item is not entry.default:
                encoded[entry.name] = _at(entry.name, entry.codec.encode, item)
        return encoded

    def decode(value: object) -> object:
        if not isinstance(value, dict):
            raise Mismatch(f"a map expected, not {_shown(value)}")
        unknown = value.keys() - names
        missing = [entry.name for entry in layout if entry.required and entry.name not in value]
        if unknown or missing:
            raise Mismatch(f"{cls.__name__} has unknown fields {sorted(map(str, unknown))}, lacks {missing}")
        given = {e.name: _at(e.name, e.codec.decode, value[e.name]) for e in layout if e.name in value}
        try:
            return cls(**given)
        except (TypeError, ValueError) as error:
            raise Mismatch(f"no {cls.__name__}: {error}") from error

    return Codec(encode, decode)


def _at(name: str, convert: Callable[[object], object], value: object) -> object:
    try:
        return convert(value)
    except Mismatch as mismatch:
        mismatch.path.append(name)
        raise


def _shown(value: object) -> str:
    """A value for an error message; short, and safe for objects whose repr is not."""
    if isinstance(value, str | int | float | bytes | bool | None):
        text = repr(value)
        return text if len(text) <= 80 else f"{text[:77]}..."
    return f"a {type(value).__name__}"
