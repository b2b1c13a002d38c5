"""Messages between our own processes: msgpack maps, with key "t" for the kind."""

from collections.abc import Mapping

import msgpack

Map = dict[str, object]


def pack(message: Mapping[str, object]) -> bytes:
    """One message as bytes."""
    packed: bytes = msgpack.packb(message)
    return packed


def unpack(data: bytes) -> Map:
    """The message that `pack` made.

    Raises:
        ValueError: it is no map, or not msgpack.
    """
    unpacked = msgpack.unpackb(data)
    if not isinstance(unpacked, dict):
        raise ValueError(f"a message is a map, not a {type(unpacked).__name__}")
    return unpacked


def sendable(message: Mapping[str, object]) -> Map:
    """The message with what no UTF-8 can carry, as models and terminals give it, replaced."""
    return {key: _sendable(value) for key, value in message.items()}


def _sendable(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, Mapping):
        return {str(_sendable(key)): _sendable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_sendable(item) for item in value]
    return value


def maps(value: object) -> list[Map]:
    """The maps in a list that came in a message; nothing if it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def texts(value: object) -> list[str]:
    """The strings in a list that came in a message; nothing if it is no list."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
