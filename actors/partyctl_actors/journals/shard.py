"""One shard: a SQLite database of records, and the transactions on it.

Nothing here knows of event loops; calls come one at a time. A write waits for the shard's mutex, so that no two
connections write or checkpoint at once, in whatever process they are (SQLite before 3.51.3 can lose the log otherwise).

An owner writes with the epoch under which it opened its record. Taking a record over adds one to the epoch, and what
the former owner writes after that matches no row: nothing is kept of it and it is told so.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from partyctl_actors.errors import JournalError
from partyctl_actors.journals import refusals
from partyctl_actors.journals.archive import Kept
from partyctl_actors.journals.interface import Decision
from partyctl_actors.journals.locks import ByteLocks

_COMMIT_SIZE = 3 * 4096
"""Bytes that a commit adds to the log besides its payloads, about: the pages of the rows and of the tables' roots."""

_log = logging.getLogger("partyctl.journals")

VERSION = 1
APPLICATION = 0x70617274
"""`application_id` of our databases: "part"."""

IDLE_LOG = 1 << 20
"""Bytes of log from which an idle shard is checkpointed; checkpointing costs two syncs, whatever the size."""

BUSY_LIMIT = 10.0
"""Seconds a statement waits for a reader that holds a database, as when its log is being recovered."""

FULL_LOG = 64 << 20
"""Bytes of log at which a shard is checkpointed though it is busy."""

_SCHEMA = f"""
CREATE TABLE runs (
    id INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE, protocol TEXT NOT NULL, epoch INTEGER NOT NULL,
    about TEXT NOT NULL, ending TEXT NOT NULL, begun REAL NOT NULL);
CREATE TABLE decisions (
    run INTEGER NOT NULL REFERENCES runs, place INTEGER NOT NULL, turn INTEGER NOT NULL, sender TEXT NOT NULL,
    receiver TEXT NOT NULL, label TEXT NOT NULL, payload BLOB NOT NULL, tokens INTEGER NOT NULL, at REAL NOT NULL,
    PRIMARY KEY (run, place)) WITHOUT ROWID;
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
"""
_BEGIN_RUN = (
    "INSERT INTO runs (run, protocol, epoch, about, ending, begun) VALUES (?, ?, 0, ?, '', ?) ON CONFLICT DO NOTHING"
)
_APPEND = """INSERT INTO decisions
    SELECT id, ?, ?, ?, ?, ?, ?, ?, ? FROM runs WHERE run = ? AND epoch = ?"""
_CHANGES = "SELECT total_changes()"
_END = "UPDATE runs SET ending = ? WHERE run = ? AND epoch = ?"
_TAKE_OVER = "UPDATE runs SET epoch = epoch + 1, ending = '' WHERE run = ? RETURNING epoch"
_DECISIONS = """SELECT place, turn, sender, receiver, label, payload, tokens FROM decisions
    WHERE run = (SELECT id FROM runs WHERE run = ?) ORDER BY place"""
_RUNS = """SELECT run, protocol, epoch, about, ending,
        (SELECT COUNT(*) FROM decisions WHERE run = runs.id),
        COALESCE((SELECT at FROM decisions WHERE run = runs.id ORDER BY place DESC LIMIT 1), begun)
    FROM runs"""


class Rows(Protocol):
    """The result of a statement."""

    def fetchall(self) -> Sequence[Any]:
        """All of its rows."""
        ...


class Connection(Protocol):
    """What a shard needs of a connection: that of `sqlite3`, of `apsw`, or one that fails on purpose."""

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> Rows:
        """Carry out one statement, without opening a transaction by itself."""
        ...

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> object:
        """Carry out one statement once for each of the parameters."""
        ...

    def close(self) -> None:
        """Let go of the database."""
        ...


Connect = Callable[[Path], Connection]


class Owner(NamedTuple):
    """By what right a record is written."""

    run: str
    protocol: str
    epoch: int
    about: str


class Append(NamedTuple):
    """A decision to keep, at its place in the record (from 1).

    `is_first`: the first of its owner's, so that the run may be new, or goes on after an end.
    """

    owner: Owner
    place: int
    decision: Decision
    is_first: bool


class End(NamedTuple):
    """What became of a run."""

    owner: Owner
    ending: str


Write = Append | End


class _TakenOver(Exception):
    """A decision has no owner any more."""


