from hypothesis import given
from hypothesis import strategies as st

from partyctl.host.budget import Death, Deaths, GiveUp, Restart, RestartPolicy

moments = st.lists(st.floats(0, 1000, allow_nan=False), max_size=60).map(sorted)
policies = st.builds(RestartPolicy, intensity=st.integers(0, 6), period=st.floats(0.5, 100))


def live(policy: RestartPolicy, at: list[float], *, cause: str = "was killed", was_ready: bool = True) -> list[float]:
    """Deaths at these moments, each after a restart; the moments at which a restart was granted."""
    deaths, granted = Deaths(), []
    for moment in at:
        deaths, verdict = deaths.step(policy, Death(moment, cause, was_ready))
        if isinstance(verdict, GiveUp):
            break
        granted.append(moment)
    return granted


@given(moments, policies)
def test_never_more_restarts_than_the_intensity_within_any_period(at: list[float], policy: RestartPolicy) -> None:
    granted = live(policy, at)
    for first in granted:
        assert sum(0 <= moment - first < policy.period for moment in granted) <= policy.intensity


@given(policies, st.integers(1, 200))
def test_one_that_lives_long_enough_is_never_given_up(policy: RestartPolicy, times: int) -> None:
    if policy.intensity:
        healthy = [number * policy.period * 1.01 / policy.intensity for number in range(times)]
        assert live(policy, healthy) == healthy


def test_one_that_lives_three_seconds_for_ever_is_given_up_with_the_cause() -> None:
    deaths, verdict = Deaths(), Restart(0)
    now = 0.0
    for _ in range(20):
        deaths, verdict = deaths.step(RestartPolicy(), Death(now, "exited with status 9"))
        if isinstance(verdict, GiveUp):
            break
        now += verdict.wait + 3.0
    assert verdict == GiveUp(
        "it died 6 times within 60 s; last cause: exited with status 9", 6, 60.0, "exited with status 9"
    )


def test_the_same_death_before_it_was_ready_is_given_up_early() -> None:
    granted = live(RestartPolicy(), [0, 20, 40, 60], cause="no such module", was_ready=False)
    assert granted == [0, 20]


def test_another_cause_or_having_been_ready_breaks_the_row() -> None:
    deaths = Deaths()
    for number, death in enumerate([("a", False), ("a", False), ("b", False), ("a", False), ("a", True), ("a", False)]):
        deaths, verdict = deaths.step(RestartPolicy(), Death(number * 30.0, *death))
        assert isinstance(verdict, Restart)


def test_the_wait_doubles_up_to_its_limit_and_varies_by_a_quarter() -> None:
    policy = RestartPolicy(intensity=10, first_wait=1.0, longest_wait=5.0)
    deaths, waits = Deaths(), []
    for number in range(5):
        deaths, verdict = deaths.step(policy, Death(float(number), "c", jitter=1.0 if number == 4 else 0.0))
        assert isinstance(verdict, Restart)
        waits.append(verdict.wait)
    assert waits == [1.0, 2.0, 4.0, 5.0, 6.25]


@given(moments, policies)
def test_it_remembers_no_more_than_it_needs(at: list[float], policy: RestartPolicy) -> None:
    deaths = Deaths()
    for moment in at:
        deaths, _ = deaths.step(policy, Death(moment, "c", was_ready=False))
        assert len(deaths.recent) <= policy.intensity + 1
        assert len(deaths.at_start) <= len(at)
