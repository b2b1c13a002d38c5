from __future__ import annotations

import math

import pytest

from partyctl_actors.runs.allowance import Allowance, Excess, Spent, charge


def test_an_empty_allowance_never_refuses() -> None:
    assert charge(Allowance(), Spent(10**9, 10**9, 10**9), 3, 1e9) == Spent(10**9 + 1, 10**9 + 3, 10**9)


def test_steps_are_refused_before_the_step_and_say_what_was_spent() -> None:
    assert charge(Allowance(steps=2), Spent(steps=1), 0, 0) == Spent(steps=2)
    assert charge(Allowance(steps=2), Spent(steps=2), 0, 0) == Excess("steps", 2, 2)
    assert charge(Allowance(steps=0), Spent(), 0, 0) == Excess("steps", 0, 0)


def test_a_step_that_enters_two_loops_needs_room_for_both() -> None:
    assert charge(Allowance(unfoldings=2), Spent(unfoldings=0), 2, 0) == Spent(1, 2)
    assert charge(Allowance(unfoldings=2), Spent(unfoldings=1), 2, 0) == Excess("unfoldings", 1, 2)
    assert charge(Allowance(unfoldings=2), Spent(unfoldings=2), 0, 0) == Spent(1, 2)


@pytest.mark.parametrize("spent", [100, 101])
def test_tokens_are_used_up_when_they_are_reached(spent: int) -> None:
    assert charge(Allowance(tokens=100), Spent(tokens=99), 0, 0) == Spent(1, 0, 99)
    assert charge(Allowance(tokens=100), Spent(tokens=spent), 0, 0) == Excess("tokens", spent, 100)


def test_the_wall_clock_is_used_up_when_it_is_reached() -> None:
    assert charge(Allowance(wall_clock=2.5), Spent(), 0, 2.4) == Spent(1)
    assert charge(Allowance(wall_clock=2.5), Spent(), 0, 2.5) == Excess("wall_clock", 2.5, 2.5)


@pytest.mark.parametrize("name", ["steps", "unfoldings", "tokens", "wall_clock"])
@pytest.mark.parametrize("limit", [-1, "3", True, 1.5, math.nan])
def test_a_limit_that_is_none_is_refused_by_name(name: str, limit: object) -> None:
    if name == "wall_clock" and limit == 1.5:
        assert Allowance(wall_clock=1.5).wall_clock == 1.5
        return
    with pytest.raises((TypeError, ValueError), match=name):
        Allowance(**{name: limit})  # type: ignore[arg-type]