class _Undone(Exception):
    """A transaction failed before it was to be committed, so nothing of it was written."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Shard:
    """One database. Opened when it is first used, and opened anew after a failure.

    Args:
        file: the database.
        connect: opens it.
        now: the time of day, in seconds since 1970.
    """

    def __init__(self, file: Path, connect: Connect, now: Callable[[], float]) -> None:
        self.file = file
        self._connect = connect
        self._now = now
        self._connection: Connection | None = None
        self._locks: ByteLocks | None = None
        self._logged = 0

    @property
    def locks(self) -> ByteLocks:
        """The locks on its records, and the mutex of its writers."""
        if self._locks is None:
            self._locks = ByteLocks(self.file.with_suffix(".lock"))
        return self._locks

    def write(self, writes: Sequence[Write]) -> list[JournalError | None]:
        """Carry out all in one transaction, which would survive when this returns.

        Returns:
            For each, None, or why nothing of it was written.

        Raises:
            JournalError: whether any of it was written is not known; the next call opens the database anew.
        """
        try:
            self._all_of(writes)
            return [None] * len(writes)
        except _Undone:
            # One that cannot be written must not take the others with it. Nothing of the first try is left.
            return [self._alone(write) for write in writes]

    def create(self, owner: Owner, decisions: Sequence[Decision]) -> None:
        """Make a record with these decisions, all or nothing.

        Raises:
            JournalError: there is one already, or it may or may not have been written.
        """
        if self.kept(owner.run) is not None:
            raise refusals.exists(owner.run)
        refused = self.write(
            [Append(owner, place, decision, place == 1) for place, decision in enumerate(decisions, 1)]
            or [End(owner, "")]
        )
        for error in filter(None, refused):
            raise error

    def take_over(self, owner: Owner) -> int:
        """Become the owner of a record, whoever was; the new epoch.

        Raises:
            JournalError: it may or may not have been written.
        """
        try:
            with self._transaction() as connection:
                self._begin_run(connection, owner)
                [(epoch,)] = connection.execute(_TAKE_OVER, (owner.run,)).fetchall()
                return int(epoch)
        except _Undone as error:
            raise refusals.unkept(str(self.file), error.cause) from error.cause

    def kept(self, run_id: str) -> tuple[Kept, int] | None:
        """What is known of one run, and its epoch; None if there is no record of it."""
        found = self._read(f"{_RUNS} WHERE run = ?", run_id)
        return _kept(found[0]) if found else None

    def runs(self) -> list[Kept]:
        """What is known of every run."""
        return [_kept(row)[0] for row in self._read(_RUNS)]

    def decisions(self, run_id: str) -> list[Decision]:
        """The decisions of one run, in order.

        Raises:
            JournalError: they cannot be read, or one is missing.
        """
        rows = self._read(_DECISIONS, run_id)
        for expected, row in enumerate(rows, 1):
            if row[0] != expected:
                raise refusals.damaged(f"{self.file}, run {run_id}", f"decision {expected} is missing")
        return [
            Decision(turn, sender, receiver, label, bytes(payload), tokens)
            for _, turn, sender, receiver, label, payload, tokens in rows
        ]

    @property
    def log_size(self) -> int:
        """Bytes that this shard has added to the log since it was brought into the database, about."""
        return self._logged

    def checkpoint(self) -> None:
        """Bring the log into the database, as far as no reader is in the way. A failure loses nothing but time.

        The log keeps its size: to write it over costs half of what it costs to make it longer.
        """
        if self._connection is None:
            return
        try:
            with self._exclusive():
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            self._logged = 0
        except Exception as error:
            # The log holds everything; but this connection is not to be trusted any more.
            _log.warning("The log of %s could not be shortened: %s", self.file, error)
            self.abandon()

    def abandon(self) -> None:
        """Let go of the connection; what it may have left undone is seen by the next one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            # It has failed already, and may fail to close.
            with contextlib.suppress(Exception):
                connection.close()

    def close(self) -> None:
        """Let go of the database and of all locks."""
        self.abandon()
        if self._locks is not None:
            self._locks.close()
            self._locks = None

    # --- within a transaction ---

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Nobody else writes meanwhile.

        Raises:
            JournalError: somebody does, for too long, or the lock cannot be had.
        """
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(self.locks.mutex())
            except OSError as error:
                raise refusals.unkept(str(self.file), error) from error
            yield

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """A transaction; what fails in it fails it, and the connection with it.

        Raises:
            _Undone: nothing of it was written.
            JournalError: whether it was written is not known, or the file cannot be used.
        """
        with self._exclusive():
            try:
                connection = self._open()
                connection.execute("BEGIN IMMEDIATE")
                yield connection
            except JournalError:
                raise
            except Exception as error:
                self.abandon()
                raise _Undone(error) from error
            try:
                connection.execute("COMMIT")
            except Exception as error:
                self.abandon()
                raise refusals.unkept(str(self.file), error) from error

    def _all_of(self, writes: Sequence[Write]) -> None:
        appended, now = [], self._now()
        with self._transaction() as connection:
            for write in writes:
                owner = write.owner
                if isinstance(write, Append):
                    if write.is_first:
                        self._begin_run(connection, owner)
                        connection.execute(_END, ("", owner.run, owner.epoch))
                    turn, sender, receiver, label, payload, tokens = write.decision
                    row = (write.place, turn, sender, receiver, label, payload, tokens, now, owner.run, owner.epoch)
                    appended.append(row)
                else:
                    self._begin_run(connection, owner)
                    connection.execute(_END, (write.ending, owner.run, owner.epoch))
            if appended:
                # Many rows in one call cost a third of as many calls, and whether all found their owner is one number.
                [(before,)] = connection.execute(_CHANGES).fetchall()
                connection.executemany(_APPEND, appended)
                [(after,)] = connection.execute(_CHANGES).fetchall()
                if after - before != len(appended):
                    raise _TakenOver
            self._logged += _COMMIT_SIZE + sum(len(row[5]) for row in appended)

    def _alone(self, write: Write) -> JournalError | None:
        try:
            self._all_of([write])
        except _Undone as error:
            if isinstance(error.cause, _TakenOver):
                return refusals.taken_over(write.owner.run)
            return refusals.unkept(f"run {write.owner.run}, {self.file}", error.cause)
        except JournalError as error:
            return error
        return None

    def _begin_run(self, connection: Connection, owner: Owner) -> None:
        connection.execute(_BEGIN_RUN, (owner.run, owner.protocol, owner.about, self._now()))

    # --- the connection ---

    def _read(self, sql: str, *parameters: object) -> Sequence[Any]:
        try:
            if self._connection is None:
                with self._exclusive():
                    self._open()
            assert self._connection is not None
            return self._connection.execute(sql, parameters).fetchall()
        except JournalError:
            raise
        except Exception as error:
            self.abandon()
            raise refusals.damaged(str(self.file), f"{type(error).__name__}: {error}") from error

    def _open(self) -> Connection:
        if self._connection is None:
            connection = self._connection = self._connected()
            try:
                self._prepare(connection)
            except JournalError:
                self.abandon()
                raise
            except Exception as error:
                self.abandon()
                raise refusals.foreign(str(self.file), f"{type(error).__name__}: {error}") from error
        return self._connection

    def _connected(self) -> Connection:
        try:
            # Only a file that is new is opened here: closing any descriptor of a database frees SQLite's locks on it.
            os.close(os.open(self.file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            directory = os.open(self.file.parent, os.O_RDONLY | os.O_DIRECTORY)
            os.fsync(directory)
            os.close(directory)
        except FileExistsError:
            pass
        return self._connect(self.file)

    def _prepare(self, connection: Connection) -> None:
        [(application,)] = connection.execute("PRAGMA application_id").fetchall()
        [(version,)] = connection.execute("PRAGMA user_version").fetchall()
        [(tables,)] = connection.execute("SELECT COUNT(*) FROM sqlite_schema").fetchall()
        if tables and application != APPLICATION:
            raise refusals.foreign(str(self.file), "it is the database of another program")
        if version > VERSION:
            raise refusals.foreign(str(self.file), f"its version is {version}, and this partyctl reads {VERSION}")
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
        if not tables:
            connection.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA.strip().rstrip(";").split(";"):
                connection.execute(statement)
            connection.execute("COMMIT")


def _kept(row: Sequence[Any]) -> tuple[Kept, int]:
    run, protocol, epoch, about, ending, decisions, changed = row
    return Kept(run, protocol, decisions, changed, ending, json.loads(about)), epoch


def about_text(about: Mapping[str, str]) -> str:
    """How `about` is kept."""
    return json.dumps(dict(about))
