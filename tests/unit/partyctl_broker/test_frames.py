from collections import Counter

import pytest
import zmq

from partyctl_broker import wire
from partyctl_broker.frames import HEADER_MAX, head, read_rest, whole
from partyctl_broker.wire import Kind

LETTER = wire.seal(Kind.DATA, 5, 6, b"x" * HEADER_MAX, stream=7, trace=b"t" * 1024)


@pytest.mark.parametrize("form", [bytes, zmq.Frame])
def test_an_envelope_that_was_not_copied_is_read_like_one_that_was(form):
    assert whole(form(LETTER)) == LETTER
    assert wire.unseal(head(form(LETTER)))[:5] == wire.unseal(LETTER)[:5]
    assert len(head(form(LETTER))) == HEADER_MAX


def test_the_head_of_a_small_one_is_all_of_it():
    assert head(b"small") == head(zmq.Frame(b"small")) == b"small"


class Message:
    """A socket in the midst of a message."""

    def __init__(self, *frames):
        self.left = list(frames)

    def getsockopt(self, option):
        assert option == zmq.RCVMORE
        return bool(self.left)

    def recv(self, flags):
        return self.left.pop(0)


@pytest.mark.parametrize("pairs", [1, 2, wire.PAIRS_MAX])
def test_a_message_is_read_to_its_end(pairs):
    counts = Counter()
    frames = [bytes([number]) for number in range(2 * pairs)]
    assert read_rest(Message(*frames[1:]), frames[:1], counts) == frames
    assert not counts


@pytest.mark.parametrize(
    ("frames", "reason"),
    [(1, "malformed"), (3, "malformed"), (2 * wire.PAIRS_MAX + 1, "oversized"), (1000, "oversized")],
)
def test_one_without_form_is_read_to_its_end_too_and_counted(frames, reason):
    counts, message = Counter(), Message(*[b"x"] * (frames - 1))
    assert read_rest(message, [b"x"], counts) is None
    assert message.left == []
    assert counts == {reason: 1}
