"""A deadline and the clocks: within a boot of the machine, after another one, and whoever sets the time of day."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partyctl_actors.supervision.deadlines import Deadline, Moment, from_plain, in_seconds, the_earlier, to_plain
from partyctl_plugins.codec import Mismatch

NOW = Moment(1000.0, "boot-1", 1_790_000_000.0)
DEADLINE = in_seconds(60, NOW)


@pytest.mark.parametrize(
    ("now", "left"),
    [
        (NOW, 60.0),
        (Moment(1010.0, "boot-1", NOW.epoch + 10), 50.0),
        (Moment(1010.0, "boot-1", NOW.epoch - 86_400), 50.0),  # somebody set the time of day back
        (Moment(1010.0, "boot-1", NOW.epoch + 86_400), 50.0),
        (Moment(1070.0, "boot-1", NOW.epoch), -10.0),
        (Moment(3.0, "boot-2", NOW.epoch + 20), 40.0),
        (Moment(3.0, "boot-2", NOW.epoch + 90), -30.0),
        (Moment(3.0, "boot-2", NOW.epoch - 86_400), 60.0),  # never more than there was
        (Moment(990.0, "boot-1", NOW.epoch), 60.0),
    ],
)
def test_what_is_left(now: Moment, left: float) -> None:
    assert DEADLINE.left(now) == left


def test_on_the_clocks_of_another_boot_it_is_counted_by_the_clock_that_never_goes_back() -> None:
    after = Moment(3.0, "boot-2", NOW.epoch + 20)
    moved = DEADLINE.on(after)
    assert (moved.due, moved.seconds) == (43.0, 60.0)
    assert moved.left(Moment(13.0, "boot-2", NOW.epoch - 86_400)) == 30.0


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.floats(-1e9, 1e9)), min_size=1, max_size=6), st.floats(0.001, 1e6)
)  # each process lives some seconds, and the time of day is set by some
def test_in_one_boot_the_time_of_day_never_counts(lives: list[tuple[float, float]], seconds: float) -> None:
    deadline, at = in_seconds(seconds, NOW), NOW.monotonic
    for lived, jump in lives:
        at += lived
        now = Moment(at, NOW.boot, NOW.epoch + jump)
        deadline = from_plain(to_plain(deadline)).on(now)
        assert deadline.left(now) == pytest.approx(NOW.monotonic + seconds - at, abs=1e-3)


def test_the_earlier_of_two_counts() -> None:
    sooner = in_seconds(5, NOW)
    assert the_earlier(DEADLINE, sooner, NOW) == the_earlier(sooner, DEADLINE, NOW) == sooner
    assert the_earlier(None, sooner, NOW) == the_earlier(sooner, None, NOW) == sooner
    assert the_earlier(None, None, NOW) is None


def test_its_plain_form_is_read_back_and_nothing_else_is() -> None:
    assert from_plain(to_plain(DEADLINE)) == DEADLINE
    assert isinstance(DEADLINE, Deadline)
    with pytest.raises(Mismatch):
        from_plain({"seconds": 5})
