"""One database of the logs of agent sessions, and the transactions on it.

Each row carries a seal, a CRC-32 of all that is in it but the epoch, and the row of a session the number of its turns.
So a turn that changed, lost its outcome or is gone is not taken for what was written. The epoch of a log that is begun
is greater than that of any that was deleted from the database.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

from partyctl_actors.errors import JournalError
from partyctl_actors.journals import refusals
from partyctl_actors.journals.database import Connect, Connection, Database, Undone
from partyctl_actors.journals.seals import seal
from partyctl_plugins.codec import pack, unpack
from partyctl_plugins.errors import RecordError

Plain: TypeAlias = Mapping[str, object]
"""Text, numbers, bytes, None, and lists and maps of them."""

SHARDS = 16

OUTCOMES = 64
"""Finished turns that a log keeps; the older ones are dropped."""

FULL_LOG = 1 << 20
"""Bytes of write-ahead log at which the end of a turn brings them into the database, which costs two syncs."""

VERSION = 3
APPLICATION = 0x7061727E
"""`application_id` of the databases of turns."""

_SCHEMA = """
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY, session TEXT NOT NULL UNIQUE, epoch INTEGER NOT NULL, state BLOB, turns INTEGER NOT NULL,
    kept INTEGER NOT NULL, seal INTEGER NOT NULL);
CREATE TABLE turns (
    session INTEGER NOT NULL REFERENCES sessions, place INTEGER NOT NULL, turn TEXT NOT NULL, request BLOB NOT NULL,
    outcome BLOB, seal INTEGER NOT NULL, PRIMARY KEY (session, turn)) WITHOUT ROWID;
