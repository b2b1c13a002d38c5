import os
import sys

import pytest

from partyctl_confinement.starting import START_MAX, STARTING_MAX, Starting


@pytest.fixture
def starting():
    made = Starting()
    yield made
    os.close(made.fileno())
    os.close(made.writing)


def _fill(starting, now=0.0):
    for pid in range(1, STARTING_MAX + 1):
        assert starting.has_room(now)
        starting.add(pid, now)
    assert not starting.has_room(now)


def test_a_worker_that_comes_to_its_main_makes_room(starting) -> None:
    _fill(starting)
    os.write(starting.writing, (3).to_bytes(4, sys.byteorder))
    assert starting.has_room(0.0)


def test_a_worker_that_dies_before_makes_room(starting) -> None:
    _fill(starting)
    starting.forget(3)
    starting.forget(3)
    assert starting.has_room(0.0)


def test_one_that_never_comes_is_not_waited_for_for_ever(starting) -> None:
    _fill(starting)
    assert not starting.has_room(START_MAX / 2)
    assert starting.has_room(START_MAX)


@pytest.mark.parametrize("data", [b"\xff" * 4000, b"xyz", (77).to_bytes(4, sys.byteorder)], ids=["flood", "torn", "77"])
def test_what_no_worker_of_ours_wrote_means_nothing(starting, data) -> None:
    _fill(starting)
    os.write(starting.writing, data)
    assert not starting.has_room(0.0)
