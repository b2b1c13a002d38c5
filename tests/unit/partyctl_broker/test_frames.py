import pytest
import zmq

from partyctl_broker import wire
from partyctl_broker.frames import HEADER_MAX, head, whole
from partyctl_broker.wire import Kind

LETTER = wire.seal(Kind.DATA, 5, 6, b"x" * HEADER_MAX, stream=7, trace=b"t" * 1024)


@pytest.mark.parametrize("form", [bytes, zmq.Frame])
def test_an_envelope_that_was_not_copied_is_read_like_one_that_was(form):
    assert whole(form(LETTER)) == LETTER
    assert wire.unseal(head(form(LETTER)))[:5] == wire.unseal(LETTER)[:5]
    assert len(head(form(LETTER))) == HEADER_MAX


def test_the_head_of_a_small_one_is_all_of_it():
    assert head(b"small") == head(zmq.Frame(b"small")) == b"small"