"""
_OPEN = """INSERT INTO sessions (session, epoch, turns, kept, seal) SELECT ?, count + 1, 0, 0, ? FROM commits WHERE true
    ON CONFLICT (session) DO UPDATE SET epoch = epoch + 1 RETURNING epoch"""
_OWNED = "SELECT id, turns, kept, state, seal FROM sessions WHERE session = ? AND epoch = ?"
_SAVE = "UPDATE sessions SET turns = ?, kept = ?, state = ?, seal = ? WHERE id = ?"
_TURN = "SELECT place, turn, request, outcome, seal FROM turns WHERE session = ? AND turn = ?"
_INSERT = "INSERT INTO turns (session, place, turn, request, seal) VALUES (?, ?, ?, ?, ?)"
_INTEND = "UPDATE turns SET request = ?, seal = ? WHERE session = ? AND turn = ?"
_OUTCOME = "UPDATE turns SET outcome = ?, seal = ? WHERE session = ? AND turn = ?"
_FORGET = "DELETE FROM turns WHERE session = ? AND place <= ? AND outcome IS NOT NULL RETURNING place"
# One statement, so that state and turns are those of one moment.
_LOOK = """SELECT s.turns, s.kept, s.state, s.seal, t.place, t.turn, t.request, t.outcome, t.seal
    FROM sessions AS s LEFT JOIN turns AS t ON t.session = s.id WHERE s.session = ? ORDER BY t.place"""
_NAMES = "SELECT session FROM sessions WHERE session = ? OR (session > ? AND session < ?)"
_DELETE_TURNS = "DELETE FROM turns WHERE session = (SELECT id FROM sessions WHERE session = ?)"
_DELETE = "DELETE FROM sessions WHERE session = ?"
_COMMIT_SIZE = 3 * 4096


class TurnRow(NamedTuple):
    """One turn of a log: its id, what was asked, and what came of it; None if nothing is known yet."""

    turn_id: str
    request: Plain
    outcome: Plain | None


class Looked(NamedTuple):
    """What a log holds: the last state, None if there is none, and its turns, oldest first."""

    state: Plain | None
    turns: Sequence[TurnRow]


class Owner(NamedTuple):
    """By what right a log is written: whose it is, and under which epoch."""

    session: str
    epoch: int


class Turns:
    """The turns of one session, within a transaction of its owner."""

    def __init__(self, connection: Connection, number: int, session: str, turns: int, kept: int, where: str) -> None:
        self._connection = connection
        self._number = number
        self._session = session
        self._where = where
        self.turns = turns
        self.kept = kept

    def intend(self, turn_id: str, request: bytes) -> None:
        """Keep what is asked in a turn without outcome. Raises JournalError: it has its outcome."""
        found = self._found(turn_id)
        if found is None:
            self.turns, self.kept = self.turns + 1, self.kept + 1
            sealed = turn_seal(self._session, self.turns, turn_id, request)
            self._connection.execute(_INSERT, (self._number, self.turns, turn_id, request, sealed))
            return
        place, _, outcome = found
        if outcome is not None:
            raise is_over(turn_id)
        sealed = turn_seal(self._session, place, turn_id, request)
        self._connection.execute(_INTEND, (request, sealed, self._number, turn_id))

    def outcome(self, turn_id: str, outcome: bytes) -> None:
        """Keep what came of a turn, if nothing is kept yet. Raises JournalError: it was not intended."""
        found = self._found(turn_id)
        if found is None:
            raise unintended(turn_id)
        place, request, known = found
        if known is None:
            sealed = turn_seal(self._session, place, turn_id, request, outcome)
            self._connection.execute(_OUTCOME, (outcome, sealed, self._number, turn_id))
        self.kept -= len(self._connection.execute(_FORGET, (self._number, self.turns - OUTCOMES)).fetchall())

    def _found(self, turn_id: str) -> tuple[int, bytes, bytes | None] | None:
        rows = self._connection.execute(_TURN, (self._number, turn_id)).fetchall()
        return checked_turn(rows[0], self._session, self._where) if rows else None


class Work(Protocol):
    """What an owner does in a transaction."""

    def __call__(self, turns: Turns, /) -> None: ...


class TurnShard(Database):
    """One database of turns. Usable from any thread.

    Attributes:
        guard: held by the thread that uses it.
    """

    schema, application, version = _SCHEMA, APPLICATION, VERSION
    is_private = True

    def __init__(self, file: Path, connect: Connect) -> None:
        super().__init__(file, connect)
        self.guard = threading.Lock()

    def unkept(self, error: Exception) -> JournalError:
        """See `Database.unkept`."""
        return refusals.unkept_turn(str(self.file), error, self.file)

    def open_session(self, session: str) -> Owner:
        """Become the owner of a session's log, whoever was."""
        with self.guard:
            self.prepare()  # so that a database that cannot be used is told apart from a turn that could not be kept
            try:
                with self.transaction() as connection:
                    [(epoch,)] = connection.execute(_OPEN, (session, head_seal(session, 0, 0, None))).fetchall()
            except Undone as error:
                raise self.unkept(error.cause) from error.cause
            return Owner(session, int(epoch))

    def write(self, owner: Owner, work: Work, state: bytes | None, size: int, *, is_end: bool = False) -> None:
        """Do `work`, and keep the state that goes with it, if the log still belongs to `owner`.

        Args:
            owner, work, state: as said; no state leaves the one that is there.
            size: bytes that `work` adds, about.
            is_end: whether a turn is over by it.
        """
        with self.guard:
            try:
                with self.transaction() as connection:
                    self._written(connection, owner, work, state)
            except Undone as error:
                raise self.unkept(error.cause) from error.cause
            self._logged += _COMMIT_SIZE + size + len(state or b"")
            if is_end and self._logged > FULL_LOG:
                self.checkpoint()

    def look(self, session: str) -> Looked | None:
        """What the log of a session holds now, None if there is none; nothing is written.

        Raises:
            JournalError: it cannot be read, or is not what was written.
        """
        where = f"session {session}"
        with self.guard:
            rows = self.read(_LOOK, session, where=where)
        if not rows:
            return None
        where = f"{self.file}, {where}"
        turns, kept, state, sealed = rows[0][:4]
        checked_head(session, turns, kept, state, sealed, where)
        found = [row[4:] for row in rows if row[4] is not None]
        if len(found) != kept:
            raise damaged(where, f"{kept} turns were kept, and {len(found)} are there")
        return Looked(
            None if state is None else _plain(state, where), tuple(_turn_row(row, session, where) for row in found)
        )

    def names(self, name: str, below: str = "") -> Sequence[str]:
        """The sessions of this name, and those whose names begin with `below`, if that is not empty.

        Raises:
            JournalError: they cannot be read.
        """
        beyond = f"{below}\U0010ffff" if below else ""
        with self.guard:
            return [str(row[0]) for row in self.read(_NAMES, name, below, beyond)]

    def delete(self, sessions: Sequence[str]) -> None:
        """Delete the logs of these sessions, all or none; who owns one is refused before it writes again."""
        with self.guard, self.deletion(str(self.file)) as connection:
            for session in sessions:
                connection.execute(_DELETE_TURNS, (session,))
                connection.execute(_DELETE, (session,))

    def _written(self, connection: Connection, owner: Owner, work: Work, state: bytes | None) -> None:
        where = f"{self.file}, session {owner.session}"
        rows = connection.execute(_OWNED, owner).fetchall()
        if not rows:
            is_there = connection.execute(_NAMES, (owner.session, "", "")).fetchall()
            raise _taken_over(owner) if is_there else _gone(owner, self.file)
        number, turns, kept, known, sealed = rows[0]
        checked_head(owner.session, turns, kept, known, sealed, where)
        of_it = Turns(connection, number, owner.session, turns, kept, where)
        work(of_it)
        known = known if state is None else state
        sealed = head_seal(owner.session, of_it.turns, of_it.kept, known)
        connection.execute(_SAVE, (of_it.turns, of_it.kept, known, sealed, number))


