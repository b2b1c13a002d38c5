"""Messages between our own processes: msgpack maps, with key "t" for the kind."""

from collections.abc import Mapping

import msgpack

Map = dict[str, object]


WHOLE_MAX = 65536
"""Bytes of one value in a message that was shortened."""


def pack(message: Mapping[str, object]) -> bytes:
    """One message as bytes. What no UTF-8 can carry, as models and terminals give it, is replaced."""
    packed: bytes = msgpack.packb(message, unicode_errors="replace")
    return packed


def shortened(message: Mapping[str, object]) -> Map:
    """The message without the values that take over `WHOLE_MAX` bytes: a text is cut, anything else is left out.

    Returns:
        The message; `shortened` in it names these keys.
    """
    long = [key for key, value in message.items() if len(pack({key: value})) > WHOLE_MAX]
    kept = {key: _begin_of(value) if key in long else value for key, value in message.items()}
    return {**kept, "shortened": long}


def _begin_of(value: object) -> str | None:
    return f"{value[: WHOLE_MAX // 8]} ... ({len(value)} characters)" if isinstance(value, str) else None


def unpack(data: bytes) -> Map:
    """The message that `pack` made.

    Raises:
        ValueError: it is no map, or not msgpack.
    """
    unpacked = msgpack.unpackb(data)
    if not isinstance(unpacked, dict):
        raise ValueError(f"a message is a map, not a {type(unpacked).__name__}")
    return unpacked


def maps(value: object) -> list[Map]:
    """The maps in a list that came in a message; nothing if it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def texts(value: object) -> list[str]:
    """The strings in a list that came in a message; nothing if it is no list."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
