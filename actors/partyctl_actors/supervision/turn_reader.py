"""Looking at the log of an agent session without owning it: whoever has it goes on, and nothing is written."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote
from zlib import crc32

from partyctl_actors.journals import refusals
from partyctl_actors.journals.database import Rows
from partyctl_actors.supervision.turn_log import APPLICATION, SHARDS, Plain
from partyctl_plugins.codec import unpack
from partyctl_plugins.errors import RecordError

BUSY_LIMIT = 5.0
"""Seconds a look waits for whoever has the database to itself."""


class TurnRow(NamedTuple):
    """One turn of a log: its id, what was asked, and what came of it; None if nothing is known yet."""

    turn_id: str
    request: Plain
    outcome: Plain | None


class Looked(NamedTuple):
    """What a log holds: the last state, None if there is none, and its turns, oldest first."""

    state: Plain | None
    turns: Sequence[TurnRow]


def look(directory: str | os.PathLike[str], session_id: str) -> Looked | None:
    """What the log of a session holds now; None if there is none.

    Args:
        directory: that of a `TurnLogs`.
        session_id: whose.

    Raises:
        JournalError: the database is none of ours, or damaged.
    """
    shard = crc32(session_id.encode("utf-8", "surrogatepass")) % SHARDS
    file = Path(directory) / f"turns-{shard:02}.sqlite"
    if not file.exists():
        return None
    # Whoever looks at no session does not pay for it.
    import sqlite3

    try:
        with contextlib.closing(
            sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True, timeout=BUSY_LIMIT, isolation_level=None)
        ) as connection:
            return _looked(connection.execute, str(file), session_id)
    except (sqlite3.Error, RecordError) as error:
        raise refusals.damaged(str(file), f"{type(error).__name__}: {error}") from error


def _looked(execute: Callable[..., Rows], file: str, session_id: str) -> Looked | None:
    [(application,)] = execute("PRAGMA application_id").fetchall()
    if not application:
        return None  # it is being made
    if application != APPLICATION:
        raise refusals.foreign(file, "it is the database of another program")
    execute("BEGIN")  # the state and the turns of one moment
    rows = execute("SELECT id, state FROM sessions WHERE session = ?", (session_id,)).fetchall()
    if not rows:
        return None
    [(number, state)] = rows
    turns = execute("SELECT turn, request, outcome FROM turns WHERE session = ? ORDER BY place", (number,)).fetchall()
    return Looked(
        None if state is None else _plain(state),
        tuple(
            TurnRow(turn, _plain(request), None if outcome is None else _plain(outcome))
            for turn, request, outcome in turns
        ),
    )


def _plain(data: bytes) -> Plain:
    value = unpack(bytes(data))
    if not isinstance(value, dict):
        raise RecordError("a record is malformed", why=f"a map is needed, not {type(value).__name__}")
    return value
