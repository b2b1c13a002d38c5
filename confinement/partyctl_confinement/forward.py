"""What workers print, and how they died, on its way to a host that may not read: in bounded memory. Pure.

A worker that floods loses its own output, not that of others: each has a share of the room. What is lost is counted,
and the count takes its place in the order of the pieces.
"""

from collections import deque
from collections.abc import Mapping
from typing import Final

from partyctl_confinement import messages

PIECE_MAX: Final = 16 * 1024
"""Bytes of output in one message."""

BACKLOG_MAX: Final = 1024 * 1024
SHARE_MAX: Final = 256 * 1024
"""Bytes of messages that may wait, of all workers and of one."""

COUNTS_MAX: Final = 1024
"""Workers whose losses are counted one by one until the host reads again; those of others are counted together."""


class Backlog:
    """Messages that wait for room in the host's channel.

    Args:
        longest: bytes that may wait.
        share: bytes that may wait of one worker.
    """

    def __init__(self, *, longest: int = BACKLOG_MAX, share: int = SHARE_MAX) -> None:
        self._longest = longest
        self._share = share
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._size = 0
        self._shares: dict[str, int] = {}
        self._dropped: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting or self._dropped)

    def put(self, worker_id: str, name: str, labels: Mapping[str, str], data: bytes) -> None:
        """Keep what a worker printed, or count it as dropped."""
        for start in range(0, len(data), PIECE_MAX):
            piece = data[start : start + PIECE_MAX]
            message = messages.output(worker_id, name, labels, piece)
            lost = self._dropped.get(worker_id, 0)
            told = [messages.dropped(worker_id, lost), message] if lost else [message]
            if not self._keep(worker_id, told):
                self._count(worker_id, len(piece))
            elif lost:
                del self._dropped[worker_id]

    def died(self, worker_id: str, message: bytes) -> None:
        """Keep how a worker died, behind what it printed; nothing of it if there is no room."""
        self._keep(worker_id, [message])

    def take(self) -> bytes | None:
        """The next message; None if none waits."""
        if self._waiting:
            worker_id, message = self._waiting.popleft()
            self._size -= len(message)
            self._shares[worker_id] -= len(message)
            if not self._shares[worker_id]:
                del self._shares[worker_id]
            return message
        if self._dropped:
            worker_id = next(iter(self._dropped))
            return messages.dropped(worker_id, self._dropped.pop(worker_id))
        return None

    def _keep(self, worker_id: str, told: list[bytes]) -> bool:
        size = sum(map(len, told))
        if self._size + size > self._longest or self._shares.get(worker_id, 0) + size > self._share:
            return False
        self._waiting.extend((worker_id, message) for message in told)
        self._size += size
        self._shares[worker_id] = self._shares.get(worker_id, 0) + size
        return True

    def _count(self, worker_id: str, size: int) -> None:
        if worker_id not in self._dropped and len(self._dropped) >= COUNTS_MAX:
            worker_id = ""
        self._dropped[worker_id] = self._dropped.get(worker_id, 0) + size
