import os

import pytest

from partyctl_base.channel import Channel, ChannelClosed
from partyctl_confinement.outbox import Outbox


@pytest.fixture
def ends():
    near, far = Channel.pair()
    yield near, far
    near.close()
    far.close()


def _fill(outbox: Outbox, size: int = 1000) -> int:
    kept = 0
    while outbox.put(kept.to_bytes(4, "big") + b"x" * size):
        kept += 1
    return kept


def test_a_message_goes_at_once_if_there_is_room(ends) -> None:
    outbox = Outbox(ends[0])
    assert outbox.put(b"hello")
    assert not outbox.waiting
    assert ends[1].receive(timeout=1).data == b"hello"


def test_what_a_deaf_peer_is_sent_is_bounded_in_records(ends) -> None:
    outbox = Outbox(ends[0], max_records=10)
    kept = _fill(outbox)
    assert outbox.waiting
    for number in range(kept):
        outbox.flush()
        assert ends[1].receive(timeout=1).data[:4] == number.to_bytes(4, "big")
    assert not outbox.waiting


def test_what_a_deaf_peer_is_sent_is_bounded_in_bytes(ends) -> None:
    outbox = Outbox(ends[0], max_bytes=100_000)
    _fill(outbox, 50_000)
    assert not outbox.put(b"x" * 60_000)
    assert outbox.put(b"small")


def test_a_message_of_several_records_is_kept_whole_or_not_at_all(ends) -> None:
    outbox = Outbox(ends[0], max_records=3)
    assert not outbox.put(b"x" * 300_000)
    assert outbox.put(b"after")
    assert ends[1].receive(timeout=1).data == b"after"


def test_descriptors_ride_along_and_are_closed_here(ends) -> None:
    reading, writing = os.pipe()
    outbox = Outbox(ends[0])
    assert outbox.put(b"take", (writing,))
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(writing)
    (far_writing,) = ends[1].receive(timeout=1).fds
    os.write(far_writing, b"it works")
    assert os.read(reading, 100) == b"it works"
    os.close(far_writing)
    os.close(reading)


@pytest.mark.parametrize("way", ["refused", "closed"])
def test_descriptors_that_are_not_sent_are_closed(ends, way) -> None:
    outbox = Outbox(ends[0], max_records=4)
    while not outbox.waiting:
        outbox.put(b"x" * 60_000)
    if way == "refused":
        _fill(outbox)
    reading, writing = os.pipe()
    assert outbox.put(b"take", (writing,)) == (way == "closed")
    outbox.close()
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_a_peer_that_is_gone_is_an_error(ends) -> None:
    ends[1].close()
    with pytest.raises(ChannelClosed):
        Outbox(ends[0]).put(b"hello")
