"""What it costs to check a protocol, `python -m benchmarks.protocol_checks`: making a `Protocol` compiles it and
projects it on every role.

Each shape is checked at two sizes, the second with about twice as many interactions times roles. The figures are
processor time; message classes and steps are made before. Each shape has to be checked in under a second, and at twice
the work in at most 2.6 times as long, which is 1.3 times as long for each interaction of a role.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Mapping

from benchmarks.harness import Comparison, Target, parser, run
from partyctl_actors.protocol import Message, Protocol, Role, Step, choose, loop, patterns, repeat, roles, send
from partyctl_actors.protocol.graph import Interaction

MILLISECONDS_MAX = 1000.0
GROWTH_MAX = 1.3
A, B, C = roles("A", "B", "C")


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


def check(steps: list[Step]) -> Mapping[str, float]:
    """One check."""
    gc.collect()
    began = time.process_time()
    protocol = Protocol(steps)
    seconds = time.process_time() - began
    work = sum(isinstance(state, Interaction) for state in protocol.flow.states) * len(protocol.roles)
    return {"cpu ms": seconds * 1e3, "us of work": seconds / work * 1e6}


def compared(shape: str, make: Callable[[int], list[Step]], size: int, double: int) -> Comparison:
    """A shape at both sizes."""
    small, large = make(size), make(double)
    targets = (
        Target(str(size), "cpu ms", MILLISECONDS_MAX),
        Target(str(double), "us of work", GROWTH_MAX, str(size)),
    )
    return Comparison(shape, {str(size): lambda: check(small), str(double): lambda: check(large)}, targets)


def main() -> int:
    """Measure and print; 1 if a target is missed."""
    options = parser(__doc__, rounds=5).parse_args()
    return run([compared(*shape) for shape in SHAPES], options)


if __name__ == "__main__":
    sys.exit(main())
