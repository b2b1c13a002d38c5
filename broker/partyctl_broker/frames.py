"""Frames as they come from ZeroMQ: the rest of a message, and an envelope that was copied into bytes or was not."""

from collections import Counter
from typing import Final, TypeAlias

import zmq

from partyctl_broker import wire

Envelope: TypeAlias = bytes | zmq.Frame

HEADER_MAX: Final = 4096
"""Bytes of an envelope that hold its header."""
_WAIT_NOT = int(zmq.NOBLOCK)
_RCVMORE = int(zmq.RCVMORE)


def whole(envelope: Envelope) -> bytes:
    """All of it."""
    return envelope if isinstance(envelope, bytes) else envelope.bytes


def head(envelope: Envelope) -> bytes:
    """What holds its header. A refusal needs no more, and copying all of a huge one would take longer than the rest."""
    return envelope[:HEADER_MAX] if isinstance(envelope, bytes) else bytes(envelope.buffer[:HEADER_MAX])


def read_rest(socket: "zmq.Socket[bytes]", frames: list[bytes], counts: Counter[str]) -> list[bytes] | None:
    """Read the message that is being read to its end.

    Args:
        socket: where it comes from.
        frames: what has been read of it; gets the rest.
        counts: where a message that is dropped is counted, by reason.

    Returns:
        All of its frames, which are pairs; None if it has no form or is too long.
    """
    limit = 2 * wire.PAIRS_MAX
    count = len(frames)
    option, receive = socket.getsockopt, socket.recv
    while option(_RCVMORE):
        frame = receive(_WAIT_NOT)
        count += 1
        if count <= limit:
            frames.append(frame)
    if count > limit or count % 2:
        counts["oversized" if count > limit else "malformed"] += 1
        return None
    return frames
