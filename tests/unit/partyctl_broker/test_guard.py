import pytest

from partyctl_broker.errors import MemoryExceeded
from partyctl_broker.guard import GROWTH, INNOCENT, LOOKS, Guard, Search
from partyctl_broker.wire import FRAME_MAX

MUCH = GROWTH + 10 * FRAME_MAX


class Connections:
    """Connections 1 to 5, which say what they are told to."""

    def __init__(self):
        self.unread, self.told, self.ended = set(), set(), []
        self.memory, self.listened = 100, True

    def has_read(self):
        return self.listened

    def descriptors(self):
        return range(1, 6)

    def heard(self):
        told, self.told = self.told, set()
        return told

    def cut(self, descriptor):
        self.ended.append(descriptor)


@pytest.fixture
def connections():
    return Connections()


@pytest.fixture
def guard(connections):
    return Guard(
        1 << 30,
        connections,
        resident=lambda: connections.memory,
        unread=lambda descriptors: connections.unread & set(descriptors),
    )


def test_over_the_limit_it_raises_and_says_how_much(guard, connections):
    connections.memory = 1 << 30
    guard.look()
    connections.memory += 1
    with pytest.raises(MemoryExceeded, match="1024 MiB"):
        guard.look()


def test_who_sends_and_never_finishes_is_cut_off(guard, connections):
    connections.memory += MUCH
    connections.unread = {2, 3}
    for _ in range(LOOKS):
        assert connections.ended == []
        guard.look()
        connections.told = {3}
    assert connections.ended == [2]


def test_nobody_is_guilty_of_silence_while_nobody_listens(guard, connections):
    connections.memory += MUCH
    connections.unread, connections.listened = {2}, False
    for _ in range(9):
        guard.look()
    assert connections.ended == []


def test_little_growth_interests_nobody(guard, connections):
    connections.memory += GROWTH
    connections.unread = {2}
    for _ in range(5):
        guard.look()
    assert connections.ended == []


def test_growth_that_frames_of_a_lawful_size_explain_is_no_proof(guard, connections):
    connections.memory += GROWTH + FRAME_MAX
    connections.unread = {2}
    for _ in range(5):
        guard.look()
    assert connections.ended == []
    connections.memory += 1
    guard.look()
    assert connections.ended == [2]


def test_growth_by_nobodys_fault_is_granted_once(guard, connections):
    connections.memory += MUCH
    for _ in range(LOOKS):
        guard.look()
    connections.unread = {1}
    for _ in range(5):
        guard.look()
    connections.memory += GROWTH
    guard.look()
    assert connections.ended == []


def test_a_suspect_that_is_silent_for_a_look_stays_one_and_one_that_is_heard_does_not():
    search = Search()
    assert search.look(MUCH, {1, 2}, set()) is None
    assert search.look(MUCH, set(), {2}) is None
    assert search.look(MUCH, {1}, set()) is None
    assert search.look(MUCH, {1}, set()) == 1
    assert search.look(MUCH, {1}, {1}) is None
    assert [search.look(MUCH, set(), {1}) for _ in range(LOOKS)] == [None] * (LOOKS - 1) + [INNOCENT]


def test_the_one_with_the_most_looks_goes_first():
    search = Search()
    for _ in range(LOOKS - 1):
        assert search.look(MUCH, {1}, set()) is None
    assert search.look(MUCH, {1, 2}, set()) == 1
