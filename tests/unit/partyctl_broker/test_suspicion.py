import socket

import pytest
from fakes.broker_parts import FakeLookout

from partyctl_broker.large import HUGE, LargeLetters
from partyctl_broker.sockets import hung_up
from partyctl_broker.suspicion import Suspicion


class Shell:
    """What the loop does while the guard looks on; a connection has the descriptor of its number."""

    def __init__(self):
        self.lookout, self.reading, self.large = FakeLookout(), {}, LargeLetters()
        self.suspicion = Suspicion(self.lookout, self.reading, self.large)
        for number in (7, 8, 9):
            self.lookout.liveness.met(b"%d" % number, number)


@pytest.fixture
def shell():
    return Shell()


def test_heard_are_those_of_the_turns_before_of_the_present_one_and_the_new_ones_each_once(shell):
    shell.suspicion.seen.add(b"7")
    shell.reading[b"8"] = 10
    shell.lookout.fresh.add(20)
    assert shell.suspicion.heard() == {7, 8, 20}
    shell.reading.clear()
    assert shell.suspicion.heard() == set()


def test_one_without_a_descriptor_is_left_out(shell):
    shell.suspicion.seen.add(b"unmet")
    assert shell.suspicion.heard() == set()


def test_everybody_was_listened_to_if_a_round_ended_since_it_was_asked(shell):
    assert not shell.suspicion.has_read()
    shell.suspicion.rounds += 1
    assert shell.suspicion.has_read()
    assert not shell.suspicion.has_read()


def test_large_letters_are_told_since_the_last_time_and_their_senders_as_long_as_they_count(shell):
    shell.large.note(b"7", HUGE + 1)
    assert shell.suspicion.passed() == (HUGE + 1, 1)
    assert shell.suspicion.passed() == (0, 1)


def test_who_is_cut_off_is_over_and_named_for_the_loop(shell):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        shell.lookout.liveness.met(b"guilty", ours.fileno())
        shell.suspicion.cut(ours.fileno())
        assert hung_up(theirs.fileno())
    ((connection, process),) = shell.suspicion.guilty
    assert connection == b"guilty"
    assert process.startswith("process ")
