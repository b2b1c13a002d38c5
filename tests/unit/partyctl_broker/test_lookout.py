import socket

from partyctl_broker.lookout import hung_up


def test_the_kernel_tells_who_has_hung_up_even_with_mail_unread():
    ours, theirs = socket.socketpair()
    with ours:
        assert not hung_up(ours.fileno())
        theirs.send(b"last words")
        assert not hung_up(ours.fileno())
        theirs.close()
        assert hung_up(ours.fileno())
