import pytest

from partyctl_broker.backlog import QUEUE_BYTES, QUEUE_STEP, Backlog

SIZE = QUEUE_STEP // 4
LIVING = {b"a", b"b"}


class Kernel:
    """Tells how much is unread, and counts how often it was asked."""

    def __init__(self):
        self.unread, self.asked = 1, 0

    def __call__(self, descriptor):
        self.asked += 1
        return self.unread


@pytest.fixture
def kernel():
    return Kernel()


@pytest.fixture
def backlog(kernel):
    return Backlog(LIVING, kernel)


def taken(backlog, target=b"a", size=SIZE, most=100):
    """How many letters fit before one does not."""
    return next((number for number in range(most) if not backlog.fits(target, 7, size)), most)


def test_who_does_not_read_gets_so_many_bytes_and_no_more(backlog):
    assert taken(backlog) == QUEUE_BYTES // SIZE
    assert taken(backlog, b"b") == QUEUE_BYTES // SIZE


def test_who_reads_gets_all(backlog, kernel):
    kernel.unread = 0
    assert taken(backlog) == 100


def test_the_kernel_is_asked_once_in_a_while(backlog, kernel):
    kernel.unread = 0
    taken(backlog)
    assert 0 < kernel.asked < 50


def test_one_letter_always_fits_however_large(backlog):
    assert backlog.fits(b"a", 7, 2 * QUEUE_BYTES)
    assert not backlog.fits(b"a", 7, 1)


def test_who_read_all_at_last_gets_more(backlog, kernel):
    taken(backlog)
    kernel.unread = 0
    assert backlog.fits(b"a", 7, QUEUE_STEP)
    kernel.unread = 1
    assert taken(backlog) > 0


def test_what_cannot_be_looked_at_is_not_held_up(backlog):
    taken(backlog)
    assert backlog.fits(b"a", None, QUEUE_BYTES)


def test_those_that_are_over_are_forgotten(kernel):
    living = {b"a"}
    backlog = Backlog(living, kernel)
    taken(backlog)
    living.clear()
    assert backlog.fits(b"b", 7, SIZE)
    living.add(b"a")  # another one, of the same name
    assert backlog.fits(b"a", 7, SIZE)
