"""What is durable of an agent session: that a turn is about to be run, what came of it, and where the session stands.

The order is the law's. An intent is kept before a worker is asked, an outcome before anybody hears of it, and a state
before its commands are carried out. So whoever finds a log after a death knows of each turn which it is: without an
intent it was not started; with an outcome it is finished; with an intent alone a worker may have carried it out.

A log belongs to its newest opener. Opening adds one to its epoch, and who opened it before is refused before it writes.
Workers are hired and attached under the same number.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple, Protocol
from zlib import crc32

from partyctl_actors.journals import refusals
from partyctl_actors.journals.database import Connect, connect
from partyctl_actors.journals.places import directory_of
from partyctl_actors.supervision.turn_shard import (
    OUTCOMES,
    SHARDS,
    Looked,
    Plain,
    TurnShard,
    is_over,
    packed,
    unintended,
    unpacked,
)


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
        data, kept = packed(request), _packed_state(state)
        if turn_id in self._outcomes:
            raise is_over(turn_id)
        self._intents[turn_id] = data
        self._state = self._state if kept is None else kept

    def outcome(self, turn_id: str, outcome: Plain, state: Plain | None = None) -> None:
        """See `TurnLog.outcome`."""
        data, kept = packed(outcome), _packed_state(state)
        if turn_id not in self._intents and turn_id not in self._outcomes:
            raise unintended(turn_id)
        if self._intents.pop(turn_id, None) is not None:
            self._outcomes[turn_id] = data
        for old in list(self._outcomes)[:-OUTCOMES]:
            del self._outcomes[old]
        self._state = self._state if kept is None else kept

    def state(self, state: Plain) -> None:
        """See `TurnLog.state`."""
        self._state = packed(state)

    def recover(self) -> Recovered:
        """See `TurnLog.recover`."""
        state = None if self._state is None else unpacked(self._state)
        return Recovered(state, _plains(self._intents), _plains(self._outcomes))


class TurnLogs:
    """The durable logs of agent sessions: 16 SQLite databases in one directory. Usable from any thread and process.

    Args:
        directory: where the databases are; made if missing. Files are for their owner alone.
        connect: opens a database, for tests that want to see or to fail what reaches the disk.
        make: whether the directory is made if missing; who only reads need not.

    Raises:
        JournalError: the directory cannot be made, or others can write in it.
    """

    def __init__(self, directory: str | os.PathLike[str], *, connect: Connect = connect, make: bool = True) -> None:
        self.path = directory_of(directory, "TurnLogs", make=make)
        self._shards = [TurnShard(self.path / f"turns-{number:02}.sqlite", connect) for number in range(SHARDS)]

    def open(self, session_id: str) -> SqliteTurnLog:
        """Become the owner of a session's log, whoever was.

        Raises:
            JournalError: the database is none of ours or damaged, or cannot be written.
        """
        return SqliteTurnLog(self._of(session_id), session_id)

    def look(self, session_id: str) -> Looked | None:
        """What the log of a session holds now, without owning it: whoever has it goes on, and nothing is written.

        Returns:
            None if there is none.

        Raises:
            JournalError: the database is none of ours or damaged, or cannot be read.
        """
        return self._of(session_id).look(session_id)

    def delete(self, session_id: str, below: str = "") -> int:
        """Delete the log of a session. Whoever owns it is refused before it writes again.

        Args:
            session_id: whose.
            below: delete those of all sessions, too, whose names begin with this.

        Returns:
            How many logs were deleted.

        Raises:
            JournalError: a database cannot be read or written; what is left can be deleted again.
        """
        deleted = 0
        for shard in self._shards if below else [self._of(session_id)]:
            names = shard.names(session_id, below)
            if names:
                shard.delete(names)
            deleted += len(names)
        return deleted

    def close(self) -> None:
        """Let go of the databases; they are opened again when they are needed."""
        for shard in self._shards:
            with shard.guard:
                shard.close()

    def _of(self, session_id: str) -> TurnShard:
        return self._shards[crc32(session_id.encode("utf-8", "surrogatepass")) % SHARDS]


class SqliteTurnLog:
    """A log in a database; see `TurnLogs.open`.

    Attributes:
        session_id: whose.
        epoch: by what right it is written; greater than that of every earlier opener.
    """

    def __init__(self, shard: TurnShard, session_id: str) -> None:
        self._shard = shard
        self._owner = shard.open_session(session_id)
        self.session_id, self.epoch = self._owner

    def intend(self, turn_id: str, request: Plain, state: Plain | None = None) -> None:
        """See `TurnLog.intend`."""
        data, kept = packed(request), _packed_state(state)
        self._shard.write(self._owner, lambda turns: turns.intend(turn_id, data), kept, len(data))

    def outcome(self, turn_id: str, outcome: Plain, state: Plain | None = None) -> None:
        """See `TurnLog.outcome`."""
        data, kept = packed(outcome), _packed_state(state)
        self._shard.write(self._owner, lambda turns: turns.outcome(turn_id, data), kept, len(data), is_end=True)

    def state(self, state: Plain) -> None:
        """See `TurnLog.state`."""
        self._shard.write(self._owner, lambda _: None, packed(state), 0)

    def recover(self) -> Recovered:
        """See `TurnLog.recover`."""
        looked = self._shard.look(self.session_id)
        if looked is None:
            raise refusals.damaged(str(self._shard.file), f"session {self.session_id} is missing")
        intents = {row.turn_id: row.request for row in looked.turns if row.outcome is None}
        return Recovered(
            looked.state, intents, {row.turn_id: row.outcome for row in looked.turns if row.outcome is not None}
        )

    def close(self) -> None:
        """Let go of the database; it is opened again when it is needed."""
        with self._shard.guard:
            self._shard.close()


def _packed_state(state: Plain | None) -> bytes | None:
    return None if state is None else packed(state)


def _plains(kept: Mapping[str, bytes]) -> dict[str, Plain]:
    return {key: unpacked(data) for key, data in kept.items()}
