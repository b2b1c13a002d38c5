"""Profiles and policies as data."""

import math
from typing import Any

import pytest

from partyctl_plugins.permissions import NativeMode
from partyctl_plugins.profile import ProviderProfile, RenewalBudget, RetryPolicy, SchemaDialect, TransportKind


def test_the_default_retries_are_those_of_the_recovery_rules() -> None:
    assert RetryPolicy().delays == (30, 60, 120, 240, 480)


@pytest.mark.parametrize("delays", [(-1,), (math.nan,), (math.inf,), (10**400,)])
def test_a_delay_that_is_no_time_is_refused(delays: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="finite and not negative"):
        RetryPolicy(delays)


@pytest.mark.parametrize("delays", ["12", (True,), ("1",)])
def test_a_delay_that_is_no_number_is_refused(delays: Any) -> None:
    with pytest.raises(TypeError, match="delay"):
        RetryPolicy(delays)


def test_no_delays_mean_no_retries() -> None:
    assert RetryPolicy(()).delays == ()


def test_a_profile_promises_little_unless_told() -> None:
    profile = ProviderProfile("mine")
    assert profile.native_permission_modes == {NativeMode.BYPASS}
    assert profile.transports == {TransportKind.STREAM}
    assert profile.renewal is None
    assert not profile.supports_steer


def test_the_first_model_is_the_default() -> None:
    assert ProviderProfile("mine", models=("big", "small")).default_model == "big"
    assert ProviderProfile("mine").default_model is None


@pytest.mark.parametrize("limit", [0, -1, 1.5, True])
def test_a_budget_that_every_turn_would_exceed_is_refused(limit: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="max_turns"):
        RenewalBudget(max_turns=limit)


@pytest.mark.parametrize("fields", [{"after_tool": "hope"}, {"retire_after_stalled": 0}])
def test_a_rule_that_there_is_not_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(fields))):
        RetryPolicy(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"native_permission_modes": {"root"}},
        {"auth_env_vars": "API_KEY"},
        {"env": {"A=": ""}},
        {"renewal": 3},
        {"schema_dialect": SchemaDialect.OPEN},
    ],
)
def test_a_profile_that_is_not_as_described_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        ProviderProfile(**{"name": "mine", **fields})


def test_words_and_lists_are_taken_for_what_they_say() -> None:
    modes: Any = ["bypass", "read_only"]
    profile = ProviderProfile("mine", native_permission_modes=modes, models=["a"])  # type: ignore[arg-type]
    assert profile.native_permission_modes == {NativeMode.BYPASS, NativeMode.READ_ONLY}
    assert profile.models == ("a",)
