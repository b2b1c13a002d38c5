"""What leaves by a ROUTER, to a DEALER in the same process."""

from collections import Counter

import pytest
import zmq

from partyctl_broker.sending import Sending


@pytest.fixture
def sockets():
    with zmq.Context() as context:
        router, dealer = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
        router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        for socket in (router, dealer):
            socket.setsockopt(zmq.LINGER, 0)
            socket.setsockopt(zmq.RCVTIMEO, 5000)
            socket.setsockopt(zmq.SNDHWM, 1)
            socket.setsockopt(zmq.RCVHWM, 1)
        dealer.setsockopt(zmq.ROUTING_ID, b"peer")
        router.bind("inproc://broker")
        dealer.connect("inproc://broker")
        yield router, dealer
        router.close()
        dealer.close()


@pytest.fixture
def counts():
    return Counter()


@pytest.fixture
def sending(sockets, counts):
    router, dealer = sockets
    dealer.send(b"hello")
    router.recv_multipart()
    return Sending(router, counts)


def fill(sending):
    """Send letters until the queue is full; how many went."""
    return next(number for number in range(100) if sending.letter(b"peer", (b"f", b"%d" % number)) == "full")


def test_all_frames_of_a_message_arrive_or_none(sending, sockets):
    went = fill(sending)
    received = [sockets[1].recv_multipart() for _ in range(went)]
    assert received == [[b"f", b"%d" % number] for number in range(went)]
    with pytest.raises(zmq.Again):
        sockets[1].recv(zmq.NOBLOCK)


def test_who_is_not_there_is_gone_and_not_reachable(sending):
    assert sending.letter(b"nobody", (b"f", b"e")) == "gone"
    assert not sending.is_reachable(b"nobody")


def test_one_whose_queue_is_full_is_there_all_the_same(sending):
    fill(sending)
    assert sending.is_reachable(b"peer")


def test_no_letter_overtakes_a_word(sending, sockets):
    went = fill(sending)
    sending.words.say(b"peer", b"f", b"word")
    sending.words.send()
    for _ in range(went):
        sockets[1].recv_multipart()
    sockets[0].getsockopt(zmq.EVENTS)  # makes it notice that there is room
    assert sending.letter(b"peer", (b"f", b"letter")) == "full"
    sending.words.retry()
    assert sockets[1].recv_multipart() == [b"f", b"word"]
    sockets[0].getsockopt(zmq.EVENTS)
    assert sending.letter(b"peer", (b"f", b"letter")) == ""


def test_a_word_to_one_that_is_gone_is_counted_by_the_pair(sending, counts):
    for _ in range(2):
        sending.words.say(b"nobody", b"f", b"e")
    sending.words.send()
    assert counts == {"broker's word not delivered: gone": 2}
