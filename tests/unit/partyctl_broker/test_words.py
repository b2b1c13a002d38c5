import pytest

from partyctl_broker import words as words_module
from partyctl_broker.words import TOGETHER, Words


class Queues:
    """Peers whose queues take what they are told to."""

    def __init__(self):
        self.sent, self.answers = [], {}

    def __call__(self, target, frames):
        answer = self.answers.get(target, "")
        if not answer:
            self.sent.append((target, b" ".join(frames)))
        return answer


@pytest.fixture
def queues():
    return Queues()


@pytest.fixture
def words(queues):
    return Words(queues)


def test_what_is_said_in_a_row_leaves_in_one_message(words, queues):
    for number in (b"1", b"2"):
        words.say(b"a", b"f", number)
    words.say(b"b", b"f", b"3")
    words.send()
    assert sorted(queues.sent) == [(b"a", b"f 1 f 2"), (b"b", b"f 3")]
    assert not words.waiting


def test_a_message_has_a_bound(words, queues):
    for _ in range(TOGETHER + 1):
        words.say(b"a", b"f", b"e")
    words.send()
    assert [len(message.split()) for _, message in queues.sent] == [2 * TOGETHER, 2]


def test_what_finds_a_full_queue_waits_in_order_and_is_not_tried_before_its_turn(words, queues):
    queues.answers = {b"a": "full"}
    words.say(b"a", b"f", b"1")
    words.send()
    words.say(b"a", b"f", b"2")
    queues.answers = {}
    words.send()
    assert queues.sent == []
    assert b"a" in words.waiting
    words.retry()
    assert queues.sent == [(b"a", b"f 1 f 2")]
    assert not words.waiting


def test_who_is_gone_is_told_no_more(words, queues):
    queues.answers = {b"a": "gone"}
    for _ in range(3 * TOGETHER):
        words.say(b"a", b"f", b"e")
    words.send()
    assert not words.waiting


def test_who_lets_too_much_wait_is_named_once(words, queues, monkeypatch):
    monkeypatch.setattr(words_module, "WORDS_MAX", 2)
    queues.answers = {b"a": "full"}
    for _ in range(4):
        words.say(b"a", b"f", b"e")
        words.send()
    assert words.deaf == [b"a"]
    assert len(words.waiting[b"a"]) == 4
    words.drop(b"a")
    words.send()
    words.retry()
    assert queues.sent == []
