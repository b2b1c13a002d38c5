import pytest

from partyctl_broker.large import FORGOTTEN, HUGE, LargeLetters


@pytest.fixture
def large():
    return LargeLetters()


def test_bytes_add_up_and_only_who_sends_huge_ones_is_named(large):
    large.note(b"a", HUGE)
    large.note(b"b", HUGE + 1)
    assert large.bytes == 2 * HUGE + 1
    assert large.senders == {b"b"}


def test_who_sends_no_more_is_forgotten_and_who_goes_on_is_not(large):
    senders = large.senders
    for origin in (b"a", b"b"):
        large.note(origin, HUGE + 1)
    large.forget(100.0)
    large.note(b"b", HUGE + 1)
    large.forget(100.0 + FORGOTTEN / 2)
    assert large.senders == {b"a", b"b"}
    large.forget(100.0 + FORGOTTEN)
    assert large.senders == {b"b"}
    large.forget(100.0 + 2 * FORGOTTEN)
    assert large.senders == set()
    assert large.senders is senders  # the shell keeps it
