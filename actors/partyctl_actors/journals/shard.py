"""One shard: a SQLite database of records, and the transactions on it.

An owner writes with the epoch under which it opened its record. Taking a record over adds one to the epoch, and what
the former owner writes after that matches no row: nothing is kept of it and it is told so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from partyctl_actors.errors import JournalError
from partyctl_actors.journals import refusals
from partyctl_actors.journals.archive import Kept
from partyctl_actors.journals.database import Connect, Connection, Database, Undone
from partyctl_actors.journals.interface import Decision

_COMMIT_SIZE = 3 * 4096
"""Bytes that a commit adds to the log besides its payloads, about: the pages of the rows and of the tables' roots."""

VERSION = 1
APPLICATION = 0x70617274
"""`application_id` of our databases: "part"."""

IDLE_LOG = 1 << 20
"""Bytes of log from which an idle shard is checkpointed; checkpointing costs two syncs, whatever the size."""

FULL_LOG = 64 << 20
"""Bytes of log at which a shard is checkpointed though it is busy."""

_SCHEMA = """
CREATE TABLE runs (
    id INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE, protocol TEXT NOT NULL, epoch INTEGER NOT NULL,
    about TEXT NOT NULL, ending TEXT NOT NULL, begun REAL NOT NULL);
CREATE TABLE decisions (
    run INTEGER NOT NULL REFERENCES runs, place INTEGER NOT NULL, turn INTEGER NOT NULL, sender TEXT NOT NULL,
    receiver TEXT NOT NULL, label TEXT NOT NULL, payload BLOB NOT NULL, tokens INTEGER NOT NULL, at REAL NOT NULL,
    PRIMARY KEY (run, place)) WITHOUT ROWID;
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


class Shard(Database):
    """One database of records.

    Args:
        file: the database.
        connect: opens it.
        now: the time of day, in seconds since 1970.
    """

    schema, application, version = _SCHEMA, APPLICATION, VERSION

    def __init__(self, file: Path, connect: Connect, now: Callable[[], float]) -> None:
        super().__init__(file, connect)
        self._now = now

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
        except Undone:
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
            with self.transaction() as connection:
                self._begin_run(connection, owner)
                [(epoch,)] = connection.execute(_TAKE_OVER, (owner.run,)).fetchall()
                return int(epoch)
        except Undone as error:
            raise self.unkept(error.cause) from error.cause

    def kept(self, run_id: str) -> tuple[Kept, int] | None:
        """What is known of one run, and its epoch; None if there is no record of it."""
        found = self.read(f"{_RUNS} WHERE run = ?", run_id)
        return _kept(found[0]) if found else None

    def runs(self) -> list[Kept]:
        """What is known of every run."""
        return [_kept(row)[0] for row in self.read(_RUNS)]

    def decisions(self, run_id: str) -> list[Decision]:
        """The decisions of one run, in order.

        Raises:
            JournalError: they cannot be read, or one is missing.
        """
        rows = self.read(_DECISIONS, run_id)
        for expected, row in enumerate(rows, 1):
            if row[0] != expected:
                raise refusals.damaged(f"{self.file}, run {run_id}", f"decision {expected} is missing")
        return [
            Decision(turn, sender, receiver, label, bytes(payload), tokens)
            for _, turn, sender, receiver, label, payload, tokens in rows
        ]

    # --- within a transaction ---

    def _all_of(self, writes: Sequence[Write]) -> None:
        appended, now = [], self._now()
        with self.transaction() as connection:
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
        except Undone as error:
            if isinstance(error.cause, _TakenOver):
                return refusals.taken_over(write.owner.run)
            return refusals.unkept(f"run {write.owner.run}, {self.file}", error.cause)
        except JournalError as error:
            return error
        return None

    def _begin_run(self, connection: Connection, owner: Owner) -> None:
        connection.execute(_BEGIN_RUN, (owner.run, owner.protocol, owner.about, self._now()))


def _kept(row: Sequence[Any]) -> tuple[Kept, int]:
    run, protocol, epoch, about, ending, decisions, changed = row
    return Kept(run, protocol, decisions, changed, ending, json.loads(about)), epoch


def about_text(about: Mapping[str, str]) -> str:
    """How `about` is kept."""
    return json.dumps(dict(about))
