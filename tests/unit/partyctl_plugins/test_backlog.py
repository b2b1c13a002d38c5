"""What is kept of what nobody could hear."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from partyctl_plugins.backlog import Backlog


def test_it_keeps_the_newest_and_counts_the_rest() -> None:
    backlog = Backlog(most=2)
    for data in (b"1", b"2", b"3"):
        backlog.add(data)
    assert backlog.take() == ([b"2", b"3"], 1)
    assert backlog.take() == ([], 0)


def test_it_is_bounded_in_bytes_and_one_that_is_too_large_is_dropped_with_those_before_it() -> None:
    backlog = Backlog(size=5)
    for data in (b"12", b"34", b"567"):
        backlog.add(data)
    assert backlog.take() == ([b"34", b"567"], 1)
    backlog.add(b"12")
    backlog.add(b"123456")
    assert backlog.take() == ([], 2)


def test_cleared_it_is_as_new() -> None:
    backlog = Backlog(most=1)
    backlog.add(b"1")
    backlog.add(b"2")
    backlog.clear()
    assert backlog.take() == ([], 0)


@given(st.lists(st.binary(max_size=8), max_size=40), st.integers(1, 6), st.integers(1, 20))
def test_what_is_kept_and_what_is_dropped_is_all_and_within_the_bounds(told: list[bytes], most: int, size: int) -> None:
    backlog = Backlog(most, size)
    for data in told:
        backlog.add(data)
    kept, dropped = backlog.take()
    assert len(kept) <= most
    assert sum(map(len, kept)) <= size
    assert told[dropped:] == kept
