import pytest

from partyctl_broker.offences import FORGIVEN, GRAVE, OFFENCES_MAX, REFUSED_MAX, Offences
from partyctl_broker.stream import PAUSE_FIRST, WINDOW_BYTES


@pytest.fixture
def offences():
    """Nothing is held against anybody."""
    return Offences()


def test_who_does_too_much_in_a_second_is_named_and_nobody_else(offences):
    for _ in range(OFFENCES_MAX // GRAVE):
        offences.note(b"a", GRAVE)
        offences.note(b"b", 1)
    assert offences.judge(100.5) == []
    offences.note(b"a", 1)
    assert offences.is_over(b"a")
    assert offences.judge(100.5) == [b"a"]


def test_what_is_a_second_old_is_forgiven(offences):
    offences.note(b"a", OFFENCES_MAX)
    assert offences.judge(100.0) == []
    assert offences.judge(100.0 + FORGIVEN) == []
    assert not offences
    offences.note(b"a", 1)
    assert offences.judge(100.1 + FORGIVEN) == []
    assert offences


def test_who_is_over_is_named_no_more(offences):
    offences.note(b"a", OFFENCES_MAX + 1)
    offences.drop(b"a")
    assert offences.judge(100.5) == []


def test_a_road_that_is_refused_more_than_a_peer_of_ours_would_write_is_too_much(offences):
    offences.refuse(b"a", b"road", REFUSED_MAX)
    offences.refuse(b"a", b"another", REFUSED_MAX)
    assert offences
    assert not offences.is_over(b"a")
    offences.refuse(b"a", b"road", 1)
    assert offences.judge(100.5) == [b"a"]


def test_a_peer_of_ours_that_finds_its_road_full_all_the_time_does_not_reach_that():
    pause, waited, refused = PAUSE_FIRST, 0.0, 0
    while waited < FORGIVEN:
        refused += WINDOW_BYTES
        waited += pause
        pause *= 2
    assert refused < REFUSED_MAX / 2
