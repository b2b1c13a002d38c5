"""The broker's own words (WELCOME, NACK, GONE, BYE) on their way to peers; pure.

None may be left out: who misses a GONE takes the next holder of an address for the last one. So what does not fit into
a peer's queue waits here, in order, and while any waits no letter goes to that peer, as a letter of the next holder
must not come before. A peer that lets more than WORDS_MAX wait does not read, and is to be shown out: when it comes
back it begins with a HELLO. What is said in a row leaves in one message.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

WORDS_MAX: Final = 16_384
"""Pairs that wait for one peer."""
TOGETHER: Final = 32
"""Pairs that leave in one message."""


class Words:
    """What waits, by connection.

    Args:
        push: sends the frames of a message; the empty string, or why not: `full`, or that the peer is gone.
    """

    def __init__(self, push: Callable[[bytes, Sequence[bytes]], str]) -> None:
        self._push = push
        self.waiting: dict[bytes, deque[bytes]] = {}
        """Frames by connection. Read-only."""
        self._fresh: set[bytes] = set()
        self.deaf: list[bytes] = []
        """Who let too much wait; the owner shows them out, and then calls `drop`."""

    def say(self, target: bytes, frame: bytes, envelope: bytes) -> None:
        """Queue a pair."""
        frames = self.waiting.get(target)
        if frames is None:
            frames = self.waiting[target] = deque()
            self._fresh.add(target)
        elif len(frames) >= 2 * WORDS_MAX:
            if target not in self.deaf:
                self.deaf.append(target)
            return
        frames.append(frame)
        frames.append(envelope)

    def send(self) -> None:
        """Send what was said since the last time, to those whose queue was not full then."""
        while self._fresh:
            self._send(self._fresh.pop())

    def retry(self) -> None:
        """Send also to those whose queue was full."""
        self._fresh.clear()
        for target in list(self.waiting):
            self._send(target)

    def _send(self, target: bytes) -> None:
        frames = self.waiting[target]
        while frames:
            message = [frames.popleft() for _ in range(min(len(frames), 2 * TOGETHER))]
            code = self._push(target, message)
            if code == "full":
                frames.extendleft(reversed(message))
                return
            if code:
                break
        del self.waiting[target]

    def drop(self, target: bytes) -> None:
        """The peer is over."""
        self.waiting.pop(target, None)
        self._fresh.discard(target)
