"""What a policy is configured with is checked, and the argument named."""

import math

import pytest

from partyctl_actors.supervision.policy_config import PolicyConfig
from partyctl_plugins.contract import RetryPolicy


@pytest.mark.parametrize("seconds", [-1, -0.001, math.nan, math.inf])
def test_an_idle_limit_that_is_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="idle_release_after"):
        PolicyConfig(idle_release_after=seconds)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("idle_release_after", True),
        ("idle_release_after", "10"),
        ("retry", (1, 2)),
        ("renewal", 2),
        ("supports_resume", 1),
        ("supports_steer", "yes"),
    ],
)
def test_what_is_of_another_kind_is_refused(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=name):
        PolicyConfig(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("seconds", [None, 0, 0.5])
def test_a_limit_may_be_nothing_at_all(seconds: float | None) -> None:
    assert PolicyConfig(RetryPolicy(()), idle_release_after=seconds).idle_release_after == seconds
