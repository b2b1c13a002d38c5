import socket
from collections import Counter

import pytest
import zmq

from partyctl_broker.auth import Roll
from partyctl_broker.doors import Doors
from partyctl_broker.lookout import CUT_DELAY, LEAVES, Lookout
from partyctl_broker.sockets import hung_up


class TestCutting:
    @pytest.fixture
    def lookout(self):
        with zmq.Context() as context:
            router = context.socket(zmq.ROUTER)
            made = Lookout(context, router, Doors(router), Roll(), 4096, Counter(), lambda what: None)
            yield made
            made.close()
            router.close(0)

    @pytest.fixture
    def pair(self):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            yield ours, theirs

    def test_who_is_told_something_has_a_moment_to_read_it(self, lookout, pair):
        lookout.liveness.met(b"a", pair[0].fileno())
        lookout.cut(b"a", 100.0)
        lookout.carry_out_cuts(100.0)
        assert not hung_up(pair[1].fileno())
        assert lookout.is_leaving(b"a")
        lookout.carry_out_cuts(100.0 + CUT_DELAY)
        assert hung_up(pair[1].fileno())

    def test_who_is_told_nothing_has_none(self, lookout, pair):
        lookout.cut_at_once(b"a", pair[0].fileno(), 100.0)
        assert hung_up(pair[1].fileno())
        assert lookout.is_leaving(b"a")
        assert not lookout.is_leaving(b"b")

    def test_who_left_is_forgotten_when_others_leave_later(self, lookout):
        lookout.cut_at_once(b"a", None, 100.0)
        lookout.cut_at_once(b"b", None, 100.0 + LEAVES)
        assert not lookout.is_leaving(b"a")
