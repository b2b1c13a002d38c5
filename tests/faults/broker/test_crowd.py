"""What many peers cost the broker in memory: each says HELLO, then each writes to its neighbour.

The peers speak ZMTP by hand, two descriptors each: one here, one in the broker.
"""

import contextlib
import resource
import shutil
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from fakes.broker_process import SECRET, BrokerProcess
from fakes.hostile_peers import Raw, frame

from partyctl_broker import wire
from partyctl_broker.control import Hello
from partyctl_broker.wire import Kind

IDLE_MAX, BUSY_MAX = 32 * 1024, 96 * 1024
"""Bytes of resident memory per peer: after HELLO, and after LETTERS letters."""
CORE_MAX = 0.005
"""Of one core, for an idle broker."""
LETTERS = 300
PAYLOAD = b"x" * 200


def shaken_hands(path):
    """A connection that is let in; while the broker replaces the socket that answers, one is closed or hangs."""
    for _ in range(20):
        raw = Raw(str(path))
        with contextlib.suppress(ConnectionError, TimeoutError):
            return raw.shake_hands(b"p", SECRET.hex().encode())
        raw.close()
    raise AssertionError("the broker lets nobody in")


class Peer:
    """A peer with one address."""

    def __init__(self, path, number):
        self.number = number
        self.raw = shaken_hands(path)
        self.raw.socket.settimeout(30)
        hello = Hello("p", SECRET, b"life %d" % number, (f"run/{number}",))
        self.say(wire.TO_BROKER, wire.seal(Kind.HELLO, 1, 0, hello.encode()))

    def say(self, address, *envelopes):
        self.raw.socket.sendall(b"".join(frame(address, more=True) + frame(envelope) for envelope in envelopes))

    def hear(self, size):
        """So many bytes."""
        data = bytearray()
        while len(data) < size:
            piece = self.raw.socket.recv(1 << 16)
            assert piece, "the broker closed the connection"
            data += piece
        return bytes(data)

    def welcomed(self):
        """Whether the address is ours."""
        return f"run/{self.number}".encode() in self.hear(40)

    def write_to(self, other):
        """LETTERS letters, which must all come."""
        road = wire.road(f"run/{other.number}", f"run/{self.number}")
        letters = [wire.seal(Kind.DATA, number, 0, PAYLOAD, stream=self.number + 1) for number in range(1, LETTERS + 1)]
        self.say(road, *letters)
        expected = b"".join(frame(road, more=True) + frame(letter) for letter in letters)
        assert other.hear(len(expected)) == expected


@pytest.fixture
def broker():
    directory = Path(tempfile.mkdtemp(prefix="pb-", dir="/tmp"))
    process = BrokerProcess(directory).start()
    yield process
    process.end()
    shutil.rmtree(directory)


@pytest.mark.load
@pytest.mark.parametrize("count", [1000, 5000])
@pytest.mark.timeout(300)
def test_a_peer_costs_little_memory_when_idle_and_after_its_letters(broker, count):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count + 2000:
        pytest.skip(f"{count} peers need {count + 2000} descriptors here, there are {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    peers = []
    try:
        before = broker.memory
        peers.extend(Peer(broker.path, number) for number in range(count))
        assert all(peer.welcomed() for peer in peers)
        assert broker.stats()["connections"] == count
        time.sleep(0.5)  # what handshakes took is given back 0.2 s after the last
        idle = (broker.memory - before) / count
        process = psutil.Process(broker.process.pid)
        used = sum(process.cpu_times()[:2])
        time.sleep(4)
        assert sum(process.cpu_times()[:2]) - used <= 4 * CORE_MAX
        for peer, other in zip(peers, peers[1:] + peers[:1], strict=True):
            peer.write_to(other)
        assert broker.stats()["routed"] == count * LETTERS
        busy = (broker.memory - before) / count
        print(f"{count} peers: {idle / 1024:.1f} KiB each after HELLO, {busy / 1024:.1f} after {LETTERS} letters each")
        assert idle <= IDLE_MAX
        assert busy <= BUSY_MAX
    finally:
        for peer in peers:
            peer.raw.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
