"""What a field's value must be beyond its type: `Annotated[int, between(1, 5)]`, `Annotated[str, where("...", check)]`.

Both are checked whenever a message is built. Bounds are part of a definition and of a JSON schema. A `where` is a
function, which cannot be carried to another process: its definition holds the requirement in words, and a protocol made
by `load` takes every value for good there. Whoever says the message has checked it already.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from pydantic import AfterValidator, Field

from partyctl_actors.errors import ProtocolError

T = TypeVar("T")
Number: TypeAlias = "int | float"


@dataclass(frozen=True, slots=True)
class Between:
    """A number from `low` to `high`, both included."""

    low: Number
    high: Number

    def markers(self) -> tuple[object, ...]:
        """What pydantic is told in `Annotated`."""
        return (Field(ge=self.low, le=self.high),)


@dataclass(frozen=True, slots=True)
class Where:
    """A value for which `holds` returns true; `holds` is None in a protocol that was loaded: nothing is checked."""

    # Both are compared: `typing` keeps one Annotated for equal markers, and with it one function for all.
    requirement: str
    holds: Callable[..., object] | None

    def markers(self) -> tuple[object, ...]:
        """What pydantic is told in `Annotated`."""
        return (AfterValidator(self._check), Field(description=self.requirement))

    def _check(self, value: T) -> T:
        if self.holds is None:
            return value
        try:
            good = bool(self.holds(value))
        # The user's own function, on a value that it may not have been written for.
        except Exception as error:
            raise ValueError(
                f"whether it is {self.requirement} cannot be told: {type(error).__name__}: {error}"
            ) from None
        if not good:
            raise ValueError(f"it must be {self.requirement}")
        return value


Refinement: TypeAlias = Between | Where


def where(requirement: str, holds: Callable[..., object]) -> Where:
    """The values of a field for which `holds` is true: `Annotated[int, where("even", lambda number: number % 2 == 0)]`.

    Args:
        requirement: what a value must be, in words that continue "it must be"; 1 to 200 characters.
        holds: called with the value; whatever it raises refuses the value.

    Raises:
        ProtocolError: no requirement in words, or nothing to call.
    """
    if not isinstance(requirement, str) or not requirement.strip() or len(requirement) > 200:
        raise ProtocolError(
            "A where needs its requirement in words", where="where()", why=f"got {requirement!r:.60}", fix=_EXAMPLE
        )
    if not callable(holds):
        raise ProtocolError("A where needs a function", where="where()", why=f"got {holds!r:.60}", fix=_EXAMPLE)
    return Where(requirement, holds)


_EXAMPLE = 'Write where("one line", lambda text: "\\n" not in text)'


def between(low: Number, high: Number) -> Between:
    """The numbers from `low` to `high`, both included: `Annotated[int, between(1, 5)]`, of int and float fields.

    Raises:
        ProtocolError: a bound is no finite number, or no number lies between them.
    """
    for bound in (low, high):
        if isinstance(bound, bool) or not isinstance(bound, (int, float)) or not math.isfinite(bound):
            raise ProtocolError(
                "This is no bound",
                where=f"between({low!r:.30}, {high!r:.30})",
                why=f"{bound!r:.30} is no finite number",
                fix="Write between(1, 5)",
            )
    if low > high:
        raise ProtocolError(
            "No number lies between these", where=f"between({low}, {high})", fix=f"Write between({high}, {low})"
        )
    return Between(low, high)
