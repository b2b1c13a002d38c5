import pytest

from partyctl_broker.rivals import LOOK_EVERY, NOTICE, is_living


class Connection:
    """One of which ZeroMQ notices the end after so many looks, or never. Its clock goes on when somebody sleeps."""

    def __init__(self, hung_up=False, notices_after=None):
        self.now, self.looks = 0.0, 0
        self._hung_up, self._notices_after = hung_up, notices_after

    def is_reachable(self):
        self.looks += 1
        return self._notices_after is None or self.looks <= self._notices_after

    def sleep(self, seconds):
        self.now += seconds

    def is_living(self):
        return is_living(self.is_reachable, lambda: self._hung_up, clock=lambda: self.now, sleep=self.sleep)


def test_who_has_not_hung_up_lives_and_nobody_waits():
    connection = Connection()
    assert connection.is_living()
    assert connection.now == 0.0


def test_whom_zeromq_does_not_know_is_dead_at_once():
    connection = Connection(notices_after=0)
    assert not connection.is_living()
    assert connection.now == 0.0


def test_zeromq_is_given_a_moment_to_notice():
    connection = Connection(hung_up=True, notices_after=5)
    assert not connection.is_living()
    assert connection.now == pytest.approx(5 * LOOK_EVERY)


def test_but_no_more_than_a_moment():
    connection = Connection(hung_up=True)
    assert connection.is_living()
    assert connection.now == pytest.approx(NOTICE, rel=0.05)