def head_seal(session: str, turns: int, kept: int, state: bytes | None) -> int:
    """The seal of a session's row."""
    return seal(session, turns, kept, "none" if state is None else len(state), data=state or b"")


def turn_seal(session: str, place: int, turn: str, request: bytes, outcome: bytes | None = None) -> int:
    """The seal of a turn's row."""
    intended = seal(session, place, turn, len(request), "", data=request)
    return intended if outcome is None else seal(data=outcome, before=intended)


def checked_head(session: str, turns: Any, kept: Any, state: Any, sealed: Any, where: str) -> None:
    """See that a session's row is what was written. Raises JournalError."""
    is_well_formed = isinstance(turns, int) and isinstance(kept, int) and isinstance(state, bytes | None)
    if not is_well_formed or head_seal(session, turns, kept, state) != sealed:
        raise damaged(where, "the session's row does not have the checksum it was written with")


def checked_turn(row: Sequence[Any], session: str, where: str) -> tuple[int, bytes, bytes | None]:
    """Place, request and outcome of a turn's row. Raises JournalError: they are not what was written."""
    place, turn, request, outcome, sealed = row
    is_well_formed = isinstance(turn, str) and isinstance(request, bytes) and isinstance(outcome, bytes | None)
    if not is_well_formed or turn_seal(session, place, turn, request, outcome) != sealed:
        raise damaged(f"{where}, turn {turn}", "it does not have the checksum it was written with")
    return place, request, outcome


def damaged(where: str, why: str) -> JournalError:
    """What is there is not what was written."""
    return refusals.damaged(where, why, "Restore the file from a copy, or delete the session and begin it anew")


def packed(value: Plain) -> bytes:
    """The bytes that keep a value. Raises JournalError if it is not plain."""
    try:
        return pack(value)
    except RecordError as error:
        raise JournalError("A value cannot be recorded", why=error.why) from error


def unpacked(data: bytes) -> Plain:
    """The value that bytes keep. Raises RecordError if they keep none."""
    value: Any = unpack(data)
    if not isinstance(value, dict):
        raise RecordError("a record is malformed", why=f"a map is needed, not {type(value).__name__}")
    return value


def is_over(turn_id: str) -> JournalError:
    """A turn that has its outcome is to be run."""
    return JournalError(
        "This turn has its outcome, so it cannot be run again", where=f"turn {turn_id}", fix="Prepare another turn"
    )


def unintended(turn_id: str) -> JournalError:
    """An outcome comes without an intent."""
    return JournalError("A turn that nobody was asked for has an outcome", where=f"turn {turn_id}")


def _turn_row(row: Sequence[Any], session: str, where: str) -> TurnRow:
    _, request, outcome = checked_turn(row, session, where)
    where = f"{where}, turn {row[1]}"
    return TurnRow(row[1], _plain(request, where), None if outcome is None else _plain(outcome, where))


def _plain(data: bytes, where: str) -> Plain:
    try:
        return unpacked(data)
    except RecordError as error:
        raise damaged(where, error.why) from error


def _taken_over(owner: Owner) -> JournalError:
    return JournalError(
        "This agent session was taken over by another owner",
        where=f"session {owner.session}",
        why=f"its epoch is later than {owner.epoch}; nothing was written, and nothing is asked of a worker",
        fix="Let the new owner go on with it",
    )


def _gone(owner: Owner, file: Path) -> JournalError:
    return JournalError(
        "The log of this agent session is gone",
        where=f"{file}, session {owner.session}",
        why="it was deleted, or its file was removed or replaced; nothing was written, and no worker is asked",
        fix="Bring the file back, or begin anew; whatever has the session, a party for example, is to be started again",
    )
