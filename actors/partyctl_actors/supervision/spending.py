"""What the attempts of a turn used: each is counted once, whether it was answered, failed or was interrupted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from partyctl_plugins.codec import Mismatch, codec
from partyctl_plugins.contract import TurnResult
from partyctl_plugins.events import UsageReport


@dataclass(frozen=True, slots=True)
class Used:
    """What one attempt used, or several together.

    Attributes:
        input_tokens, output_tokens: 0 where nobody knows.
        cost_usd: US dollars, of those attempts whose cost is known; None if it is of none.
        duration_ms: milliseconds at the provider.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    duration_ms: int = 0

    @property
    def tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Used) -> Used:
        costs = [each for each in (self.cost_usd, other.cost_usd) if each is not None]
        return Used(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            sum(costs) if costs else None,
            self.duration_ms + other.duration_ms,
        )


NOTHING = Used()
_USED = codec(Used)


def answered(result: TurnResult) -> Used:
    """What an attempt used that came to this result."""
    tokens = result.usage.tokens
    return Used(tokens.input_tokens, tokens.output_tokens, result.cost_usd, result.duration_ms)


def unanswered(report: UsageReport | None, seconds: float) -> Used:
    """What an attempt used that came to no result of its provider.

    Args:
        report: the last one it made, None if it made none.
        seconds: how long it took.
    """
    took = round(seconds * 1000)
    if report is None:
        return Used(duration_ms=took)
    tokens = report.usage.tokens
    return Used(tokens.input_tokens, tokens.output_tokens, report.cost_usd, took)


def to_plain(used: Used) -> object:
    """For a record."""
    return _USED.encode(used)


def recorded(outcome: Mapping[str, object]) -> Used | None:
    """What a turn used that came to this outcome; None if its record does not say."""
    try:
        return cast(Used, _USED.decode(outcome["used"]))
    except (KeyError, Mismatch):
        return None
