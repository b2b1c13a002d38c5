"""What is durable of an agent session: that a turn is about to be run, what came of it, and where the session stands.

The order is the law's. An intent is kept before a worker is asked, an outcome before anybody hears of it, and a state
before its commands are carried out. So whoever finds a log after a death knows of each turn which it is: without an
intent it was not started; with an outcome it is finished; with an intent alone a worker may have carried it out.

A log belongs to its newest opener. Opening adds one to its epoch, and who opened it before is refused before it writes.
Workers are hired and attached under the same number.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias
from zlib import crc32

from partyctl_actors.errors import JournalError
from partyctl_actors.journals import refusals
from partyctl_actors.journals.database import Connect, Connection, Database, Undone, connect
from partyctl_plugins.codec import pack, unpack
from partyctl_plugins.errors import RecordError

Plain: TypeAlias = Mapping[str, object]
"""Text, numbers, bytes, None, and lists and maps of them."""

SHARDS = 16

OUTCOMES = 64
"""Finished turns that a log keeps; the older ones are dropped."""

FULL_LOG = 1 << 20
"""Bytes of write-ahead log at which the end of a turn brings them into the database, which costs two syncs."""

APPLICATION = 0x7061727E
"""`application_id` of the databases of turns."""

_SCHEMA = """
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY, session TEXT NOT NULL UNIQUE, epoch INTEGER NOT NULL, state BLOB, turns INTEGER NOT NULL);
CREATE TABLE turns (
    session INTEGER NOT NULL REFERENCES sessions, place INTEGER NOT NULL, turn TEXT NOT NULL, request BLOB NOT NULL,
    outcome BLOB, PRIMARY KEY (session, turn)) WITHOUT ROWID;
