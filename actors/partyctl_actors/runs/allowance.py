"""What a run may spend, and the arithmetic of spending it.

Steps and unfoldings are refused before the next unit is begun, so they are never overdrawn. Tokens and elapsed time are
known only after they are spent, so the step that follows is refused. (docs/sessions.md, Limits.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Allowance:
    """The limits of one run; None is no limit.

    Args:
        steps: interactions, at most.
        unfoldings: loop heads entered, at most; the first entry counts.
        tokens: provider tokens, input and output together; reached is used up.
        wall_clock: seconds since the run began; reached is used up.

    Raises:
        TypeError: a limit is not a number of the kind it counts.
        ValueError: a limit is negative or not a number.
    """

    steps: int | None = None
    unfoldings: int | None = None
    tokens: int | None = None
    wall_clock: float | None = None

    def __post_init__(self) -> None:
        for name in ("steps", "unfoldings", "tokens"):
            _check(name, getattr(self, name), int)
        _check("wall_clock", self.wall_clock, (int, float))


class Spent(NamedTuple):
    """What a run has spent so far."""

    steps: int = 0
    unfoldings: int = 0
    tokens: int = 0


class Excess(NamedTuple):
    """A limit that leaves no room for the next step."""

    limit: str
    spent: float
    allowed: float


def charge(allowance: Allowance, spent: Spent, unfolds: int, elapsed: float) -> Spent | Excess:
    """Pay for one step that enters `unfolds` loop heads, `elapsed` seconds after the run began."""
    if allowance.wall_clock is not None and elapsed >= allowance.wall_clock:
        return Excess("wall_clock", elapsed, allowance.wall_clock)
    if allowance.tokens is not None and spent.tokens >= allowance.tokens:
        return Excess("tokens", spent.tokens, allowance.tokens)
    if allowance.unfoldings is not None and spent.unfoldings + unfolds > allowance.unfoldings:
        return Excess("unfoldings", spent.unfoldings, allowance.unfoldings)
    if allowance.steps is not None and spent.steps + 1 > allowance.steps:
        return Excess("steps", spent.steps, allowance.steps)
    return Spent(spent.steps + 1, spent.unfoldings + unfolds, spent.tokens)


def _check(name: str, limit: object, kinds: type | tuple[type, ...]) -> None:
    if limit is None:
        return
    if isinstance(limit, bool) or not isinstance(limit, kinds):
        raise TypeError(f"Allowance({name}=...) is a number or None, not {limit!r}")
    assert isinstance(limit, (int, float))
    if math.isnan(limit) or limit < 0:
        raise ValueError(f"Allowance({name}={limit!r}) is not a limit: it cannot be negative or NaN")
