import pytest

from partyctl_broker.errors import MemoryExceeded
from partyctl_broker.guard import GROWTH, IDLE_LOOKS, INNOCENT, LOOKS, STEP, Guard, Search
from partyctl_broker.wire import FRAME_MAX

MUCH = 10 * FRAME_MAX


class Connections:
    """Connections 1 to 5, which say what they are told to."""

    def __init__(self):
        self.unread, self.told, self.ended = set(), set(), []
        self.memory, self.listened, self.letters = 100, True, 0

    def has_read(self):
        return self.listened

    def descriptors(self):
        return range(1, 6)

    def heard(self):
        told, self.told = self.told, set()
        return told

    def passed(self):
        return self.letters, 0

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
    connections.unread = {2, 3}
    for _ in range(LOOKS):
        connections.memory += MUCH
        assert connections.ended == []
        guard.look()
        connections.told = {3}
    assert connections.ended == [2]


def test_nobody_is_guilty_of_silence_while_nobody_listens(guard, connections):
    connections.unread, connections.listened = {2}, False
    for _ in range(9):
        connections.memory += MUCH
        guard.look()
    assert connections.ended == []


def test_little_growth_interests_nobody(guard, connections):
    connections.memory += GROWTH
    connections.unread = {2}
    for _ in range(5):
        guard.look()
    assert connections.ended == []


def test_growth_that_frames_of_a_lawful_size_explain_is_no_proof(guard, connections):
    connections.memory += MUCH
    connections.unread = {2}
    guard.look()  # what was there before is not its doing
    connections.memory += 2 * FRAME_MAX
    for _ in range(5):
        guard.look()
    assert connections.ended == []
    connections.memory += 1
    guard.look()
    assert connections.ended == [2]


def test_growth_by_nobodys_fault_is_granted_once(guard, connections):
    connections.memory += MUCH
    for _ in range(IDLE_LOOKS):
        guard.look()
        assert guard.is_alert
    connections.unread = {1}
    guard.look()
    assert not guard.is_alert
    connections.memory += GROWTH
    for _ in range(5):
        guard.look()
    assert not guard.is_alert
    assert connections.ended == []


def test_the_next_look_comes_soon_while_the_memory_grows(guard, connections):
    guard.look()
    assert not guard.is_alert
    connections.memory += STEP + 1
    guard.look()
    assert guard.is_alert
    guard.look()
    assert not guard.is_alert


def test_a_suspect_that_is_silent_for_a_look_stays_one_and_one_that_is_heard_does_not():
    search = Search()
    assert search.look(0, {1, 2}, set()) is None
    assert search.look(MUCH, set(), {2}) is None
    for _ in range(LOOKS - 2):
        assert search.look(MUCH, {1}, set()) is None
    assert search.look(MUCH, {1}, set()) == 1
    assert search.look(MUCH, {1}, {1}) is None
    assert [search.look(MUCH, set(), {1}) for _ in range(IDLE_LOOKS)] == [None] * (IDLE_LOOKS - 1) + [INNOCENT]


def test_the_one_with_the_most_looks_goes_first():
    search = Search()
    for _ in range(LOOKS - 1):
        assert search.look(0, {1}, set()) is None
    assert search.look(MUCH, {1, 2}, set()) == 1


def test_the_memory_that_another_ones_end_gave_back_is_not_counted_against_those_who_stay():
    search = Search()
    assert search.look(MUCH, {1}, set()) is None
    for growth in (0, FRAME_MAX, 2 * FRAME_MAX):
        assert search.look(growth, {1}, set()) is None
    assert search.look(2 * FRAME_MAX + 1, {1}, set()) == 1


def test_growth_that_letters_on_their_way_explain_is_nobodys_fault():
    search = Search()
    growth = [number * FRAME_MAX for number in range(12)]
    assert [search.look(one, {1}, set(), passed=FRAME_MAX // 2) for one in growth] == [None] * 12
    assert search.look(growth[-1] + 2 * FRAME_MAX + 1, {1}, set()) == 1


def test_letters_explain_no_more_than_twice_their_size(guard, connections):
    connections.unread, connections.letters = {2}, FRAME_MAX
    for _ in range(LOOKS):
        connections.memory += MUCH
        guard.look()
    assert connections.ended == [2]


def test_who_sends_huge_letters_may_have_some_that_are_not_read_yet():
    search = Search()
    for _ in range(LOOKS):
        assert search.look(0, {1}, set(), senders=3) is None
    assert search.look(8 * FRAME_MAX, {1}, set(), senders=3) is None
    assert search.look(8 * FRAME_MAX + 1, {1}, set(), senders=3) == 1
