"""What the shell does with the table's commands, with a real table and queues on paper."""

from collections import Counter

import pytest
from fakes.broker_parts import FakeLookout, FakeSending

from partyctl_broker import wire
from partyctl_broker.auth import Principal
from partyctl_broker.commands import Commands
from partyctl_broker.control import Hello, Nack
from partyctl_broker.offences import OFFENCES_MAX, Offences
from partyctl_broker.router import Table
from partyctl_broker.shares import Shares
from partyctl_broker.steps import Admit, Arrived
from partyctl_broker.wire import Kind

SECRET = b"s" * 32
LETTER = wire.seal(Kind.DATA, 5, 0, b"payload", stream=77)


class Shell:
    """All that commands touch."""

    def __init__(self):
        self.table, self.sending, self.lookout = Table(), FakeSending(), FakeLookout()
        self.offences, self.shares, self.counts = Offences(), Shares(), Counter()
        self.commands = Commands(self.table, self.sending, self.lookout, self.offences, self.shares, self.counts)
        self.commands.step(Admit(Principal("p", SECRET, ("run/*",))))

    def hello(self, connection, *claims):
        envelope = wire.seal(Kind.HELLO, 9, 0, Hello("p", SECRET, connection * 4, claims).encode())
        self.commands.step(Arrived(connection, wire.TO_BROKER, envelope))

    def letter(self, connection, source, destination):
        self.commands.step(Arrived(connection, wire.road(destination, source), LETTER))

    def kinds(self, target):
        """The kinds of what was sent to a connection."""
        return [
            Kind(wire.unseal(envelope).kind)
            for to, frames in self.sending.sent
            if to == target
            for envelope in frames[1::2]
        ]


@pytest.fixture
def shell():
    made = Shell()
    made.hello(b"1", "run/a")
    made.hello(b"2", "run/b")
    return made


def test_a_letter_that_goes_on_is_counted_and_it_is_noted_who_wrote_to_whom(shell):
    shell.letter(b"1", "run/a", "run/b")
    assert shell.kinds(b"2") == [Kind.WELCOME, Kind.DATA]
    assert shell.commands.forwarded == 1
    assert shell.shares.wrote == {b"1": {b"2"}}


def test_one_that_finds_a_full_queue_comes_back_to_its_sender(shell):
    shell.sending.answers[b"2"] = "full"
    shell.letter(b"1", "run/a", "run/b")
    _, (_, nack) = shell.sending.sent[-1]
    assert Nack.decode(wire.unseal(nack).payload).code == "full"
    assert shell.commands.forwarded == 0
    assert shell.counts["letter refused: full"] == 1


def test_an_offence_is_held_against_whom_it_came_from(shell):
    for _ in range(OFFENCES_MAX // 100 + 1):
        shell.letter(b"1", "run/b", "run/a")
    assert shell.offences.is_over(b"1")
    assert not shell.offences.is_over(b"2")


def test_words_wait_as_long_as_more_may_be_said(shell):
    shell.sending.sent.clear()
    shell.commands.keeps_words = True
    for _ in range(2):
        shell.letter(b"1", "run/a", "run/nobody")
    assert shell.sending.sent == []
    shell.sending.words.send()
    assert shell.kinds(b"1") == [Kind.NACK, Kind.NACK]
    assert len(shell.sending.sent) == 1


def test_a_claimant_in_whose_way_is_a_dead_one_gets_the_address(shell):
    shell.sending.answers[b"1"] = "gone"
    shell.hello(b"3", "run/a")
    assert shell.lookout.looks == 1
    assert shell.table.holder("run/a") == b"3"


def test_one_in_whose_way_is_a_living_one_does_not(shell):
    shell.hello(b"3", "run/a")
    assert shell.table.holder("run/a") == b"1"


def test_who_is_buried_gives_up_its_addresses_and_is_forgotten(shell):
    shell.lookout.liveness.met(b"1", 7)
    shell.commands.bury(b"1")
    assert shell.table.holder("run/a") is None
    assert shell.lookout.liveness.descriptor(b"1") is None
