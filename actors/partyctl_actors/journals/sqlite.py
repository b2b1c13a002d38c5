"""A journal of SQLite databases: what a host and `partyctl run` keep their runs in."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from zlib import crc32

from partyctl_actors.errors import JournalError
from partyctl_actors.journals import refusals
from partyctl_actors.journals.archive import NOTHING, Archive, Kept
from partyctl_actors.journals.commits import Commits
from partyctl_actors.journals.database import Connect, connect
from partyctl_actors.journals.interface import Decision, Record
from partyctl_actors.journals.locks import place_of
from partyctl_actors.journals.places import directory_of
from partyctl_actors.journals.shard import Append, End, Found, Owner, Shard, about_text, head_seal, seal_of

SHARDS = 16

ROTATION = 256
"""New runs after which a journal goes on with another shard, so that all are filled alike."""

THREADS = 4
"""Threads for slow commits; syncs of several files at once cost a disk little more than one."""


class SqliteJournal(Archive):
    """Keeps runs in 16 SQLite databases of one directory, for any number of processes at once.

    Every decision is synced to the disk before it is delivered; what many runs decide at once costs one sync. While a
    record is open, a lock of the kernel keeps others out; it goes with the process. Usable from any thread.

    Args:
        directory: where the databases are. Files are readable by their owner alone.
        connect: opens a database, for tests that want to see or to fail what reaches the disk.
        now: the time of day, in seconds since 1970.
        make: whether the directory is made if missing; who only reads need not.

    Raises:
        JournalError: the directory cannot be made, or others can write in it.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        connect: Connect = connect,
        now: Callable[[], float] = time.time,
        make: bool = True,
    ) -> None:
        self.path = directory_of(directory, "SqliteJournal", make=make)
        files = [self.path / f"runs-{number:02}.sqlite" for number in range(SHARDS)]
        self._commits = [Commits(Shard(file, connect, now), self._threads) for file in files]
        self._new_ids = 0
        self._home = 0
        self._pool: ThreadPoolExecutor | None = None
        self._guard = threading.Lock()

    def open(
        self, run_id: str, protocol_id: str, *, about: Mapping[str, str] = NOTHING, take_over: bool = False
    ) -> Record:
        """See `Archive.open`.

        Args:
            run_id, protocol_id, about: as there.
            take_over: become the record's owner though another may still write it: whatever that one decides from now
                on is refused to it, and not delivered.
        """
        wanted = Owner(run_id, protocol_id, 0, about_text(about))
        commits = self._of(run_id)
        return _SqliteRecord(commits, *commits.do(lambda shard: _own(shard, wanted, take_over)))

    def new_id(self) -> str:
        """An id for a new run, in the shard of those before it: runs at once of one process share their commits.

        Another process most likely has another shard, so that they do not wait for each other.
        """
        with self._guard:
            if self._new_ids % ROTATION == 0:
                self._home = shard_of(super().new_id())
            self._new_ids += 1
            home = self._home
        while shard_of(run_id := super().new_id()) != home:
            pass
        return run_id

    def survey(self) -> tuple[Sequence[Kept], Sequence[JournalError]]:
        """See `Archive.survey`."""
        parts = [commits.do(lambda shard: shard.survey()) for commits in self._commits]
        found = [kept for part, _ in parts for kept in part]
        return sorted(found, key=lambda kept: -kept.changed), [error for _, unread in parts for error in unread]

    def read(self, run_id: str) -> tuple[Kept, Sequence[Decision]]:
        """See `Archive.read`."""

        def reading(shard: Shard) -> tuple[Kept, Sequence[Decision]]:
            found = shard.found(run_id)
            if found is None:
                raise refusals.unknown(run_id, str(self.path))
            return found.kept, shard.decisions(found)[0]

        return self._of(run_id).do(reading)

    def create(
        self, run_id: str, protocol_id: str, decisions: Sequence[Decision], about: Mapping[str, str] = NOTHING
    ) -> None:
        """See `Archive.create`."""
        owner = Owner(run_id, protocol_id, 0, about_text(about))
        self._of(run_id).do(lambda shard: shard.create(owner, decisions))

    def delete(self, run_id: str, before: Callable[[], object] = lambda: None) -> None:
        """See `Archive.delete`."""

        def deleting(shard: Shard) -> None:
            epoch = shard.epoch(run_id)
            if epoch is None:
                raise refusals.unknown(run_id, str(self.path))
            try:
                place = place_of(run_id, epoch)
                if not shard.locks.try_lock(place):
                    raise refusals.held(run_id)
                try:
                    before()
                    shard.delete(run_id)
                finally:
                    shard.locks.unlock(place)
            except OSError as error:
                raise refusals.undeleted(f"run {run_id}, {shard.file}", error, shard.file) from error

        self._of(run_id).do(deleting)

    def close(self) -> None:
        """Let go of the databases; they are opened again when they are needed. Closes no record."""
        for commits in self._commits:
            commits.do(lambda shard: shard.abandon())
        with self._guard:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()

    def _of(self, run_id: str) -> Commits:
        try:
            return self._commits[shard_of(run_id)]
        except UnicodeEncodeError:
            raise refusals.misnamed(run_id) from None

    def _threads(self) -> Executor:
        with self._guard:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(THREADS, "partyctl-journal")
            return self._pool


