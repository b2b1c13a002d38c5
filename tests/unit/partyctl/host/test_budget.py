from hypothesis import given
from hypothesis import strategies as st

from partyctl.host.budget import RestartBudget

moments = st.lists(st.floats(0, 1000, allow_nan=False), max_size=60).map(sorted)


def granted(budget: RestartBudget, at: list[float]) -> list[float]:
    """The moments at which a restart is granted; a refused one is not counted."""
    done = []
    for moment in at:
        after = budget.spend(moment)
        if after is not None:
            budget = after
            done.append(moment)
    return done


@given(moments, st.integers(0, 6), st.floats(0.5, 100))
def test_never_more_than_the_intensity_within_any_period(at: list[float], intensity: int, period: float) -> None:
    done = granted(RestartBudget(intensity, period), at)
    for first in done:
        assert sum(0 <= moment - first < period for moment in done) <= intensity


@given(moments, st.integers(1, 6), st.floats(0.5, 100))
def test_a_restart_is_refused_only_when_the_period_before_is_full(
    at: list[float], intensity: int, period: float
) -> None:
    budget = RestartBudget(intensity, period)
    for moment in at:
        recent = [restart for restart in budget.restarts if moment - restart < period]
        after = budget.spend(moment)
        assert (after is None) == (len(recent) >= intensity)
        budget = after or budget


@given(moments)
def test_a_budget_remembers_no_more_than_it_needs(at: list[float]) -> None:
    budget = RestartBudget(3, 10.0)
    for moment in at:
        budget = budget.spend(moment) or budget
        assert len(budget.restarts) <= 3


def test_no_intensity_means_no_restart() -> None:
    assert RestartBudget(intensity=0).spend(0.0) is None


def test_spending_leaves_the_budget_as_it_was() -> None:
    budget = RestartBudget(1, 10.0)
    assert budget.spend(1.0) == budget.spend(1.0)
    assert budget.restarts == ()
