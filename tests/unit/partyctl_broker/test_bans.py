import pytest

from partyctl_broker.bans import BAN_FIRST, BAN_LAST, Bans

WHY = "it shouts"


@pytest.fixture
def bans():
    return Bans()


def length(bans, now):
    """How long a ban lasts that begins now."""
    bans.add("p", WHY, now)
    seconds = BAN_FIRST
    while "p" in bans.names(now + seconds):
        seconds *= 2
    return seconds


def test_who_was_shown_out_stays_out_for_a_while_and_nobody_else(bans):
    bans.add("p", WHY, 100.0)
    assert bans.names(100.0) == bans.names(100.0 + BAN_FIRST / 2) == {"p"}
    assert bans.names(100.0 + BAN_FIRST) == set()


def test_it_is_told_for_how_long_and_why(bans):
    assert bans.add("p", WHY, 100.0) == BAN_FIRST
    assert bans.add("p", "something else", 100.0 + BAN_FIRST / 4) == BAN_FIRST * 3 / 4
    assert bans.told(100.0 + BAN_FIRST / 2) == {"p": (BAN_FIRST / 2, WHY)}
    assert bans.told(100.0 + BAN_FIRST) == {}
    assert bans.add("p", WHY, 100.0 + BAN_FIRST) == 2 * BAN_FIRST


def test_it_gets_longer_each_time_up_to_a_limit(bans):
    now, lengths = 100.0, []
    for _ in range(9):
        lengths.append(length(bans, now))
        now += lengths[-1]
    assert lengths[:4] == [1, 2, 4, 8]
    assert lengths[-2:] == [64, 64]  # the first power of two over BAN_LAST


def test_several_connections_at_once_are_one_reason(bans):
    for _ in range(3):
        bans.add("p", WHY, 100.0)
    assert bans.names(100.0 + BAN_FIRST) == set()


def test_who_behaved_for_long_begins_anew(bans):
    assert length(bans, 100.0) == 1
    assert length(bans, 200.0) == 1
    assert length(bans, 201.0 + BAN_LAST) == 2


def test_nobody_is_banned_without_a_name(bans):
    assert bans.add("", WHY, 100.0) == 0
    assert not bans
