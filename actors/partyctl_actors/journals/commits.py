"""Group commit: what many runs append in one turn of their event loop is one transaction.

A commit is carried out where it is asked for as long as the last one took less than 2 ms, else in a thread: handing it
over costs 0.6 ms, which is more than most commits take (decision 0011).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import NamedTuple, TypeVar

from partyctl_actors.errors import JournalError
from partyctl_actors.journals.locks import place_of
from partyctl_actors.journals.shard import FULL_LOG, IDLE_LOG, Append, End, Owner, Shard, Write

T = TypeVar("T")

INLINE_LIMIT = 0.002
"""Seconds that the last commit may have taken for the next one to be carried out on the event loop."""


class _Waiting(NamedTuple):
    """A write, and who waits for it. Its loop resolves the future."""

    write: Write
    future: asyncio.Future[None] | None


class Commits:
    """The writes on one shard, from any number of loops and threads.

    Args:
        shard: where they go.
        executor: gives the threads for slow commits, when the first is needed.
    """

    def __init__(self, shard: Shard, executor: Callable[[], Executor]) -> None:
        self._shard = shard
        self._executor = executor
        self._waiting: list[_Waiting] = []
        self._scheduled: asyncio.AbstractEventLoop | None = None
        # `_queue` guards the two above and is never held for long; `_database` is held during a transaction.
        self._queue = threading.Lock()
        self._database = threading.Lock()
        self._took = 0.0

    def append(self, write: Append) -> asyncio.Future[None] | None:
        """Keep a decision: by the end of this turn of the running loop, or, without one, at once.

        Raises:
            JournalError: without a running loop, it was not kept.
        """
        loop = _running_loop()
        if loop is None:
            [refused] = self.do(lambda shard: shard.write([write]))
            if refused is not None:
                raise refused
            return None
        future = loop.create_future()
        self._put(_Waiting(write, future), loop)
        return future

    def end(self, write: End) -> None:
        """Note how a run ended, with the next commit."""
        loop = _running_loop()
        if loop is None:
            with self._queue:
                self._waiting.append(_Waiting(write, None))
            self.settle()
        else:
            self._put(_Waiting(write, None), loop)

    def do(self, work: Callable[[Shard], T]) -> T:
        """Carry out something else on the shard, after everything that waits."""
        with self._database:
            self._commit_all()
            return work(self._shard)

    def settle(self) -> None:
        """Commit everything that waits, now."""
        self.do(lambda shard: None)

    def let_go(self, owner: Owner) -> None:
        """Free an owner's record. When none of the shard is open any more, its log may be shortened."""
        locks = self._shard.locks
        locks.unlock(place_of(owner.run, owner.epoch))
        if not locks.held and self._shard.log_size > IDLE_LOG:
            self._executor().submit(self.do, Shard.checkpoint)

    def _put(self, waiting: _Waiting, loop: asyncio.AbstractEventLoop) -> None:
        with self._queue:
            self._waiting.append(waiting)
            # A loop that was closed before its turn came commits nothing.
            if self._scheduled is None or self._scheduled.is_closed():
                self._scheduled = loop
                loop.call_soon(self._turn_ended)

    def _turn_ended(self) -> None:
        # A lock that is taken means a commit that takes long, in a thread.
        if self._took < INLINE_LIMIT and self._database.acquire(blocking=False):
            try:
                self._commit_all()
            finally:
                self._database.release()
        else:
            self._executor().submit(self.settle)

    def _commit_all(self) -> None:
        while True:
            with self._queue:
                waiting, self._waiting, self._scheduled = self._waiting, [], None
            if not waiting:
                return
            self._commit(waiting)

    def _commit(self, waiting: list[_Waiting]) -> None:
        began = time.perf_counter()
        results: list[JournalError | None]
        try:
            results = list(self._shard.write([each.write for each in waiting]))
            if self._shard.log_size > FULL_LOG:
                self._shard.checkpoint()
        except JournalError as error:
            results = [error] * len(waiting)
        except Exception as error:
            results = [JournalError("The journal failed", why=f"{type(error).__name__}: {error}")] * len(waiting)
        self._took = time.perf_counter() - began
        _resolve([(each.future, result) for each, result in zip(waiting, results, strict=True) if each.future])


def _resolve(results: list[tuple[asyncio.Future[None], JournalError | None]]) -> None:
    """Tell each loop about its own."""
    here = _running_loop()
    elsewhere: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[None], JournalError | None]]] = {}
    for future, error in results:
        loop = future.get_loop()
        if loop is here:
            _settle_one(future, error)
        else:
            elsewhere.setdefault(loop, []).append((future, error))
    for loop, its in elsewhere.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle_all, its)


def _settle_all(results: list[tuple[asyncio.Future[None], JournalError | None]]) -> None:
    for future, error in results:
        _settle_one(future, error)


def _settle_one(future: asyncio.Future[None], error: JournalError | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
