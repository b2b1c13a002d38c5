"""What many recorded runs cost at once, `python -m benchmarks.recorded_runs`: 200 runs of 20 interactions of two
scripts on one event loop, each decision durable in SQLite (synchronous=FULL) before it is delivered; side by side with
agentsparty 0.2.0 (the extra `bench`) and its SQLite journal, on a connection as `sqlite3.connect` gives it and on one
with a write-ahead log. A memory journal and JSON lines tell what of it is the disk.
"""

import asyncio
import gc
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import agentsparty

import partyctl
from benchmarks.harness import Comparison, Target, parser, run

RUNS, INTERACTIONS = 200, 20
TIMES: Final = 20
THEIRS, THEIR_LOG = "agentsparty, SQLite", "agentsparty, WAL"
OURS, MEMORY, LINES = "partyctl, SQLite", "partyctl, memory", "partyctl, JSON lines"


def conversation(library: ModuleType) -> Callable[..., Any]:
    """Makes sessions of two scripts that say INTERACTIONS messages."""
    ap: Any = library
    a, b = ap.roles("A", "B")
    ping, pong, stop = (
        type(name, (ap.Message,), {"__annotations__": {"text": str}}) for name in ("Ping", "Pong", "Stop")
    )
    protocol = ap.Protocol(ap.loop(ap.send(a, b, ping), ap.choose(b, a, {pong: [ap.repeat()], stop: []})))
    rounds = INTERACTIONS // 2
    cast = {a: ap.Script([ping("hi")] * rounds), b: ap.Script([*[pong("yo")] * (rounds - 1), stop("bye")])}
    return lambda **session: ap.Session(protocol, cast, **session)


async def _all(sessions: list[Any]) -> Mapping[str, float]:
    gc.collect()
    start = time.perf_counter()
    transcripts = await asyncio.gather(*(session.arun() for session in sessions))
    took = time.perf_counter() - start
    decisions = sum(map(len, transcripts))
    assert decisions == RUNS * INTERACTIONS
    return {"us each": took / decisions * 1e6, "decisions/s": decisions / took}


def theirs(mode: str) -> Mapping[str, float]:
    """The yardstick: a commit for each decision."""
    session = conversation(agentsparty)
    with tempfile.TemporaryDirectory(dir=".") as directory:
        connection = sqlite3.connect(Path(directory) / "runs.sqlite")
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute("PRAGMA synchronous = FULL")
        names = [agentsparty.SessionId(f"run-{number}") for number in range(RUNS)]
        journals = [agentsparty.SqliteJournal(connection, name) for name in names]
        sessions = [session(journal=journal, id=name) for journal, name in zip(journals, names, strict=True)]
        figures = asyncio.run(_all(sessions))
        connection.close()
    return figures


def ours(journal: Callable[[str], partyctl.Journal]) -> Mapping[str, float]:
    """Ours, all runs over one journal."""
    session = conversation(partyctl)
    with tempfile.TemporaryDirectory(dir=".") as directory:
        kept = journal(directory)
        # Opened before, as theirs is.
        if isinstance(kept, partyctl.SqliteJournal):
            kept.create(kept.new_id(), "none", ())
        return asyncio.run(_all([session(journal=kept) for _ in range(RUNS)]))


def main() -> int:
    """Measure and print; 1 if a target is missed."""
    options = parser(__doc__, rounds=3).parse_args()
    variants = {
        THEIRS: lambda: theirs("DELETE"),
        THEIR_LOG: lambda: theirs("WAL"),
        OURS: lambda: ours(partyctl.SqliteJournal),
        LINES: lambda: ours(partyctl.JsonlJournal),
        MEMORY: lambda: ours(lambda _: partyctl.MemoryJournal()),
    }
    targets = (Target(OURS, "decisions/s", TIMES, THEIRS, at_least=True),)
    return run([Comparison(f"{RUNS} runs of {INTERACTIONS} interactions at once", variants, targets)], options)


if __name__ == "__main__":
    sys.exit(main())
