"""Token counts: parts never exceed their whole."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partyctl_plugins.usage import CostSource, ProviderUsage, TokenUsage, TokenWeights, normalized_usage


def test_counts_add_up_field_by_field() -> None:
    total = TokenUsage(10, 4, 3, 2, 1, 1, 1) + TokenUsage(5, 1, turns=1)
    assert total == TokenUsage(15, 5, 3, 2, 1, 1, 2)


def test_what_no_cache_had_to_do_with_is_the_rest() -> None:
    usage = TokenUsage(input_tokens=10, cache_read_input_tokens=3, cache_write_input_tokens=2)
    assert (usage.uncached_input_tokens, usage.cached_input_tokens, usage.total_tokens) == (5, 3, 10)


@pytest.mark.parametrize(
    "counts",
    [
        {"input_tokens": -1},
        {"input_tokens": True},
        {"input_tokens": 1.5},
        {"input_tokens": 1, "cache_read_input_tokens": 2},
        {"input_tokens": 3, "cache_read_input_tokens": 2, "cache_write_input_tokens": 2},
        {"input_tokens": 2, "cache_write_input_tokens": 1, "cache_write_1h_input_tokens": 2},
        {"output_tokens": 1, "reasoning_output_tokens": 2},
    ],
)
def test_counts_that_contradict_each_other_are_refused(counts: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"must be a whole number|is larger than"):
        TokenUsage(**counts)


def test_counts_survive_a_dictionary_and_ignore_names_from_the_future() -> None:
    usage = TokenUsage(10, 4, 3, turns=1)
    assert TokenUsage.from_dict({**usage.to_dict(), "telepathy_tokens": 3}) == usage


@given(st.lists(st.integers(-100, 100), min_size=7, max_size=7))
def test_normalizing_makes_counts_of_any_report(counts: list[int]) -> None:
    names = list(TokenUsage().to_dict())
    usage = normalized_usage(**dict(zip(names, counts, strict=True)))
    assert usage.input_tokens == max(0, counts[0])
    assert usage.cache_read_input_tokens <= usage.input_tokens


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_normalizing_leaves_a_sound_report_alone(total: int, read: int) -> None:
    read = min(read, total)
    expected = TokenUsage(input_tokens=total, cache_read_input_tokens=read)
    assert normalized_usage(input_tokens=total, cache_read_input_tokens=read) == expected


def test_an_unknown_cost_is_none_not_zero() -> None:
    assert ProviderUsage().total_cost_usd is None


@pytest.mark.parametrize(
    "fields",
    [
        {"tokens": TokenUsage(1), "increment_known": False},
        {"cost_source": CostSource.UNKNOWN_MODEL, "total_cost_usd": 0.1},
        {"total_cost_usd": -0.1},
    ],
)
def test_figures_that_contradict_what_is_said_of_them_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must be"):
        ProviderUsage(**fields)


def test_tokens_without_a_baseline_are_placeholders_of_one_turn() -> None:
    assert ProviderUsage(TokenUsage(turns=1), increment_known=False).tokens.turns == 1


def test_tokens_weigh_what_the_caller_says() -> None:
    usage = TokenUsage(100, 10, 40, 20, 5)
    weights = TokenWeights(output=4, cache_read=0.5, cache_write=2, cache_write_1h=3)
    assert usage.weighted_total(weights) == 40 + 40 * 0.5 + 15 * 2 + 5 * 3 + 10 * 4
    with pytest.raises(ValueError, match="output"):
        TokenWeights(output=-1)
