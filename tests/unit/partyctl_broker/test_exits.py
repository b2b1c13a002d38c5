"""Who is shown out, by a real table, with connections and queues on paper."""

from collections import Counter

import pytest
from fakes.broker_parts import FakeLookout, FakeSending

from partyctl_broker import wire
from partyctl_broker import words as words_module
from partyctl_broker.auth import Principal
from partyctl_broker.commands import Commands
from partyctl_broker.control import Bye, Hello
from partyctl_broker.exits import DEAF, OFFENDS, Exits
from partyctl_broker.offences import OFFENCES_MAX, Offences
from partyctl_broker.router import Table
from partyctl_broker.shares import Shares
from partyctl_broker.steps import Admit, Arrived
from partyctl_broker.wire import Kind

SECRET = b"s" * 32


class Shell:
    """All that the exits touch; `p` has said HELLO on connection a."""

    def __init__(self):
        self.table, self.sending, self.lookout = Table(), FakeSending(), FakeLookout()
        self.offences, self.counts = Offences(), Counter()
        commands = Commands(self.table, self.sending, self.lookout, self.offences, Shares(), self.counts)
        self.exits = Exits(self.table, commands, self.sending.words, self.lookout, self.offences, self.counts)
        commands.step(Admit(Principal("p", SECRET, ("run/*",))))
        hello = wire.seal(Kind.HELLO, 9, 0, Hello("p", SECRET, b"life", ("run/a",)).encode())
        commands.step(Arrived(b"a", wire.TO_BROKER, hello))
        self.sending.sent.clear()


@pytest.fixture
def shell():
    return Shell()


def test_an_offender_loses_its_addresses_and_hears_why_and_for_how_long(shell):
    shell.offences.note(b"a", OFFENCES_MAX + 1)
    shell.exits.judge(100.0)
    ((target, (frame, envelope)),) = shell.sending.sent
    assert (target, frame) == (b"a", wire.TO_BROKER)
    assert Bye.decode(wire.unseal(envelope).payload).why == f"the broker lets p in again in 1 s: {OFFENDS}"
    assert shell.table.holder("run/a") is None
    assert shell.lookout.ended == [(b"a", False)]
    assert shell.lookout.told == [("p", OFFENDS)]
    assert shell.counts == {f"shown out: {OFFENDS}": 1}
    shell.exits.judge(100.0)
    assert len(shell.lookout.ended) == 1


def test_one_that_does_not_read_ends_all_the_same_and_nothing_waits_for_it(shell):
    shell.sending.answers[b"a"] = "full"
    shell.offences.note(b"a", OFFENCES_MAX + 1)
    shell.exits.judge(100.0)
    assert shell.lookout.ended == [(b"a", False)]
    assert not shell.sending.words.waiting


def test_a_stranger_is_told_nothing_and_ends_at_once(shell):
    shell.exits.expel(b"b", 7, "p")
    assert shell.sending.sent == []
    assert shell.lookout.ended == [(b"b", True)]
    assert shell.lookout.told == [("p", OFFENDS)]
    assert shell.table.holder("run/a") == b"a"


def test_one_that_offends_and_is_a_stranger_by_now_is_left_alone(shell):
    shell.offences.note(b"b", OFFENCES_MAX + 1)
    shell.exits.judge(100.0)
    assert shell.lookout.ended == []


def test_who_lets_words_wait_is_shown_out_and_may_come_back(shell, monkeypatch):
    monkeypatch.setattr(words_module, "WORDS_MAX", 1)
    shell.sending.answers[b"a"] = "full"
    for _ in range(2):
        shell.sending.words.say(b"a", b"f", b"e")
    shell.exits.show_out_deaf(100.0)
    assert shell.table.holder("run/a") is None
    assert shell.lookout.ended == [(b"a", False)]
    assert shell.lookout.told == []
    assert shell.counts == {f"shown out: {DEAF}": 1}
    assert not shell.sending.words.deaf
