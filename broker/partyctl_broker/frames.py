"""An envelope as it came from ZeroMQ, copied into bytes or not."""

from typing import Final, TypeAlias

import zmq

Envelope: TypeAlias = bytes | zmq.Frame

HEADER_MAX: Final = 4096
"""Bytes of an envelope that hold its header."""


def whole(envelope: Envelope) -> bytes:
    """All of it."""
    return envelope if isinstance(envelope, bytes) else envelope.bytes


def head(envelope: Envelope) -> bytes:
    """What holds its header. A refusal needs no more, and copying all of a huge one would take longer than the rest."""
    return envelope[:HEADER_MAX] if isinstance(envelope, bytes) else bytes(envelope.buffer[:HEADER_MAX])
