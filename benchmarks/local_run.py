"""What an interaction of a run costs within one process, `python -m benchmarks.local_run`: two scripts that talk,
side by side with agentsparty 0.2.0 (the extra `bench`) and its null journal, while ours keeps a record in memory.
"""

import gc
import sys
import time
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

import agentsparty
import agentsparty.journal.types

import partyctl
from benchmarks.harness import Comparison, Target, parser, run

SHORT, LONG = 2_000, 100_000
SHARE: Final = 0.25
GROWTH: Final = 1.2
THEIRS, OURS = "agentsparty", "partyctl"
LONG_OURS: Final = f"partyctl, {LONG} interactions"


def ping_pong(library: ModuleType, interactions: int, **session: object) -> Any:
    """A session of so many interactions: a choice to go on, and an answer to it."""
    ap: Any = library
    a, b = ap.roles("A", "B")
    kinds = [type(name, (ap.Message,), {"__annotations__": {"number": int}}) for name in ("Ping", "Pong", "Bye")]
    ping, pong, bye = kinds
    protocol = ap.Protocol(ap.loop(ap.choose(a, b, {ping: [ap.send(b, a, pong), ap.repeat()], bye: []})))
    rounds = interactions // 2
    cast = {
        a: ap.Script([*(ping(number) for number in range(rounds)), bye(0)]),
        b: ap.Script([pong(number) for number in range(rounds)]),
    }
    enough = ap.Allowance(steps=2 * interactions, unfoldings=2 * interactions)
    return ap.Session(protocol, cast, allowance=enough, **session)


def cost(session: Any) -> Mapping[str, float]:
    """Run it once."""
    gc.collect()
    start = time.perf_counter()
    transcript = session.run()
    return {"us each": (time.perf_counter() - start) / len(transcript) * 1e6}


def theirs() -> Mapping[str, float]:
    """The yardstick: a null journal, as its default one takes time that grows with the square of the length."""
    return cost(ping_pong(agentsparty, SHORT, journal=agentsparty.journal.types.NoJournal()))


def ours(interactions: int) -> Mapping[str, float]:
    """Ours, with all its checks and a record in memory."""
    return cost(ping_pong(partyctl, interactions))


def main() -> int:
    """Measure and print; 1 if a target is missed."""
    options = parser(__doc__, rounds=8).parse_args()
    variants = {THEIRS: theirs, OURS: lambda: ours(SHORT), LONG_OURS: lambda: ours(LONG)}
    targets = (Target(OURS, "us each", SHARE, THEIRS), Target(LONG_OURS, "us each", GROWTH, OURS))
    return run([Comparison(f"{SHORT} interactions of two scripts", variants, targets)], options)


if __name__ == "__main__":
    sys.exit(main())
