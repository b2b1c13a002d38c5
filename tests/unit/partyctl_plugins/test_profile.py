"""Profiles and policies as data."""

import math
from typing import Any

import pytest

from partyctl_plugins.permissions import NativeMode
from partyctl_plugins.profile import ProviderProfile, RetryPolicy, TransportKind


def test_the_default_retries_are_those_of_the_recovery_rules() -> None:
    assert RetryPolicy().delays == (30, 60, 120, 240, 480)


@pytest.mark.parametrize("delays", [(-1,), (math.nan,), (math.inf,)])
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
