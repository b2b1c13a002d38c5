"""What a turn cost: tokens as providers count them, and money where it is known."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum

from partyctl_plugins.checks import check_money


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of one or more turns.

    Attributes:
        input_tokens: everything that went in, cache reads and writes included.
        output_tokens: everything that came out, reasoning included.
        cache_read_input_tokens: the part of the input read from a cache.
        cache_write_input_tokens: the part of the input written to a cache.
        cache_write_1h_input_tokens: the part of the cache writes that is kept for an hour.
        reasoning_output_tokens: the part of the output that is reasoning.
        turns: how many turns these counts cover.

    Raises:
        ValueError: a count is negative, or a part is larger than its whole.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    cache_write_1h_input_tokens: int = 0
    reasoning_output_tokens: int = 0
    turns: int = 0

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ValueError(f"{entry.name} must be a whole number of at least 0, not {value!r}")
        _part(
            "cache_read_input_tokens + cache_write_input_tokens", self.cached_total, "input_tokens", self.input_tokens
        )
        _part(
            "cache_write_1h_input_tokens",
            self.cache_write_1h_input_tokens,
            "cache_write_input_tokens",
            self.cache_write_input_tokens,
        )
        _part("reasoning_output_tokens", self.reasoning_output_tokens, "output_tokens", self.output_tokens)

    @property
    def cached_total(self) -> int:
        """Input tokens that were read from or written to a cache."""
        return self.cache_read_input_tokens + self.cache_write_input_tokens

    @property
    def cached_input_tokens(self) -> int:
        """Another name of `cache_read_input_tokens`."""
        return self.cache_read_input_tokens

    @property
    def uncached_input_tokens(self) -> int:
        """Input tokens that were neither read from a cache nor written to one."""
        return self.input_tokens - self.cached_total

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        if not isinstance(other, TokenUsage):
            return NotImplemented
        return TokenUsage(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})

    def weighted_total(self, weights: "TokenWeights") -> float:
        """The tokens in units of one fresh input token.

        Args:
            weights: what a token of each sort weighs.
        """
        one_hour = self.cache_write_1h_input_tokens
        return (
            self.uncached_input_tokens
            + self.cache_read_input_tokens * weights.cache_read
            + (self.cache_write_input_tokens - one_hour) * weights.cache_write
            + one_hour * weights.cache_write_1h
            + self.output_tokens * weights.output
        )

    def to_dict(self) -> dict[str, int]:
        """The counts by name, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, counts: Mapping[str, int]) -> "TokenUsage":
        """The reverse of `to_dict`; names it does not know are ignored.

        Raises:
            ValueError: the counts contradict each other.
        """
        known = {f.name for f in fields(cls)}
        return cls(**{name: value for name, value in counts.items() if name in known})


@dataclass(frozen=True, slots=True)
class TokenWeights:
    """What a token of each sort weighs against one of fresh input; the caller's own estimate.

    Attributes:
        output: one token of output, reasoning included.
        cache_read: one read from a cache.
        cache_write: one written to a cache for minutes.
        cache_write_1h: one written to a cache for an hour.

    Raises:
        TypeError, ValueError: a weight is no finite number of at least 0.
    """

    output: float = 5.0
    cache_read: float = 0.1
    cache_write: float = 1.25
    cache_write_1h: float = 2.0

    def __post_init__(self) -> None:
        for entry in fields(self):
            check_money(entry.name, getattr(self, entry.name))


def normalized_usage(
    *,
    input_tokens: int = 0,
    output_tokens: int = 0,
    cache_read_input_tokens: int = 0,
    cache_write_input_tokens: int = 0,
    cache_write_1h_input_tokens: int = 0,
    reasoning_output_tokens: int = 0,
    turns: int = 0,
) -> TokenUsage:
    """`TokenUsage` from counts that may be wrong. A negative count becomes 0, no part exceeds its whole."""
    total_in, total_out = max(0, input_tokens), max(0, output_tokens)
    read = min(max(0, cache_read_input_tokens), total_in)
    write = min(max(0, cache_write_input_tokens), total_in - read)
    return TokenUsage(
        input_tokens=total_in,
        output_tokens=total_out,
        cache_read_input_tokens=read,
        cache_write_input_tokens=write,
        cache_write_1h_input_tokens=min(max(0, cache_write_1h_input_tokens), write),
        reasoning_output_tokens=min(max(0, reasoning_output_tokens), total_out),
        turns=max(0, turns),
    )


class CostSource(StrEnum):
    """Where the money figure comes from."""

    PRICE_TABLE = "price_table"
    """Reckoned from the tokens, by a table of prices."""
    PROVIDER_REPORTED = "provider_reported"
    """Told by the provider."""
    UNKNOWN_MODEL = "unknown_model"
    """There is none: nobody knows what this model costs."""


@dataclass(frozen=True, slots=True)
class ProviderUsage:
    """What one turn used.

    Attributes:
        tokens: the counts of this turn.
        total_cost_usd: its cost in US dollars, None if unknown (never a partial sum).
        provider: the name of the provider that counted.
        raw: the provider's own report, kept because some count cumulatively and need the last one as a baseline.
        increment_known: False if there was no baseline: the counts are then placeholders, and 0.
        cost_source: where the money figure comes from, None if that is not known.

    Raises:
        TypeError: the cost is no number.
        ValueError: the cost is negative or not finite; there is one, though the model is unknown; or there are counts,
            though `increment_known` is False.
    """

    tokens: TokenUsage = field(default_factory=TokenUsage)
    total_cost_usd: float | None = None
    provider: str = ""
    raw: Mapping[str, object] | None = None
    increment_known: bool = True
    cost_source: CostSource | None = None

    def __post_init__(self) -> None:
        check_money("total_cost_usd", self.total_cost_usd)
        if not self.increment_known and self.tokens.total_tokens:
            raise ValueError("tokens must be 0 where increment_known is False: nobody knows what this turn used")
        if self.cost_source is CostSource.UNKNOWN_MODEL and self.total_cost_usd is not None:
            raise ValueError("total_cost_usd must be None where the model is unknown, never a partial sum")


def _part(part: str, size: int, whole: str, total: int) -> None:
    if size > total:
        raise ValueError(f"{part} ({size}) is larger than {whole} ({total}), of which it is a part")
