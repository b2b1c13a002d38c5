"""What it costs to check a protocol: making a `Protocol` compiles it and projects it on every role.

    python benchmarks/protocol_checks.py [--rounds 7] [--json]

Each shape is checked at the size that is asked for and at one where its interactions times its roles are twice as many.
The figures are processor time of the fastest of the rounds, for the machine may be busy with other things; message
classes and steps are made before. Each shape has to be checked in under a second, and in at most 2.6 times as long when
it is twice as large.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from partyctl_actors.protocol import Message, Protocol, Role, Step, choose, loop, patterns, repeat, roles, send
from partyctl_actors.protocol.graph import Interaction

SECONDS_MAX = 1.0
RATIO_MAX = 2.6
A, B, C = roles("A", "B", "C")


@dataclass(frozen=True)
class Figures:
    """One shape at two sizes; `work` is interactions times roles, `seconds` of the check."""

    shape: str
    size: int
    work: int
    seconds: float
    double_size: int
    double_work: int
    double_seconds: float

    @property
    def ratio(self) -> float:
        """How much longer the larger one takes, brought to exactly twice the work."""
        return self.double_seconds / self.seconds * 2 * self.work / self.double_work

    def ok(self) -> bool:
        """Whether both targets are met."""
        return self.seconds < SECONDS_MAX and self.ratio <= RATIO_MAX


def kind(label: str) -> type[Message]:
    """A message class without fields."""
    return type(label, (Message,), {})


X, Y = kind("X"), kind("Y")


def ring(size: int) -> list[Step]:
    """A token goes round `size` roles, until the first of them lets it rest; the others are told on the next round."""
    row = [Role(f"R{i}") for i in range(size)]
    rest: list[Step] = [send(row[i], row[(i + 1) % size], Y) for i in range(1, size)]
    again = [send(row[i], row[(i + 1) % size], X) for i in range(1, size)]
    return [loop(choose(row[0], row[1], {X: [*again, repeat()], Y: rest}))]


def choice(size: int) -> list[Step]:
    """One choice of `size` branches, each of which a third role is told of."""
    kinds = [kind(f"K{i}") for i in range(size)]
    return [choose(A, B, {one: send(B, C, one) for one in kinds})]


def choices(size: int) -> list[Step]:
    """`size` choices in a row, each of which a third role is told of."""
    return [choose(A, B, {X: send(B, C, X), Y: send(B, C, Y)}) for _ in range(size)]


def line(size: int) -> list[Step]:
    """`size` messages in a row."""
    return [send(A, B, X) for _ in range(size)]


def swarm(size: int) -> list[Step]:
    """The pattern, of `size` agents."""
    return list(patterns.swarm("Client", [f"Agent{i}" for i in range(size)]).steps)


SHAPES: tuple[tuple[str, Callable[[int], list[Step]], int, int], ...] = (
    ("ring of roles", ring, 100, 141),
    ("branches of a choice", choice, 1000, 2000),
    ("choices in a row", choices, 18, 36),
    ("sends in a line", line, 10_000, 20_000),
    ("agents of a swarm", swarm, 50, 71),
)


def measure(steps: list[Step]) -> tuple[int, float]:
    """Interactions times roles, and the seconds of one check."""
    gc.collect()
    began = time.process_time()
    protocol = Protocol(steps)
    seconds = time.process_time() - began
    work = sum(isinstance(state, Interaction) for state in protocol.flow.states) * len(protocol.roles)
    return work, seconds


def run(rounds: int) -> list[Figures]:
    """Every shape at both sizes, which take turns."""
    found: list[Figures] = []
    for name, make, size, double in SHAPES:
        small, large = make(size), make(double)
        pairs = [(measure(small), measure(large)) for _ in range(rounds)]
        (work, seconds), (double_work, double_seconds) = min(one for one, _ in pairs), min(two for _, two in pairs)
        found.append(Figures(name, size, work, seconds, double, double_work, double_seconds))
    return found


def main(arguments: list[str] | None = None) -> int:
    """Print the figures; 0 if every target is met."""
    parser = argparse.ArgumentParser(description="The cost of checking protocols.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    found = run(options.rounds)
    if options.json:
        print(json.dumps([asdict(one) | {"ratio": one.ratio, "ok": one.ok()} for one in found], indent=2))
    else:
        print(f"{'shape':<22}{'size':>7}{'work':>9}{'ms':>9}{'size':>9}{'work':>9}{'ms':>9}{'ratio':>8}")
        for one in found:
            print(
                f"{one.shape:<22}{one.size:>7}{one.work:>9}{one.seconds * 1e3:>9.1f}"
                f"{one.double_size:>9}{one.double_work:>9}{one.double_seconds * 1e3:>9.1f}"
                f"{one.ratio:>8.2f}  {'ok' if one.ok() else 'MISSED'}"
            )
        print(f"targets: {SECONDS_MAX:g} s at the first size, ratio at most {RATIO_MAX:g} for twice the work")
    return 0 if all(one.ok() for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