"""
_OPEN = """INSERT INTO sessions (session, epoch, turns) VALUES (?, 1, 0)
    ON CONFLICT (session) DO UPDATE SET epoch = epoch + 1 RETURNING epoch"""
_OWNED = "SELECT id, turns FROM sessions WHERE session = ? AND epoch = ?"
_STATE = "UPDATE sessions SET state = ? WHERE id = ?"
_COUNT = "UPDATE sessions SET turns = ? WHERE id = ?"
_INTEND = """INSERT INTO turns (session, place, turn, request) VALUES (?, ?, ?, ?)
    ON CONFLICT (session, turn) DO UPDATE SET request = excluded.request WHERE outcome IS NULL RETURNING place"""
_OUTCOME = "UPDATE turns SET outcome = ? WHERE session = ? AND turn = ? AND outcome IS NULL RETURNING place"
_FORGET = "DELETE FROM turns WHERE session = ? AND place <= ? AND outcome IS NOT NULL"
_TURNS = "SELECT turn, request, outcome FROM turns WHERE session = ? ORDER BY place"
_COMMIT_SIZE = 3 * 4096


class Recovered(NamedTuple):
    """What a log holds.

    Attributes:
        state: the last one, None if there is none.
        intents: the requests of the turns without an outcome, by their ids, oldest first.
        outcomes: what the last finished turns came to, by their ids, oldest first.
    """

    state: Plain | None
    intents: Mapping[str, Plain]
    outcomes: Mapping[str, Plain]


class TurnLog(Protocol):
    """The log of one agent session. What a method writes survives any death once it returns.

    Each write may carry the state that goes with it, so that both are there or none. All raise `JournalError`: it
    belongs to another by now, or whether it was written is not known; then only opening it again tells.
    """

    def intend(self, turn_id: str, request: Plain, state: Plain | None = None) -> None:
        """A worker is about to be asked. Again for a turn without outcome; refused for one that has its outcome."""
        ...

    def outcome(self, turn_id: str, outcome: Plain, state: Plain | None = None) -> None:
        """The turn is over. Only the first outcome of a turn counts; a turn without intent is refused."""
        ...

    def state(self, state: Plain) -> None:
        """Where the session stands."""
        ...

    def recover(self) -> Recovered:
        """What the log holds."""
        ...


class MemoryTurnLog:
    """A log that dies with its process: for sessions that run where their caller runs."""

    def __init__(self) -> None:
        self._state: bytes | None = None
        self._intents: dict[str, bytes] = {}
        self._outcomes: dict[str, bytes] = {}

    def intend(self, turn_id: str, request: Plain, state: Plain | None = None) -> None:
        """See `TurnLog.intend`."""
        packed, kept = _packed(request), _packed_state(state)
        if turn_id in self._outcomes:
            raise _is_over(turn_id)
        self._intents[turn_id] = packed
        self._state = self._state if kept is None else kept

    def outcome(self, turn_id: str, outcome: Plain, state: Plain | None = None) -> None:
        """See `TurnLog.outcome`."""
        packed, kept = _packed(outcome), _packed_state(state)
        if turn_id not in self._intents and turn_id not in self._outcomes:
            raise _unintended(turn_id)
        if self._intents.pop(turn_id, None) is not None:
            self._outcomes[turn_id] = packed
        for old in list(self._outcomes)[:-OUTCOMES]:
            del self._outcomes[old]
        self._state = self._state if kept is None else kept

    def state(self, state: Plain) -> None:
        """See `TurnLog.state`."""
        self._state = _packed(state)

    def recover(self) -> Recovered:
        """See `TurnLog.recover`."""
        state = None if self._state is None else _plain(self._state)
        return Recovered(state, _plains(self._intents), _plains(self._outcomes))


class TurnLogs:
    """The durable logs of agent sessions: 16 SQLite databases in one directory. Usable from any thread and process.

    Args:
        directory: where the databases are; made if missing. Files are readable by their owner alone.
        connect: opens a database, for tests that want to see or to fail what reaches the disk.

    Raises:
        JournalError: the directory cannot be made.
    """

    def __init__(self, directory: str | os.PathLike[str], *, connect: Connect = connect) -> None:
        self.path = Path(directory)
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            why = error.strerror or str(error)
            raise JournalError("The directory of turns cannot be made", where=str(self.path), why=why) from error
        self._shards = [TurnShard(self.path / f"turns-{number:02}.sqlite", connect) for number in range(SHARDS)]

    def open(self, session_id: str) -> SqliteTurnLog:
        """Become the owner of a session's log, whoever was.

        Raises:
            JournalError: the database is none of ours or damaged, or cannot be written.
        """
        shard = self._shards[crc32(session_id.encode("utf-8", "surrogatepass")) % SHARDS]
        return SqliteTurnLog(shard, session_id)

    def close(self) -> None:
        """Let go of the databases; they are opened again when they are needed."""
        for shard in self._shards:
            with shard.guard:
                shard.close()


class SqliteTurnLog:
    """A log in a database; see `TurnLogs.open`.

    Attributes:
        session_id: whose.
        epoch: by what right it is written; greater than that of every earlier opener.
    """

    def __init__(self, shard: TurnShard, session_id: str) -> None:
        self._shard = shard
        self.session_id = session_id
        self.epoch = shard.open_session(session_id)

    def intend(self, turn_id: str, request: Plain, state: Plain | None = None) -> None:
        """See `TurnLog.intend`."""
        packed, kept = _packed(request), _packed_state(state)

        def work(connection: Connection, session: int, turns: int) -> None:
            place = turns + 1
            rows = connection.execute(_INTEND, (session, place, turn_id, packed)).fetchall()
            if not rows:
                raise _is_over(turn_id)
            if rows[0][0] == place:
                connection.execute(_COUNT, (place, session))

        self._shard.write(self, work, kept, len(packed))

    def outcome(self, turn_id: str, outcome: Plain, state: Plain | None = None) -> None:
        """See `TurnLog.outcome`."""
        packed, kept = _packed(outcome), _packed_state(state)

        def work(connection: Connection, session: int, turns: int) -> None:
            if not connection.execute(_OUTCOME, (packed, session, turn_id)).fetchall():
                known = connection.execute("SELECT 1 FROM turns WHERE session = ? AND turn = ?", (session, turn_id))
                if not known.fetchall():
                    raise _unintended(turn_id)
            connection.execute(_FORGET, (session, turns - OUTCOMES))

        self._shard.write(self, work, kept, len(packed), is_end=True)

    def state(self, state: Plain) -> None:
        """See `TurnLog.state`."""
        self._shard.write(self, lambda _connection, _session, _turns: None, _packed(state), 0)

    def recover(self) -> Recovered:
        """See `TurnLog.recover`."""
        return self._shard.recover(self)

    def close(self) -> None:
        """Let go of the database; it is opened again when it is needed."""
        with self._shard.guard:
            self._shard.close()


class TurnShard(Database):
    """One database of turns.

    Attributes:
        guard: held by the thread that uses it.
    """

    schema, application, version = _SCHEMA, APPLICATION, 2

    def __init__(self, file: Path, connect: Connect) -> None:
        super().__init__(file, connect)
        self.guard = threading.Lock()

    def unkept(self, error: Exception) -> JournalError:
        return JournalError(
            "What an agent session does could not be recorded",
            where=str(self.file),
            why=f"{type(error).__name__}: {error}",
            fix="Free the disk, then open the session again: its log says how far it came",
        )

    def open_session(self, session_id: str) -> int:
        """Become the owner of a session's log; the new epoch."""
        with self.guard:
            try:
                with self.transaction() as connection:
                    [(epoch,)] = connection.execute(_OPEN, (session_id,)).fetchall()
            except Undone as error:
                raise self.unkept(error.cause) from error.cause
            return int(epoch)

    def write(self, log: SqliteTurnLog, work: _Work, state: bytes | None, size: int, *, is_end: bool = False) -> None:
        """Do `work`, and keep the state that goes with it, if the log still belongs to `log`."""
        with self.guard:
            try:
                with self.transaction() as connection:
                    session, turns = self._owned(connection, log)
                    work(connection, session, turns)
                    if state is not None:
                        connection.execute(_STATE, (state, session))
            except Undone as error:
                raise self.unkept(error.cause) from error.cause
            self._logged += _COMMIT_SIZE + size + len(state or b"")
            if is_end and self._logged > FULL_LOG:
                self.checkpoint()

    def recover(self, log: SqliteTurnLog) -> Recovered:
        """What is in the log of `log`."""
        with self.guard:
            found = self.read("SELECT id, state FROM sessions WHERE session = ?", log.session_id)
            rows = self.read(_TURNS, found[0][0]) if found else ()
        if not found:
            raise refusals.damaged(str(self.file), f"session {log.session_id} is missing")
        try:
            state = None if found[0][1] is None else _plain(bytes(found[0][1]))
            intents = {turn: _plain(bytes(request)) for turn, request, outcome in rows if outcome is None}
            outcomes = {turn: _plain(bytes(outcome)) for turn, _, outcome in rows if outcome is not None}
        except RecordError as error:
            raise refusals.damaged(f"{self.file}, session {log.session_id}", error.why) from error
        return Recovered(state, intents, outcomes)

    @staticmethod
    def _owned(connection: Connection, log: SqliteTurnLog) -> tuple[int, int]:
        rows = connection.execute(_OWNED, (log.session_id, log.epoch)).fetchall()
        if not rows:
            raise JournalError(
                "This agent session was taken over by another owner",
                where=f"session {log.session_id}",
                why=f"its epoch is later than {log.epoch}; nothing was written, and nothing is asked of a worker",
                fix="Let the new owner go on with it",
            )
        session, turns = rows[0]
        return int(session), int(turns)


class _Work(Protocol):
    def __call__(self, connection: Connection, session: int, turns: int, /) -> None: ...


def _packed(value: Plain) -> bytes:
    """The bytes that keep a value. Raises JournalError if it is not plain."""
    try:
        return pack(value)
    except RecordError as error:
        raise JournalError("A value cannot be recorded", why=error.why) from error


def _packed_state(state: Plain | None) -> bytes | None:
    return None if state is None else _packed(state)


def _plain(data: bytes) -> Plain:
    value: Any = unpack(data)
    if not isinstance(value, dict):
        raise RecordError("a record is malformed", why=f"a map is needed, not {type(value).__name__}")
    return value


def _plains(kept: Mapping[str, bytes]) -> dict[str, Plain]:
    return {key: _plain(data) for key, data in kept.items()}


def _is_over(turn_id: str) -> JournalError:
    return JournalError(
        "This turn has its outcome, so it cannot be run again",
        where=f"turn {turn_id}",
        fix="Prepare another turn",
    )


def _unintended(turn_id: str) -> JournalError:
    return JournalError("A turn that nobody was asked for has an outcome", where=f"turn {turn_id}")
