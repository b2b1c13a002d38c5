"""What leaves by the ROUTER: letters, the broker's own words, and probes. Nothing here waits."""

import errno
from collections import Counter
from collections.abc import Callable, Sequence

import zmq

from partyctl_broker.words import Words

# Plain numbers: each use of an enum member in an expression, or as an argument of the C socket, costs 1 to 2 us.
_WAIT_NOT = int(zmq.NOBLOCK)
_MORE = int(zmq.SNDMORE | zmq.NOBLOCK)
_EVENTS = int(zmq.EVENTS)


class Sending:
    """Sends to connections: all frames of a message or none.

    Args:
        router: the socket.
        counts: where words that could not be delivered are counted, by reason.
    """

    def __init__(self, router: "zmq.Socket[bytes]", counts: Counter[str]) -> None:
        self._router, self._counts = router, counts
        self.words = Words(self._word)
        """What the broker itself says."""
        # The bare method of the C socket: the public one adds a Python call and a type check per frame.
        self.frame: Callable[[bytes, int], object] = super(zmq.Socket, router).send
        """Sends one frame; the first one of a message is its target."""

    def letter(self, target: bytes, frames: Sequence[bytes]) -> str:
        """Send letters; the empty string, or why not. None overtakes a word."""
        return "full" if target in self.words.waiting else self._send(target, frames)

    def is_reachable(self, connection: bytes) -> bool:
        """Whether ZeroMQ has a connection still, as far as it has been told."""
        self._router.getsockopt(_EVENTS)  # makes ZeroMQ look at what it has been told; a send looks only now and then
        return self._send(connection, (b"",)) != "gone"

    def _word(self, target: bytes, frames: Sequence[bytes]) -> str:
        code = self._send(target, frames)
        if code and code != "full":
            self._counts[f"broker's word not delivered: {code}"] += len(frames) // 2
        return code

    def _send(self, target: bytes, frames: Sequence[bytes]) -> str:
        send = self.frame
        try:
            send(target, _MORE)
            for frame in frames[:-1]:
                send(frame, _MORE)
            send(frames[-1], _WAIT_NOT)
        except zmq.ZMQError as error:
            return refusal(error)
        return ""


def refusal(error: zmq.ZMQError) -> str:
    """Why a message was not sent, as a code of the table."""
    return "full" if error.errno == errno.EAGAIN else "gone"
