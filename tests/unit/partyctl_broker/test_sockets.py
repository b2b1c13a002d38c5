import os
import socket

import pytest

from partyctl_broker.sockets import cut_off, hung_up, process, unread_by_peer


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_the_kernel_tells_who_has_hung_up_even_with_mail_unread(pair):
    ours, theirs = pair
    assert not hung_up(ours.fileno())
    theirs.send(b"last words")
    assert not hung_up(ours.fileno())
    theirs.close()
    assert hung_up(ours.fileno())


def test_a_local_connection_names_the_process_behind_it(pair):
    ours, _ = pair
    assert process(ours.fileno()) == f"process {os.getpid()}"
    ours.close()
    assert process(ours.fileno()) == ""
    with socket.socket(socket.AF_INET) as beyond:
        assert process(beyond.fileno()) == ""


def test_what_the_peer_has_not_read_is_told_until_it_has(pair):
    ours, theirs = pair
    ours.send(b"x" * 100)
    assert unread_by_peer(ours.fileno()) >= 100
    theirs.recv(100)
    assert unread_by_peer(ours.fileno()) == 0


def test_a_connection_that_is_cut_off_is_over_for_its_peer_and_the_descriptor_stays(pair):
    ours, theirs = pair
    cut_off(ours.fileno())
    assert theirs.recv(1) == b""
    assert ours.fileno() >= 0


def test_a_descriptor_that_was_closed_meanwhile_is_nobodys_fault(pair):
    descriptor = pair[0].fileno()
    pair[0].close()
    cut_off(descriptor)
    assert unread_by_peer(descriptor) == 0
