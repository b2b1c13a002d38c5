"""A run whose four roles are in four processes, `python -m benchmarks.remote_run`, against the broker's own round trip.

Every interaction crosses the broker twice: what was said goes to the next role's process, and its answer comes back.
The conductor is in this process, which also keeps the record: in memory, or in SQLite, where each decision is synced
before it is delivered. What a sync takes is the disk's affair, and here it may be twenty round trips, so SQLite is
measured twice: on /dev/shm, where a sync costs nothing, against the round trip; and on the disk, against the round trip
and a bare commit there. The times are those between one delivery and the next. All processes are started anew for each
round.
"""

import asyncio
import contextlib
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, cast

import partyctl as ap
from benchmarks.broker import SECRET, broker
from benchmarks.errands import Runner, running
from benchmarks.harness import Comparison, Target, Variant, parser, run, spread

ROUNDS, TRIPS, COMMITS = 250, 1000, 300
LIMIT: Final = 3.0
TRIP, TRIP_AND_COMMIT = "round trip of the broker", "round trip and a bare commit"
MEMORY, SQLITE, DISK, HERE = "four processes, memory", "four processes, SQLite", "four processes, disk", "one process"
RING: Final = ap.roles("A", "B", "C", "D")
A, B, C, D = RING


class Item(ap.Message):
    """What goes round."""

    number: int


class Done(ap.Message):
    """It went round often enough."""


ring = ap.Protocol(
    ap.loop(
        ap.choose(
            A,
            B,
            {
                Item: [ap.send(B, C, Item), ap.send(C, D, Item), ap.send(D, A, Item), ap.repeat()],
                Done: [ap.send(B, C, Done), ap.send(C, D, Done)],
            },
        )
    )
)


async def passing(offer: ap.Offer, heard: ap.Transcript) -> ap.Message:
    """Passes on what it got, plus one."""
    newest = heard[-1].message if heard else Item(0)
    if isinstance(newest, Done) or (offer.role == A and len(heard) == ROUNDS):
        return Done()
    assert isinstance(newest, Item)
    return Item(newest.number + 1)


class Deliveries:
    """A tracer that notes the milliseconds between deliveries."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self._last = 0.0

    def record(self, event: object) -> None:
        """See `Tracer.record`."""
        if type(event).__name__ == "Delivered":
            now = time.perf_counter()
            self.times.append((now - self._last) * 1000)
            self._last = now


def interactions(cast_of_run: Mapping[ap.Role, object], journal: object = None) -> Mapping[str, float]:
    """A run's figures; its first interactions, in which processes meet, are left out."""
    deliveries = Deliveries()
    session = ap.Session(ring, cast_of_run, journal=journal, tracer=deliveries)  # type: ignore[arg-type]
    session.run()
    return spread(deliveries.times[20:])


def commits(directory: str) -> Mapping[str, float]:
    """What it takes to commit a row of 100 bytes there."""
    file = Path(directory, "bare.sqlite")
    times = []
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE IF NOT EXISTS rows (row BLOB)")
        for _ in range(COMMITS):
            start = time.perf_counter()
            connection.execute("INSERT INTO rows VALUES (?)", (b"x" * 100,))
            times.append((time.perf_counter() - start) * 1000)
    return spread(times)


@contextlib.contextmanager
def setting() -> Iterator[list[Comparison]]:
    """A round's processes."""
    with contextlib.ExitStack() as stack:
        directory = tempfile.mkdtemp(prefix="pb-", dir="/tmp")
        stack.callback(shutil.rmtree, directory)
        names = [role.name for role in RING]
        told = [principal(name, f"session/{name}") for name in names]
        _, url, _ = stack.enter_context(broker(f"{directory}/b", [principal("caller", "run/*"), *told]))
        for name in names:
            stack.enter_context(running("benchmarks.remote_run", "serve", url, name))
        far = Runner(
            stack.enter_context(running("benchmarks.broker_peer", "far", url, "local", SECRET.hex(), piped=True))
        )
        far.read()
        near = Runner(
            stack.enter_context(running("benchmarks.broker_peer", "near", url, "local", SECRET.hex(), piped=True))
        )
        near("trips", 200)
        remote = {role: ap.Remote(role.name, url=url, key=f"caller:{SECRET.hex()}") for role in RING}
        here = dict.fromkeys(RING, passing)
        memory = tempfile.mkdtemp(prefix="pb-", dir="/dev/shm")
        stack.callback(shutil.rmtree, memory)
        journal, on_disk = ap.SqliteJournal(f"{memory}/runs"), ap.SqliteJournal(f"{directory}/runs")
        interactions(remote)

        def trips() -> Mapping[str, float]:
            return spread(cast(list[float], near("trips", TRIPS)))

        def trips_and_commits() -> Mapping[str, float]:
            trip, commit = trips(), commits(directory)
            return {"p50 ms": trip["p50 ms"] + commit["p50 ms"]}

        variants: dict[str, Variant] = {
            TRIP: trips,
            TRIP_AND_COMMIT: trips_and_commits,
            MEMORY: lambda: interactions(remote),
            SQLITE: lambda: interactions(remote, journal),
            DISK: lambda: interactions(remote, on_disk),
            HERE: lambda: interactions(here),
        }
        targets = (
            Target(MEMORY, "p50 ms", LIMIT, TRIP),
            Target(SQLITE, "p50 ms", LIMIT, TRIP),
            Target(DISK, "p50 ms", LIMIT, TRIP_AND_COMMIT),
        )
        yield [Comparison(f"a ring of four roles, {4 * ROUNDS} interactions one after the other", variants, targets)]


def principal(name: str, claim: str) -> Mapping[str, object]:
    """What the broker is told of a peer."""
    return {"t": "principal", "name": name, "secret": SECRET, "claims": [claim]}


def main() -> int:
    """Measure and print; 1 if a target is missed."""
    if sys.argv[1:2] == ["serve"]:
        url, name = sys.argv[2:]
        asyncio.run(ap.aserve(ap.Role(name), passing, url=url, key=f"{name}:{SECRET.hex()}", protocol=ring))
    return run(setting, parser(__doc__, rounds=5).parse_args())


if __name__ == "__main__":
    sys.exit(main())
