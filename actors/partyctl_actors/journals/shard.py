"""One shard: a SQLite database of records, and the transactions on it.

An owner writes with the epoch under which it opened its record. Taking a record over adds one to the epoch, and what
the former owner writes after that matches no row: nothing is kept of it and it is told so.

Each decision carries a seal: a CRC-32 of itself and of the seal before it; before the first is that of its run's row.
So a decision that changed, or stands elsewhere, is not taken for what was written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from partyctl_actors.errors import JournalError
from partyctl_actors.journals import refusals, seals
from partyctl_actors.journals.archive import Kept
from partyctl_actors.journals.database import Connect, Connection, Database, Undone
from partyctl_actors.journals.interface import Decision

_COMMIT_SIZE = 3 * 4096
"""Bytes that a commit adds to the log besides its payloads, about: the pages of the rows and of the tables' roots."""

VERSION = 2
APPLICATION = 0x70617274
"""`application_id` of our databases: "part"."""

IDLE_LOG = 1 << 20
"""Bytes of log from which an idle shard is checkpointed; checkpointing costs two syncs, whatever the size."""

FULL_LOG = 64 << 20
"""Bytes of log at which a shard is checkpointed though it is busy."""

_SCHEMA = """
CREATE TABLE runs (
    id INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE, protocol TEXT NOT NULL, epoch INTEGER NOT NULL,
    about TEXT NOT NULL, ending TEXT NOT NULL, length INTEGER NOT NULL, begun REAL NOT NULL,
    seal INTEGER NOT NULL);
CREATE TABLE decisions (
    run INTEGER NOT NULL REFERENCES runs, place INTEGER NOT NULL, turn INTEGER NOT NULL, sender TEXT NOT NULL,
    receiver TEXT NOT NULL, label TEXT NOT NULL, payload BLOB NOT NULL, tokens INTEGER NOT NULL, at REAL NOT NULL,
    seal INTEGER NOT NULL, PRIMARY KEY (run, place)) WITHOUT ROWID;
"""
_BEGIN_RUN = """INSERT INTO runs (run, protocol, epoch, about, ending, length, begun, seal)
    VALUES (?, ?, 0, ?, '', 0, ?, ?) ON CONFLICT DO NOTHING"""
_APPEND = """INSERT INTO decisions
    SELECT id, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM runs WHERE run = ? AND epoch = ?"""
_CHANGES = "SELECT total_changes()"
_GO_ON = "UPDATE runs SET ending = '' WHERE run = ? AND epoch = ?"
_END = "UPDATE runs SET ending = ?, length = ? WHERE run = ? AND epoch = ?"
_TAKE_OVER = "UPDATE runs SET epoch = epoch + 1, ending = '' WHERE run = ? RETURNING epoch"
_DECISIONS = """SELECT place, turn, sender, receiver, label, payload, tokens, seal FROM decisions
    WHERE run = (SELECT id FROM runs WHERE run = ?) ORDER BY place"""
_DELETE_DECISIONS = "DELETE FROM decisions WHERE run = (SELECT id FROM runs WHERE run = ?)"
_RUNS = """SELECT run, protocol, epoch, about, ending, length, seal,
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

    `seal`: see `seal_of`. `is_first`: the first of its owner's, so that the run may be new, or goes on after an end.
    """

    owner: Owner
    place: int
    decision: Decision
    seal: int
    is_first: bool


class End(NamedTuple):
    """What became of a run, and how many decisions it has."""

    owner: Owner
    ending: str
    length: int


Write = Append | End


