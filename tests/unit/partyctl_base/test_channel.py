import os
import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partyctl_base.channel import MOVED, RECORD_MAX, Assembler, Channel, ChannelClosed, ChannelFault, Received, records


@given(st.lists(st.integers(0, 4 * RECORD_MAX).map(lambda size: os.urandom(8) * (size // 8)), max_size=4))
def test_messages_of_any_size_come_out_as_they_went_in(messages: list[bytes]) -> None:
    assembler = Assembler(max_message=8 * RECORD_MAX)
    out = [whole.data for message in messages for record in records(message) if (whole := assembler.feed(record, ()))]
    assert out == messages


def test_no_record_is_larger_than_the_limit() -> None:
    assert max(len(record) for record in records(bytes(10 * RECORD_MAX))) == RECORD_MAX


def test_an_unknown_flag_is_a_fault() -> None:
    with pytest.raises(ChannelFault, match="unknown flag"):
        Assembler(100).feed(b"\x07rest", ())


def test_a_channel_moves_and_what_was_begun_at_the_old_one_is_forgotten() -> None:
    reading, writing = os.pipe()
    assembler = Assembler(8 * RECORD_MAX)
    assert assembler.feed(b"\x01" + b"x" * (RECORD_MAX - 1), (reading,)) is None
    assert assembler.feed(MOVED, (writing,)) == Received(b"", (writing,), moved=True)
    assert assembler.feed(b"\x00new", ()) == Received(b"new")
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(reading)
    os.close(writing)


@pytest.mark.parametrize(("record", "fds"), [(MOVED, ()), (MOVED, (7, 8)), (MOVED + b"x", (7,))])
def test_a_channel_that_moves_nowhere_or_to_several_places_is_a_fault(record: bytes, fds: tuple[int, ...]) -> None:
    with pytest.raises(ChannelFault, match="unknown flag"):
        Assembler(100).feed(record, fds)


def test_a_message_over_the_ceiling_is_a_fault_at_the_receiver() -> None:
    assembler = Assembler(max_message=RECORD_MAX)
    assembler.feed(b"\x01" + b"x" * (RECORD_MAX - 1), ())
    with pytest.raises(ChannelFault, match=f"more than {RECORD_MAX} bytes"):
        assembler.feed(b"\x00" + b"x" * 6, ())


@pytest.mark.parametrize("size", [0, 1, RECORD_MAX - 2])
def test_a_piece_of_a_longer_message_that_is_not_full_is_a_fault(size: int) -> None:
    with pytest.raises(ChannelFault, match="not full"):
        Assembler(max_message=RECORD_MAX).feed(b"\x01" + b"x" * size, ())


def test_descriptors_in_mid_message_are_a_fault_and_those_at_its_head_can_be_taken_back() -> None:
    assembler = Assembler(max_message=4 * RECORD_MAX)
    assembler.feed(b"\x01" + b"x" * (RECORD_MAX - 1), (8, 9))
    with pytest.raises(ChannelFault, match="descriptors"):
        assembler.feed(b"\x00rest", (10,))
    assert assembler.abandon() == (8, 9)
    assert assembler.abandon() == ()


def test_a_message_over_the_ceiling_is_refused_by_the_sender_before_anything_is_sent() -> None:
    left, right = Channel.pair()
    small = Channel(socket.socket(fileno=left.detach()), max_message=10)
    with pytest.raises(ChannelFault, match="11 bytes"):
        small.send(b"x" * 11)
    assert right.receive_ready() == []
    small.close()
    right.close()


def test_a_large_message_crosses_while_the_other_end_reads() -> None:
    left, right = Channel.pair()
    data = os.urandom(3_000_000)
    sender = threading.Thread(target=left.send, args=(data,))
    sender.start()
    received = right.receive(timeout=10)
    sender.join()
    assert received is not None
    assert received.data == data
    left.close()
    right.close()


def test_descriptors_ride_on_a_message_and_are_not_inherited() -> None:
    left, right = Channel.pair()
    reading, writing = os.pipe()
    left.send(b"here", [writing])
    os.close(writing)
    received = right.receive(timeout=5)
    assert received is not None
    (fd,) = received.fds
    assert not os.get_inheritable(fd)
    os.write(fd, b"through")
    os.close(fd)
    assert os.read(reading, 100) == b"through"
    os.close(reading)
    left.close()
    right.close()


def test_what_was_sent_before_a_close_is_read_before_the_end_of_file() -> None:
    left, right = Channel.pair()
    left.send(b"last word")
    left.close()
    received = right.receive(timeout=5)
    assert received is not None
    assert received.data == b"last word"
    assert right.receive(timeout=5) is None
    assert right.receive_ready() is None
    right.close()


def test_the_last_words_of_a_peer_are_read_though_it_left_something_unread() -> None:
    left, right = Channel.pair()
    left.send(b"the last words")
    right.send(b"what nobody reads")
    left.close()  # the kernel now says ECONNRESET to the other end, once, before anything else
    received = right.receive(timeout=1)
    assert received is not None
    assert received.data == b"the last words"
    assert right.receive(timeout=1) is None
    with pytest.raises(ChannelClosed):
        right.send(b"more")
    right.close()


def test_an_end_that_hangs_up_is_gone_though_another_process_has_a_copy_of_it() -> None:
    ours, theirs = Channel.pair()
    copy = os.dup(ours.fileno())
    ours.send(b"last")
    ours.hang_up()
    ours.hang_up()
    assert [theirs.receive(timeout=5), theirs.receive(timeout=5)] == [Received(b"last"), None]
    os.close(copy)
    theirs.close()


def test_sending_to_a_closed_end_says_so() -> None:
    left, right = Channel.pair()
    right.close()
    with pytest.raises(ChannelClosed):
        left.send(b"anyone?")
    left.close()


def test_a_receiver_that_never_reads_ends_the_send_at_its_limit() -> None:
    left, right = Channel.pair()

    def fill() -> None:
        for _ in range(10_000):
            left.send(bytes(1000), timeout=0.01)

    with pytest.raises(TimeoutError):
        fill()
    left.close()
    right.close()


def test_an_empty_message_is_not_an_end_of_file() -> None:
    left, right = Channel.pair()
    left.send(b"")
    received = right.receive(timeout=5)
    assert received is not None
    assert received.data == b""
    left.close()
    right.close()
