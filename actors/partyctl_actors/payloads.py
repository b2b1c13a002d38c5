"""The bytes of a message's fields, as they travel and as they are recorded.

MessagePack, with the two things Python text and numbers can be that it cannot: integers beyond 64 bits (an extension
type that holds their decimal digits) and half surrogate pairs.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

import msgpack

from partyctl_actors.errors import ContentError

_BIG_INTEGER = 1
# CPython itself refuses to read longer integers from text (sys.int_info.default_max_str_digits).
_MOST_DIGITS = 4300


def pack(fields: Mapping[str, object]) -> bytes:
    """The bytes of a message's fields.

    Raises:
        ContentError: a value cannot be carried: nested too deep, or not text, number, bool, None, list or dict.
    """
    packer = _packers.packer
    try:
        packed: bytes = packer.pack(fields)
    except (TypeError, ValueError, OverflowError) as error:
        packer.reset()
        raise ContentError("The fields of a message cannot be carried", why=str(error)) from error
    return packed


def unpack(data: bytes) -> dict[str, object]:
    """The fields that `pack` packed.

    Raises:
        ContentError: these bytes are not the fields of a message.
    """
    try:
        fields = msgpack.unpackb(data, ext_hook=_integer, unicode_errors="surrogatepass", strict_map_key=False)
    except (ValueError, msgpack.exceptions.UnpackException) as error:
        raise ContentError("The fields of a message cannot be read", why=str(error)) from error
    if not isinstance(fields, dict):
        raise ContentError("The fields of a message cannot be read", why=f"they are a {type(fields).__name__}")
    return fields


def _extended(value: object) -> msgpack.ExtType:
    # MessagePack also asks here for an integer that it finds too large.
    if isinstance(value, int):
        return msgpack.ExtType(_BIG_INTEGER, str(value).encode())
    raise TypeError(f"a {type(value).__name__} is not text, number, bool, None, list or dict")


def _integer(code: int, data: bytes) -> int:
    if code != _BIG_INTEGER or len(data) > _MOST_DIGITS:
        raise ValueError(f"extension type {code} of {len(data)} bytes")
    return int(data)


class _Packers(threading.local):
    """One for each thread, as a packer cannot be shared; making one takes longer than packing a message (measured)."""

    def __init__(self) -> None:
        self.packer = msgpack.Packer(default=_extended, unicode_errors="surrogatepass")


_packers = _Packers()
