"""The form of what travels between a peer and the broker; pure.

One ZeroMQ message is any number of pairs of frames, at most PAIRS_MAX: an address frame and an envelope.

Address frame: `destination NUL source`, in UTF-8. The empty destination is the broker, the empty source too. One byte
string names the whole road of a letter, so that the broker finds its way by one look into one table, and forwards
frames as they came. A message without any pair (one empty frame) is a probe: it says nothing and asks for nothing.

Envelope: a msgpack array (version, kind, stream, sequence, correlation, trace parent) and, right behind it, the
payload. A seventh element, `since`, is there when a letter is sent again to another broker than the one it was first
sent to. A later version may append to the array; a reader ignores what it does not know. We always write the three
numbers with eight bytes, so that our own header has a fixed form and costs one struct call on either side.
"""

import struct
from enum import IntEnum
from typing import Final, NamedTuple

import msgpack

from partyctl_broker.errors import LetterRefused, Malformed, VersionMismatch

VERSION: Final = 1
ADDRESS_MAX: Final = 255
"""Bytes of one address."""
PAYLOAD_MAX: Final = 4 * 1024 * 1024
"""Bytes of one payload. The sender checks it: ZeroMQ drops a larger frame without a word to anybody."""
FRAME_MAX: Final = PAYLOAD_MAX + 1024
PAIRS_MAX: Final = 32
"""Pairs in one message."""

TO_BROKER: Final = b"\0"
"""The address frame between a peer as a whole and the broker."""


class Kind(IntEnum):
    """What an envelope is for.

    Between a peer and the broker: HELLO, WELCOME, BYE, ROSTER, GONE, NACK. Between two addresses, along the road of the
    letters: DATA, ASSURED, ACK (these three have a stream and a sequence), RECEIPT, ASK, NACK.
    """

    DATA = 0
    HELLO = 1
    WELCOME = 2
    BYE = 3
    ROSTER = 4
    GONE = 5
    NACK = 6
    ACK = 7
    """The effect of an ASSURED letter is durable or finished."""
    RECEIPT = 8
    """What has arrived so far; opens the window, and promises nothing."""
    ASK = 9
    """The sender wants a RECEIPT now."""
    ASSURED = 10
    """DATA whose sender wants an ACK."""


class Envelope(NamedTuple):
    """An envelope taken apart. `kind` is a plain number, as an unknown one is no reason to fail.

    Args:
        stream: which stream of letters the sequence counts in; 0 for none.
        since: the life of the broker that the letter was first sent to; 0 if it is the present one.
    """

    kind: int
    stream: int
    sequence: int
    correlation: int
    trace: bytes
    payload: bytes
    since: int = 0


_FIXED = struct.Struct(">BBBBQBQBQB")
_ARRAY6, _UINT64, _NIL = 0x96, 0xCF, 0xC0
TAIL_MARKS: Final = (_UINT64, _UINT64, _NIL)
UNPACK_ERRORS: Final = (ValueError, TypeError, OverflowError, msgpack.exceptions.UnpackException)
"""What msgpack raises on bytes it cannot read."""

_HEAD = struct.Struct(">BBBBQ")
_TAIL = struct.Struct(">BQBQB")
HEAD_SIZE: Final = _HEAD.size
HEADER_SIZE: Final = _FIXED.size
"""Bytes of our fixed header."""

_pack_tail = _TAIL.pack
unpack_tail = _TAIL.unpack_from
"""(mark, sequence, mark, correlation, nil) of a fixed header, at HEAD_SIZE."""
_pack_fixed = _FIXED.pack
_unpack_fixed = _FIXED.unpack_from


def seal(
    kind: Kind,
    sequence: int,
    correlation: int,
    payload: bytes,
    *,
    stream: int = 0,
    trace: bytes = b"",
    since: int = 0,
) -> bytes:
    """An envelope. The numbers are unsigned, of 64 bits."""
    if trace or since:
        header = (VERSION, int(kind), stream, sequence, correlation, trace or None)
        return bytes(msgpack.packb((*header, since) if since else header)) + payload
    return _pack_fixed(_ARRAY6, VERSION, kind, _UINT64, stream, _UINT64, sequence, _UINT64, correlation, _NIL) + payload


