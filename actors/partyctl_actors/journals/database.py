"""A SQLite database of ours: how it is opened, who may write to it at a time, and what a failure means.

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

from partyctl_actors.errors import JournalError
from partyctl_actors.journals import refusals
from partyctl_actors.journals.locks import ByteLocks

_log = logging.getLogger("partyctl.journals")

BUSY_LIMIT = 10.0
"""Seconds a statement waits for a reader that holds a database, as when its log is being recovered."""


def connect(file: Path) -> Connection:
    """The connection that a database has unless it is given another."""
    # A run without such a journal does not pay for it.
    import sqlite3

    return sqlite3.connect(file, timeout=BUSY_LIMIT, isolation_level=None, check_same_thread=False)


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
    """

    schema: ClassVar[str]
    application: ClassVar[int]
    version: ClassVar[int]

    def __init__(self, file: Path, connect: Connect) -> None:
        self.file = file
        self._connect = connect
        self._connection: Connection | None = None
        self._locks: ByteLocks | None = None
        self._logged = 0

    def unkept(self, error: Exception) -> JournalError:
        """What a write raises of which it is not known whether it was done."""
        return refusals.unkept(str(self.file), error)

    @property
    def locks(self) -> ByteLocks:
        """The locks on its records, and the mutex of its writers."""
        if self._locks is None:
            self._locks = ByteLocks(self.file.with_suffix(".lock"))
        return self._locks

    @property
    def log_size(self) -> int:
        """Bytes that were added to the log since it was brought into the database, about."""
        return self._logged

    def checkpoint(self) -> None:
        """Bring the log into the database, as far as no reader is in the way. A failure loses nothing but time.

        The log keeps its size: to write it over costs half of what it costs to make it longer.
        """
        if self._connection is None:
            return
        try:
            with self.exclusive():
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
    def transaction(self) -> Iterator[Connection]:
        """A transaction; what fails in it fails it, and the connection with it.

        Raises:
            Undone: nothing of it was written.
            JournalError: whether it was written is not known, or the file cannot be used.
        """
        with self.exclusive():
            try:
                connection = self._open()
                connection.execute("BEGIN IMMEDIATE")
                yield connection
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
                raise self.unkept(error) from error

    # --- the connection ---

    def read(self, sql: str, *parameters: object) -> Sequence[Any]:
        """The rows of a query.

        Raises:
            JournalError: they cannot be read.
        """
        try:
            if self._connection is None:
                with self.exclusive():
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
        if tables and application != self.application:
            raise refusals.foreign(str(self.file), "it is the database of another program")
        if version > self.version:
            raise refusals.foreign(str(self.file), f"its version is {version}, and this partyctl reads {self.version}")
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
        if not tables:
            connection.execute("BEGIN IMMEDIATE")
            for statement in self.schema.strip().rstrip(";").split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {self.application}")
            connection.execute(f"PRAGMA user_version = {self.version}")
            connection.execute("COMMIT")