class _SqliteRecord:
    def __init__(self, commits: Commits, owner: Owner, decisions: Sequence[Decision], seal: int) -> None:
        self._commits = commits
        self._owner = owner
        self._place = len(decisions)
        self._earlier = decisions
        self._seal = seal
        self._under_way: asyncio.Future[None] | None = None
        self._is_open = True
        self._is_sound = True

    def append(self, decision: Decision) -> asyncio.Future[None] | None:
        if not self._is_open or not self._came_through():
            raise refusals.closed(self._owner.run)
        self._place += 1
        self._seal = seal_of(self._seal, self._place, decision)
        is_first = self._place == len(self._earlier) + 1
        try:
            self._under_way = self._commits.append(Append(self._owner, self._place, decision, self._seal, is_first))
        except JournalError:
            self._is_sound = False
            raise
        return self._under_way

    def decisions(self) -> Sequence[Decision]:
        if self._place == len(self._earlier):
            return self._earlier
        return self._commits.do(lambda shard: _decisions(shard, self._owner.run))

    def close(self, ending: str = "") -> None:
        if not self._is_open:
            return
        self._is_open = False
        if self._under_way is not None and not self._under_way.done():
            # Nobody may find the record before what was appended is in it.
            self._commits.settle()
        if ending:
            self._commits.end(End(self._owner, ending, self._length()))
        self._commits.let_go(self._owner)

    def _length(self) -> int:
        """How many decisions are surely in it."""
        return self._place if self._came_through() else len(self._earlier)

    def _came_through(self) -> bool:
        """Whether all that was appended is kept: after a failure the end of the record is unknown."""
        last, self._under_way = self._under_way, None
        if last is not None and (not last.done() or last.cancelled() or last.exception() is not None):
            self._is_sound = False
        return self._is_sound


NO_NOTE = about_text(NOTHING)


def shard_of(run_id: str) -> int:
    """Which database a run is in."""
    return crc32(run_id.encode()) % SHARDS


def _own(shard: Shard, wanted: Owner, take_over: bool) -> tuple[Owner, Sequence[Decision], int]:
    """Lock the record under its present epoch, then read it: its decisions, and the seal of the last."""
    # Whoever opens a record means to write: better told now than when the first decision is paid for.
    shard.prepare()
    try:
        if take_over:
            _known(shard, wanted)
            shard.take_over(wanted)
        while True:
            before = _known(shard, wanted)
            owner = wanted._replace(epoch=before.epoch if before else 0)
            place = place_of(owner.run, owner.epoch)
            if not shard.locks.try_lock(place):
                raise refusals.held(wanted.run)
            try:
                found = _known(shard, wanted)
                # Who takes a record over does not ask for the lock, so it may have happened meanwhile.
                if (found.epoch if found else 0) == owner.epoch:
                    if found is not None:
                        return owner, *shard.decisions(found)
                    if owner.about != NO_NOTE:
                        # Whoever notes where a run is from will look for it there, whether anything was decided or not.
                        shard.create(owner, ())
                    return owner, (), head_seal(owner.run, owner.protocol, owner.about)
            except BaseException:
                shard.locks.unlock(place)
                raise
            shard.locks.unlock(place)
    except OSError as error:
        raise refusals.unkept(str(shard.file), error) from error


def _known(shard: Shard, wanted: Owner) -> Found | None:
    """The row of a record, None if there is none; it must be one of this protocol."""
    found = shard.found(wanted.run)
    if found is not None:
        refusals.check_protocol(wanted.run, found.kept.protocol, wanted.protocol)
    return found


def _decisions(shard: Shard, run_id: str) -> Sequence[Decision]:
    found = shard.found(run_id)
    return () if found is None else shard.decisions(found)[0]