class Found(NamedTuple):
    """A run's row.

    Attributes:
        kept: what is known of the run.
        epoch: under which its owner writes.
        length: how many decisions it has at least: those it had when it ended last.
        seal: that of the row, before the first decision's.
    """

    kept: Kept
    epoch: int
    length: int
    seal: int


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
        self.prepare()
        if self.found(owner.run) is not None:
            raise refusals.exists(owner.run)
        writes: list[Write] = []
        seal = head_seal(owner.run, owner.protocol, owner.about)
        for place, decision in enumerate(decisions, 1):
            seal = seal_of(seal, place, decision)
            writes.append(Append(owner, place, decision, seal, place == 1))
        refused = self.write([*writes, End(owner, "", len(decisions))])
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

    def found(self, run_id: str) -> Found | None:
        """The row of one run; None if there is no record of it.

        Raises:
            JournalError: it cannot be read, or is damaged.
        """
        rows = self.read(f"{_RUNS} WHERE run = ?", run_id, where=f"run {run_id}")
        return self._found(rows[0]) if rows else None

    def epoch(self, run_id: str) -> int | None:
        """Under which epoch a record is written, damaged or not; None if there is none.

        Raises:
            JournalError: it cannot be read.
        """
        rows = self.read("SELECT epoch FROM runs WHERE run = ?", run_id, where=f"run {run_id}")
        return int(rows[0][0]) if rows else None

    def delete(self, run_id: str) -> None:
        """Delete a record.

        Raises:
            JournalError: it was not deleted, or may or may not have been.
        """
        with self.deletion(f"run {run_id}, {self.file}") as connection:
            connection.execute(_DELETE_DECISIONS, (run_id,))
            connection.execute("DELETE FROM runs WHERE run = ?", (run_id,))

    def survey(self) -> tuple[list[Kept], list[JournalError]]:
        """What is known of every run, and why some are not known."""
        kept, unread = [], []
        try:
            rows = self.read(_RUNS)
        except JournalError as error:
            return [], [error]
        for row in rows:
            try:
                kept.append(self._found(row).kept)
            except JournalError as error:
                unread.append(error)
        return kept, unread

    def decisions(self, found: Found) -> tuple[list[Decision], int]:
        """The decisions of one run, in order, and the seal of the last.

        Raises:
            JournalError: they cannot be read, one is missing, or is not what was written.
        """
        run, seal = found.kept.run, found.seal
        where = f"{self.file}, run {run}"
        rows = self.read(_DECISIONS, run, where=f"run {run}")
        decisions = []
        for expected, (place, *fields, sealed) in enumerate(rows, 1):
            if place != expected:
                raise refusals.damaged(where, f"decision {expected} is missing")
            decision = Decision(*fields)
            if not isinstance(decision.payload, bytes) or (seal := seal_of(seal, place, decision)) != sealed:
                raise refusals.damaged(where, f"decision {place} does not have the checksum it was written with")
            decisions.append(decision)
        if len(decisions) < found.length:
            raise refusals.damaged(where, f"decision {len(decisions) + 1} of {found.length} is missing")
        return decisions, seal

    def _found(self, row: Sequence[Any]) -> Found:
        run, protocol, epoch, about, ending, length, seal, decisions, changed = row
        where = f"{self.file}, run {run}"
        texts, numbers = (run, protocol, about, ending), (epoch, length, seal, decisions)
        if not all(isinstance(text, str) for text in texts) or not all(isinstance(n, int) for n in numbers):
            raise refusals.damaged(where, "what is known of the run is malformed")
        if not isinstance(changed, float):
            raise refusals.damaged(where, "when it changed is no time")
        noted = _about(about)
        if noted is None:
            raise refusals.damaged(where, "what is noted beside the run is malformed")
        if head_seal(run, protocol, about) != seal:
            raise refusals.damaged(where, "the run's row does not have the checksum it was written with")
        return Found(Kept(run, protocol, decisions, changed, ending, noted), epoch, length, seal)

    # --- within a transaction ---

    def _all_of(self, writes: Sequence[Write]) -> None:
        appended, now = [], self._now()
        with self.transaction() as connection:
            for write in writes:
                owner = write.owner
                if isinstance(write, Append):
                    if write.is_first:
                        self._begin_run(connection, owner)
                        connection.execute(_GO_ON, (owner.run, owner.epoch))
                    appended.append((write.place, *write.decision, now, write.seal, owner.run, owner.epoch))
                else:
                    self._begin_run(connection, owner)
                    connection.execute(_END, (write.ending, write.length, owner.run, owner.epoch))
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
        seal = head_seal(owner.run, owner.protocol, owner.about)
        connection.execute(_BEGIN_RUN, (owner.run, owner.protocol, owner.about, self._now(), seal))


def about_text(about: Mapping[str, str]) -> str:
    """How `about` is kept."""
    return json.dumps(dict(about))


def head_seal(run: str, protocol: str, about: str) -> int:
    """The seal of a run's row."""
    return seals.seal(run, protocol, about)


def seal_of(before: int, place: int, decision: Decision) -> int:
    """The seal of a decision at its place (from 1), after one that has the seal `before`."""
    turn, sender, receiver, label, payload, tokens = decision
    return seals.seal(place, turn, sender, receiver, label, tokens, "", data=payload, before=before)


def _about(text: str) -> Mapping[str, str] | None:
    """What was kept by `about_text`; None if this was not."""
    try:
        about = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(about, dict) and all(isinstance(value, str) for value in about.values()):
        return about
    return None
