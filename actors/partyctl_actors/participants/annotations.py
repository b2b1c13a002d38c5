"""What a function says of itself about the messages that it returns."""

from __future__ import annotations

import types
import typing
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Union, get_args, get_origin, get_type_hints

from partyctl_actors.protocol.message import Message


def returned(function: Callable[..., object]) -> frozenset[type[Message]] | None:
    """The classes of messages that a function can return by its annotation; None if it does not say."""
    target: Any = function if hasattr(function, "__code__") else getattr(function, "__call__", function)  # noqa: B004
    target = getattr(target, "__func__", target)
    try:
        annotation = get_type_hints(target).get("return")
    # An annotation may name what exists for a type checker only, and may be any expression. Then it says nothing here.
    except Exception:
        return None
    return _kinds(annotation)


def _kinds(annotation: object) -> frozenset[type[Message]] | None:
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        parts = [_kinds(part) for part in get_args(annotation)]
        known = [part for part in parts if part is not None]
        return frozenset().union(*known) if len(known) == len(parts) else None
    if origin is typing.Annotated or origin in (Awaitable, Coroutine):
        arguments = get_args(annotation)
        return _kinds(arguments[0] if origin is not Coroutine else arguments[-1])
    if isinstance(annotation, type) and issubclass(annotation, Message) and annotation is not Message:
        return frozenset({annotation})
    return None
