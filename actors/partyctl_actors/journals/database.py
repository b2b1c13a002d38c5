"""A SQLite database of ours: how it is opened, who may write to it at a time, and what a failure means.

Who only reads makes, locks and changes nothing. SQLite takes a log up to its first wrong page for all of it, and an
empty file for a new database. So a database counts its commits, and its lock file notes after each how many were
acknowledged: one that holds fewer is damaged.

Nothing here knows of event loops; calls come one at a time. A write waits for the database's mutex, so that no two
connections write or checkpoint at once, in whatever process they are (SQLite before 3.51.3 can lose the log otherwise).
After a failure the connection is not used again: the next call opens the database anew.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol
from urllib.parse import quote

from partyctl_actors.errors import JournalError
from partyctl_actors.journals import refusals
from partyctl_actors.journals.causes import BUSY, cause_of
from partyctl_actors.journals.locks import ByteLocks, noted
from partyctl_actors.journals.places import check_private

_log = logging.getLogger("partyctl.journals")

BUSY_LIMIT = 10.0
"""Seconds a statement waits for a reader that holds a database, as when its log is being recovered."""


def connect(file: Path) -> Connection:
    """The connection that a database has unless it is given another."""
    # A run without such a journal does not pay for it.
    import sqlite3

    return sqlite3.connect(file, timeout=BUSY_LIMIT, isolation_level=None, check_same_thread=False)


def connect_to_read(file: Path) -> Connection:
    """A connection that changes nothing, not even by its closing.

    Where SQLite cannot make the index of a log, because the disk is full or not to be written, and there is no log, the
    file is read as one that nobody writes.
    """
    import sqlite3

    def opened(how: str) -> sqlite3.Connection:
        uri = f"file:{quote(os.fsencode(file.absolute()))}?{how}"
        made = sqlite3.connect(uri, uri=True, timeout=BUSY_LIMIT, isolation_level=None, check_same_thread=False)
        try:
            made.execute("SELECT COUNT(*) FROM sqlite_schema").fetchall()
        except BaseException:
            made.close()
            raise
        return made

    try:
        return opened("mode=ro")
    except sqlite3.OperationalError as error:
        cause = cause_of(error, file)
        if cause.is_machine and cause is not BUSY and not _size(_beside(file, "-wal")):
            return opened("mode=ro&immutable=1")
        raise


class Rows(Protocol):
    """The result of a statement."""

    def fetchall(self) -> Sequence[Any]:
        """All of its rows."""
        ...


class Connection(Protocol):
    """What a database needs of a connection: that of `sqlite3`, of `apsw`, or one that fails on purpose."""

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

_COMMITS = "CREATE TABLE commits (count INTEGER NOT NULL); INSERT INTO commits VALUES (0);"
_COUNT = "SELECT count FROM commits"
_ADD = "UPDATE commits SET count = count + 1 RETURNING count"


class Undone(Exception):
    """A transaction failed before it was to be committed, so nothing of it was written."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Database:
    """One database file and its mutex. Opened when it is first used, and opened anew after a failure.

    Args:
        file: the database; its locks are in a file beside it.
        connect: opens it.

    Attributes:
        schema: the statements that make its tables.
        application: its `application_id`, by which it is known for ours.
        version: its `user_version`.
        is_private: whether it is refused if others can read it.
    """

    schema: ClassVar[str]
    application: ClassVar[int]
    version: ClassVar[int]
    is_private: ClassVar[bool] = False

    def __init__(self, file: Path, connect: Connect) -> None:
        self.file = file
        self._connect = connect
        self._connection: Connection | None = None
        self._reader: Connection | None = None
        self._lock_file = file.with_suffix(".lock")
        self._locks: ByteLocks | None = None
        self._logged = 0
        self._opened: tuple[int, int] | None = None

    def unkept(self, error: Exception) -> JournalError:
        """What a write raises of which it is not known whether it was done."""
        return refusals.unkept(str(self.file), error)

    @property
    def locks(self) -> ByteLocks:
        """The locks on its records, and the mutex of its writers."""
        if self._locks is None:
            self._locks = ByteLocks(self._lock_file)
        return self._locks

    @property
    def log_size(self) -> int:
        """Bytes that were added to the log since it was brought into the database, about."""
        return self._logged

    def checkpoint(self, *, empty: bool = False) -> None:
        """Bring the log into the database, as far as no reader is in the way. A failure loses nothing but time.

        The log keeps its size: to write it over costs half of what it costs to make it longer.

        Args:
            empty: cut it to nothing all the same, because it holds what was deleted.
        """
        if self._connection is None:
            return
        try:
            with self.exclusive():
                how = "TRUNCATE" if empty else "PASSIVE"
                self._connection.execute(f"PRAGMA wal_checkpoint({how})").fetchall()
            self._logged = 0
        except Exception as error:
            # The log holds everything; but this connection is not to be trusted any more.
            _log.warning("The log of %s could not be shortened: %s", self.file, error)
            self.abandon()

    def abandon(self) -> None:
        """Let go of the connection; what it may have left undone is seen by the next one."""
        failed, self._connection, self._reader = (self._connection, self._reader), None, None
        for connection in filter(None, failed):
            # It has failed already, and may fail to close.
            with contextlib.suppress(Exception):
                connection.close()

    def close(self) -> None:
        """Let go of the database and of all locks."""
        self.abandon()
        if self._locks is not None:
            self._locks.close()
            self._locks = None

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Nobody else writes meanwhile.

        Raises:
            JournalError: somebody does, for too long, or the lock cannot be had.
        """
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(self.locks.mutex())
            except OSError as error:
                raise self.unkept(error) from error
            yield

    @contextlib.contextmanager
    def transaction(self, unkept: Callable[[Exception], JournalError] | None = None) -> Iterator[Connection]:
        """A transaction; what fails in it fails it, and the connection with it.

        Args:
            unkept: what is raised if it is not known whether it was written; `unkept` of the database if omitted.

        Raises:
            Undone: nothing of it was written.
            JournalError: whether it was written is not known, or the file cannot be used, or was removed meanwhile.
        """
        self._see_that_it_is_there()
        with self.exclusive():
            try:
                connection = self._open()
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                [(count,)] = connection.execute(_ADD).fetchall()
            except JournalError:
                # A refusal from within; closing takes back what was done before it.
                self.abandon()
                raise
            except Exception as error:
                self.abandon()
                raise Undone(error) from error
            try:
                connection.execute("COMMIT")
            except Exception as error:
                self.abandon()
                raise (unkept or self.unkept)(error) from error
            self._note(count)

    @contextlib.contextmanager
    def deletion(self, place: str) -> Iterator[Connection]:
        """A transaction after which the log is emptied, so that nothing is left there of what it deleted.

        Args:
            place: what is deleted, for the refusal.

        Raises:
            JournalError: it was not deleted, or may or may not have been.
        """

        def undeleted(error: Exception) -> JournalError:
            return refusals.undeleted(place, error, self.file)

        try:
            with self.transaction(undeleted) as connection:
                yield connection
        except Undone as error:
            raise undeleted(error.cause) from error.cause
        self.checkpoint(empty=True)

    def prepare(self) -> None:
        """Open the database for writing, made if missing, before anything depends on it.

        Raises:
            JournalError: it cannot be used, or has lost something.
        """
        if self._connection is None:
            try:
                self.locks  # noqa: B018  made here, so that a refusal speaks of no decision
            except OSError as error:
                raise refusals.unusable(str(self._lock_file), error) from error
            with self.exclusive():
                self._open()

    def read(self, sql: str, *parameters: object, where: str = "") -> Sequence[Any]:
        """The rows of a query; none if there is no database yet. Nothing is written.

        Args:
            sql, parameters: the query.
            where: what is read, for the refusal.

        Raises:
            JournalError: they cannot be read.
        """
        connection = self._connection or self._looking()
        if connection is None:
            return []
        try:
            return connection.execute(sql, parameters).fetchall()
        except Exception as error:
            self.abandon()
            place = f"{self.file}, {where}" if where else str(self.file)
            raise refusals.unread(place, error, self.file) from error

    # --- the connection ---

    def _open(self) -> Connection:
        if self._connection is None:
            # SQLite deletes the log of an empty file and the end of one that is damaged, so it first only looks.
            self._looking()
            self.abandon()
            try:
                connection = self._connection = self._connected()
                self._prepare(connection)
                self._opened = _identity(self.file)
            except Exception as error:
                self.abandon()
                raise self._unopened(error) from error
        return self._connection

    def _see_that_it_is_there(self) -> None:
        """SQLite goes on with a file that was removed or replaced, and whatever it writes there nobody finds."""
        if self._connection is not None and _identity(self.file) != self._opened:
            self.close()
            raise refusals.gone(self.file)

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
        is_new = not self._is_whole(connection, self._noted())
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
        # What is deleted is written over with zeros: as Debian builds SQLite, and others do not.
        connection.execute("PRAGMA secure_delete = ON").fetchall()
        if is_new:
            connection.execute("BEGIN IMMEDIATE")
            for statement in (_COMMITS + self.schema).strip().rstrip(";").split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {self.application}")
            connection.execute(f"PRAGMA user_version = {self.version}")
            connection.execute("COMMIT")
        [(count,)] = connection.execute(_COUNT).fetchall()
        # Once in a database's life it is worth a sync that a record was begun here.
        self.locks.note(count, sync=is_new)

    def _note(self, count: int) -> None:
        try:
            self.locks.note(count)
        except OSError as error:
            # The commit is done; only a later loss of it would go unnoticed.
            _log.warning("The commits of %s could not be noted in %s: %s", self.file, self._lock_file, error)

    # --- looking, without changing anything ---

    def _looking(self) -> Connection | None:
        """A connection that only reads; None if nothing was begun here.

        Raises:
            JournalError: the file is none of ours, cannot be read, or holds less than was acknowledged.
        """
        if self._reader is None:
            try:
                if self.is_private:
                    check_private(self.file)
                # The note first: what is committed meanwhile makes the database more than it says, never less.
                least = self._noted()
                if self._is_begun(least):
                    self._reader = connect_to_read(self.file)
                    if not self._is_whole(self._reader, least):
                        self.abandon()
            except JournalError:
                self.abandon()
                raise
            except Exception as error:
                self.abandon()
                raise self._unopened(error) from error
        return self._reader

    def _noted(self) -> int | None:
        try:
            return noted(self._lock_file)
        except ValueError as error:
            raise self._lost(f"what {self._lock_file.name} notes of it cannot be read: {error}") from None

    def _is_begun(self, least: int | None) -> bool:
        # In this order: whoever makes a database writes its first page before there is a log.
        has_log = _size(_beside(self.file, "-wal")) > 0
        if _size(self.file):
            # Whoever makes a database may die before its first page counts; then the next one rolls that back.
            return least is not None or not _size(_beside(self.file, "-journal"))
        if least is not None or has_log:
            state = "is empty" if self.file.exists() else "is missing"
            raise self._lost(f"it {state}, and a record was begun in it", has_log=has_log)
        return False

    def _is_whole(self, connection: Connection, least: int | None) -> bool:
        [(application,)] = connection.execute("PRAGMA application_id").fetchall()
        [(version,)] = connection.execute("PRAGMA user_version").fetchall()
        [(tables,)] = connection.execute("SELECT COUNT(*) FROM sqlite_schema").fetchall()
        if tables and application != self.application:
            raise refusals.foreign(str(self.file), "it is the database of another program")
        if tables and version != self.version:
            raise refusals.other_version(str(self.file), version, self.version)
        if not tables:
            if least is not None:
                raise self._lost("it holds no tables, and a record was begun in it")
            return False
        [(count,)] = connection.execute(_COUNT).fetchall()
        if count < (least or 0):
            raise self._lost(f"it holds {count} commits, and at least {least} were made; its log is cut or damaged")
        return True

    def _lost(self, why: str, *, has_log: bool = False) -> JournalError:
        """`has_log`: a log without its database, which SQLite would delete."""
        return refusals.lost(self.file, why, [self._lock_file, *([_beside(self.file, "-wal")] if has_log else [])])

    def _unopened(self, error: Exception) -> JournalError:
        if isinstance(error, JournalError):
            return error
        if cause_of(error, self.file).is_machine:
            return refusals.unusable(str(self.file), error)
        refuse = refusals.foreign if self._noted() is None else refusals.damaged
        return refuse(str(self.file), f"{type(error).__name__}: {error}")


def _beside(file: Path, suffix: str) -> Path:
    return file.with_name(file.name + suffix)


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _size(file: Path) -> int:
    """Bytes in a file; 0 if it is missing."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0