def head(kind: Kind, stream: int) -> bytes:
    """The first HEAD_SIZE bytes of our fixed header: what all letters of a kind in a stream have in common."""
    return _HEAD.pack(_ARRAY6, VERSION, kind, _UINT64, stream)


def seal_letter(head: bytes, sequence: int, correlation: int, payload: bytes) -> bytes:
    """An envelope behind a `head`; the same as `seal`, for the one path where microseconds count."""
    return head + _pack_tail(_UINT64, sequence, _UINT64, correlation, _NIL) + payload


def unseal(data: bytes) -> Envelope:
    """Take an envelope apart.

    Raises:
        VersionMismatch: it is of another version.
        Malformed: it is no envelope.
    """
    if len(data) >= HEADER_SIZE:
        array, version, kind, mark, stream, mark2, sequence, mark3, correlation, nil = _unpack_fixed(data)
        marks = mark == mark2 == mark3 == _UINT64
        if array == _ARRAY6 and version == VERSION and marks and nil == _NIL and kind < 128:
            return Envelope(kind, stream, sequence, correlation, b"", data[HEADER_SIZE:])
    return _unseal_foreign(data)


def _unseal_foreign(data: bytes) -> Envelope:
    """The general form: any msgpack array of at least six elements."""
    unpacker = msgpack.Unpacker(max_buffer_size=FRAME_MAX, max_array_len=32, max_map_len=32, max_bin_len=1024)
    try:
        unpacker.feed(data)
        header = unpacker.unpack()
        offset = unpacker.tell()
    except UNPACK_ERRORS as error:
        raise Malformed("an envelope has no header", why=str(error)) from error
    if not isinstance(header, list) or not header or type(header[0]) is not int:
        raise Malformed("an envelope's header is not an array that starts with a version")
    if header[0] != VERSION:
        raise VersionMismatch(header[0])
    if len(header) < 6:
        raise Malformed("an envelope's header is too short", why=f"{len(header)} elements")
    kind, stream, sequence, correlation, trace = header[1:6]
    since = header[6] if len(header) > 6 else 0
    if not all(is_count(number) for number in (kind, stream, sequence, correlation, since)):
        raise Malformed("an envelope's header holds something else than numbers")
    if trace is not None and not isinstance(trace, bytes):
        raise Malformed("an envelope's trace parent is not bytes")
    return Envelope(kind, stream, sequence, correlation, trace or b"", data[offset:], since)


def is_count(value: object) -> bool:
    """Whether the value is an unsigned 64 bit number."""
    return type(value) is int and 0 <= value < 1 << 64


def check_address(address: str) -> bytes:
    """The address in UTF-8.

    Raises:
        LetterRefused: it is empty, too long, holds a NUL or cannot be encoded.
    """
    try:
        encoded = address.encode()
    except UnicodeEncodeError as error:
        raise LetterRefused("an address cannot be encoded", where=ascii(address), why=str(error)) from error
    if not encoded or len(encoded) > ADDRESS_MAX or b"\0" in encoded:
        raise LetterRefused(
            "this is no address", where=ascii(address[:80]), why=f"an address has 1 to {ADDRESS_MAX} bytes and no NUL"
        )
    return encoded


def road(destination: str, source: str) -> bytes:
    """The address frame from `source` to `destination`; either may be empty for the broker."""
    return f"{destination}\0{source}".encode()


def ends(frame: bytes) -> tuple[str, str]:
    """(destination, source) of an address frame.

    Raises:
        Malformed: it is no address frame.
    """
    if len(frame) > 2 * ADDRESS_MAX + 1:
        raise Malformed("an address frame is too long", why=f"{len(frame)} bytes")
    destination, nul, source = frame.partition(b"\0")
    if not nul or b"\0" in source or len(destination) > ADDRESS_MAX or len(source) > ADDRESS_MAX:
        raise Malformed("an address frame is not two addresses")
    try:
        return destination.decode(), source.decode()
    except UnicodeDecodeError as error:
        raise Malformed("an address frame is not UTF-8", why=str(error)) from error
