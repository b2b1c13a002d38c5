from hypothesis import given
from hypothesis import strategies as st

from partyctl_broker.outbox import BYTES_MAX, LETTERS_MAX, MESSAGE_BYTES, TOGETHER, Outbox


class Wire:
    """Takes messages while it has room."""

    def __init__(self, room):
        self.room = room
        self.messages = []

    def send(self, frames):
        if self.room == 0:
            return False
        self.room -= 1
        self.messages.append(list(frames))
        return True


@given(st.lists(st.integers(0, 2 * MESSAGE_BYTES), max_size=300), st.lists(st.integers(0, 3), max_size=5))
def test_everything_leaves_once_in_order_and_within_the_bounds_of_a_message(sizes, rooms):
    outbox, sent = Outbox(), []
    pairs = [(b"%d" % number, bytes(size)) for number, size in enumerate(sizes)]
    for pair in pairs:
        outbox.push(*pair)
    for room in [*rooms, len(pairs)]:
        wire = Wire(room)
        outbox.drain(wire.send)
        sent += wire.messages
    assert [pair for frames in sent for pair in zip(frames[::2], frames[1::2], strict=True)] == pairs
    for frames in sent:
        assert 2 <= len(frames) <= 2 * TOGETHER
        assert len(frames) == 2 or sum(map(len, frames[1::2])) <= MESSAGE_BYTES
    assert (len(outbox), outbox.size) == (0, 0)


def test_what_is_small_travels_together():
    outbox, wire = Outbox(), Wire(9)
    for _ in range(TOGETHER + 1):
        outbox.push(b"frame", b"envelope")
    outbox.drain(wire.send)
    assert [len(frames) // 2 for frames in wire.messages] == [TOGETHER, 1]


def test_it_is_full_by_number():
    outbox = Outbox()
    for _ in range(LETTERS_MAX):
        assert not outbox.is_full
        outbox.push(b"", b"")
    assert outbox.is_full


def test_it_is_full_by_bytes():
    outbox = Outbox()
    envelope = bytes(BYTES_MAX // 4)
    for _ in range(4):
        assert not outbox.is_full
        outbox.push(b"", envelope)
    assert outbox.is_full
    outbox.clear()
    assert not outbox.is_full
