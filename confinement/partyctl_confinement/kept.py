"""Workers of agent sessions: they outlive the death of their client for a while, until another one attaches.

The launcher has a duplicate of the client's end of such a worker's pair, so the worker sees no end of its channel when
the client dies. Nobody reads there any more: that direction is shut, which also frees a worker that waits for room.
Whoever attaches gets a pair of its own, whose other end goes to the worker over the duplicate, after all that the dead
client had sent. So no half of a message is taken for the beginning of another.

A client attaches under a number, its epoch, which must be greater than that of whoever had the worker before.
"""

import contextlib
import os
import socket
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from partyctl_base.channel import MOVED
from partyctl_confinement.nursery import Worker

LABEL: Final = "session"
"""The label that names the agent session of a worker, and makes it one that is kept."""

UNATTACHED_MAX: Final = 10.0
"""Seconds a worker whose client is gone waits for another one."""

ENDS_MAX: Final = 64
"""Sessions of which the end of their last worker is remembered, 16 KiB each, for whoever attaches too late."""

_DRAIN_MAX: Final = 4096
"""Records read from a pair that nobody reads any more; a socket holds some hundreds."""


class AttachRefused(Exception):
    """Why a client may not have a worker."""


@dataclass(frozen=True, slots=True)
class Attached:
    """What a client that attaches gets.

    Attributes:
        worker: which.
        end: the client's end of the pair, its own from now on.
        previous: the client that had it; None if that one is gone.
        is_gone: whether the worker has ended; then the channel has as well, and only its notice is left.
    """

    worker: Worker
    end: int
    previous: object
    is_gone: bool = False


@dataclass(slots=True, eq=False)
class _Kept:
    worker: Worker
    epoch: int
    spare: socket.socket
    since: float | None = None


class Kept:
    """The workers of agent sessions.

    Args:
        limit: seconds that one of them may be without a client.
    """

    def __init__(self, limit: float = UNATTACHED_MAX) -> None:
        self._limit = limit
        self._by_id: dict[str, _Kept] = {}
        self._ends: OrderedDict[str, tuple[Worker, int]] = OrderedDict()

    def add(self, worker: Worker, end: int) -> None:
        """Keep a worker that has just been started, if it is of an agent session; `end` stays the caller's.

        Raises:
            OSError: the machine has no room for a duplicate of it.
        """
        session = worker.request.labels.get(LABEL)
        if session:
            spare = socket.socket(fileno=os.dup(end))
            self._ends.pop(session, None)
            self._by_id[worker.id] = _Kept(worker, worker.request.epoch, spare)

    def detach(self, worker: Worker, now: float) -> bool:
        """Its client is gone; False if the worker is not one that is kept."""
        kept = self._by_id.get(worker.id)
        if kept is None:
            return False
        worker.client, kept.since = None, now
        _shut(kept.spare)
        return True

    def attach(self, session: str, epoch: int, client: object) -> Attached | None:
        """Give the worker of a session to another client; of several, the youngest that is not being killed.

        None if there is none, and nothing is known of the end of one.

        Raises:
            AttachRefused: the epoch is not a later one, or the worker is stuck.
            OSError: the machine has no room for another pair.
        """
        found = [kept for kept in self._by_id.values() if kept.worker.request.labels[LABEL] == session]
        living = [kept for kept in found if kept.worker.wait_status is None and kept.worker.cause == "exit"]
        if not found:
            return self._too_late(session, epoch)
        kept = (living or found)[-1]
        _check(epoch, kept.epoch)
        with contextlib.ExitStack() as ours:
            near, far = map(ours.enter_context, socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            spare = ours.enter_context(near.dup())
            _hand_over(kept.spare, far)
            kept.spare.close()
            previous, kept.worker.client = kept.worker.client, client
            kept.epoch, kept.since, kept.spare = epoch, None, spare
            ours.pop_all()
        far.close()
        return Attached(kept.worker, near.detach(), previous)

    def expect(self, label: str, text: str, now: float) -> None:
        """Somebody is about to attach to the workers whose `label` is `text`: those without a client wait anew."""
        for kept in self._by_id.values():
            if kept.since is not None and kept.worker.request.labels.get(label) == text:
                kept.since = now

    def ended(self, worker: Worker) -> None:
        """A worker is gone. How it ended is remembered, if it was one that is kept."""
        kept = self._by_id.pop(worker.id, None)
        if kept is not None:
            kept.spare.close()
            self._ends[worker.request.labels[LABEL]] = (worker, kept.epoch)
            if len(self._ends) > ENDS_MAX:
                self._ends.popitem(last=False)

    def overdue(self, now: float) -> list[Worker]:
        """Those that were without a client for too long."""
        return [worker for worker, since in self._unattached() if now >= since + self._limit]

    def due(self) -> float | None:
        """When the next one will have been; None if all have a client."""
        waiting = [since for _, since in self._unattached()]
        return min(waiting) + self._limit if waiting else None

    def _unattached(self) -> list[tuple[Worker, float]]:
        """Those without a client, and since when; what is being killed waits for nobody."""
        kept = self._by_id.values()
        return [(each.worker, each.since) for each in kept if each.since is not None and each.worker.cause == "exit"]

    def _too_late(self, session: str, epoch: int) -> Attached | None:
        end = self._ends.get(session)
        if end is None:
            return None
        worker, known = end
        _check(epoch, known)
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        far.close()
        return Attached(worker, near.detach(), None, is_gone=True)


def _check(epoch: int, known: int) -> None:
    if epoch <= known:
        raise AttachRefused(f"the epoch {epoch} is not later than {known}, under which the worker is held")


def _hand_over(spare: socket.socket, far: socket.socket) -> None:
    """Tell the worker at the other end of `spare` to go on at `far`."""
    _shut(spare)
    try:
        socket.send_fds(spare, [MOVED], [far.fileno()], socket.MSG_DONTWAIT)
    except BlockingIOError as error:
        raise AttachRefused("the worker does not read what it is sent") from error
    except OSError:
        return  # it has just died: the channel has ended, and the notice comes


def _shut(spare: socket.socket) -> None:
    """Nobody reads from the worker any more: what it sends is refused, also what it is sending now."""
    try:
        spare.shutdown(socket.SHUT_RD)
        for _ in range(_DRAIN_MAX):
            if not spare.recv(1, socket.MSG_DONTWAIT):
                return
    except OSError:
        return  # empty, or the worker is gone
