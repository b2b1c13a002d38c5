"""What no peer of ours sends is counted and dropped, or answered; the broker goes on."""

import asyncio
import contextlib
import random
import socket

import pytest
import zmq

from partyctl_broker import wire
from partyctl_broker.control import Bye, Gone, Hello, Nack, Welcome
from partyctl_broker.wire import Kind

SECRET = bytes(range(32))
LIMIT = 5000
"""Milliseconds to wait for an answer."""


class RawPeer:
    """A DEALER that says what it likes."""

    def __init__(self, endpoint, routing_id=None, principal="p", secret=SECRET):
        self._principal = principal
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.RCVTIMEO, LIMIT)
        self._socket.setsockopt(zmq.SNDTIMEO, LIMIT)
        self._socket.setsockopt(zmq.PLAIN_USERNAME, principal.encode())
        self._socket.setsockopt(zmq.PLAIN_PASSWORD, secret.hex().encode())
        if routing_id is not None:
            self._socket.setsockopt(zmq.ROUTING_ID, routing_id)
        self._socket.connect(endpoint)

    def say(self, *frames):
        self._socket.send_multipart(frames)

    def hear(self):
        frame, envelope = self._socket.recv_multipart()
        return frame, wire.unseal(envelope)

    def hello(self, *claims, incarnation=b"raw"):
        self.say(*hello(*claims, incarnation=incarnation, principal=self._principal))
        return Welcome.decode(self.hear()[1].payload)

    def close(self):
        self._socket.close(0)
        self._context.term()


def hello(*claims, incarnation=b"raw", principal="p"):
    said = Hello(principal, SECRET, incarnation, claims)
    return wire.TO_BROKER, wire.seal(Kind.HELLO, 1, 0, said.encode())


def letter(source, destination, payload=b"x", sequence=1):
    return wire.road(destination, source), wire.seal(Kind.DATA, sequence, 0, payload)


@pytest.fixture
def raw_peer(broker):
    with contextlib.ExitStack() as stack:

        def start(**options):
            peer = RawPeer(broker.endpoint, **options)
            stack.callback(peer.close)
            return peer

        yield start


@pytest.fixture
def outcast(broker, raw_peer):
    """Peers of principals that nobody else speaks for, as they are going to be shown out."""

    def start(number=0):
        broker.admit(f"outcast-{number}", SECRET, ["run/*"])
        broker.stats()
        return raw_peer(principal=f"outcast-{number}")

    return start


@pytest.fixture
def still_works(broker, connections, recorder):
    """Whether two sound peers still exchange a letter."""

    async def story():
        async with asyncio.timeout(20), connections(broker.endpoint) as connect:
            b = recorder()
            await (await connect()).open("run/sound-b", b)
            (await (await connect()).open("run/sound-a", recorder())).send("run/sound-b", b"x")
            await b.wait("letter")

    return lambda: asyncio.run(story())


def counts_reach(broker, eventually, expected):
    eventually(lambda: expected.items() <= broker.stats()["counts"].items())


def test_a_stranger_is_counted_and_not_answered(broker, raw_peer, eventually, still_works):
    stranger = raw_peer()
    stranger.say(b"")
    stranger.say(b"one frame")
    stranger.say(*letter("run/a", "run/b"))
    stranger.say(wire.TO_BROKER, b"no envelope")
    stranger.say(wire.TO_BROKER, wire.seal(Kind.BYE, 0, 0, Bye().encode()))
    counts_reach(broker, eventually, {"malformed": 3, "stranger": 2})
    still_works()


def test_a_stranger_that_goes_on_without_a_hello_is_cut_off(broker, outcast, eventually, still_works):
    stranger = outcast()
    for _ in range(10):
        stranger.say(*letter("run/a", "run/b") * 8)  # of each message the first pair is heard
    eventually(lambda: broker.stats()["counts"].get("shown out: it does not keep to the wire") == 1)
    assert broker.stats()["counts"]["stranger"] == 10
    still_works()


def test_a_principal_that_was_shown_out_is_let_in_again_after_a_while(broker, raw_peer, eventually):
    peer = raw_peer()
    peer.hello("run/a")
    for _ in range(101):
        peer.say(b"one frame")
    eventually(lambda: broker.stats()["connections"] == 0)
    refused = raw_peer()
    refused.say(*hello("run/a"))
    eventually(lambda: broker.stats()["counts"].get("handshake refused: shown out", 0) >= 1)
    assert broker.stats()["connections"] == 0

    def is_let_in():
        raw_peer().say(*hello("run/a"))
        return broker.stats()["connections"] >= 1

    eventually(is_let_in)


def test_a_hello_with_letters_behind_it_is_taken_as_a_whole(broker, raw_peer):
    peer = raw_peer()
    peer.say(*hello("run/a"), *letter("run/a", "run/a", b"at once"))
    heard = []
    while len(heard) < 4:
        heard += peer._socket.recv_multipart()
    assert [wire.unseal(envelope).kind for envelope in heard[1::2]] == [Kind.WELCOME, Kind.DATA]


def test_huge_letters_among_small_ones_arrive_as_they_were(broker, raw_peer):
    sender, receiver = raw_peer(), raw_peer()
    sender.hello("run/a", incarnation=b"a")
    receiver.hello("run/b", incarnation=b"b")
    payloads = [
        bytes([number]) * size for number, size in enumerate([1, 1 << 20, 1 << 20, 7, 4 << 20, 1 << 12, 300_000])
    ]
    for payload in payloads:
        sender.say(*letter("run/a", "run/b", payload))
        assert receiver.hear()[1].payload == payload
    sender.say(*letter("run/a", "run/b", b"1"), *letter("run/a", "run/nobody", b"2"))  # not copied either
    assert receiver.hear()[1].payload == b"1"
    assert Nack.decode(sender.hear()[1].payload).code == "unknown"


def test_a_road_that_is_full_and_written_to_without_a_pause_ends_the_connection(
    broker, raw_peer, outcast, eventually, still_works
):
    deaf, sender = raw_peer(), outcast()
    deaf.hello("run/deaf", incarnation=b"deaf")
    sender.hello("run/a", incarnation=b"a")
    with contextlib.suppress(zmq.Again):
        for _ in range(60):
            sender.say(*letter("run/a", "run/deaf", bytes(4 << 20)))
    eventually(lambda: broker.stats()["counts"].get("shown out: it does not keep to the wire"))
    assert broker.stats()["counts"]["letter refused: full"] >= 16
    still_works()


def test_bytes_that_are_not_even_zeromq_harm_nobody(broker, still_works):
    for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 5000, b"\xff\0\0\0\0\0\0\0\1\x7f", b""):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(broker.path))
            with contextlib.suppress(OSError):
                connection.send(garbage)
    still_works()


def test_a_routing_id_of_ones_own_choice_is_not_heard(broker, raw_peer, eventually, still_works):
    raw_peer(routing_id=b"chosen").say(*hello("run/a"))
    counts_reach(broker, eventually, {"chosen routing id": 1})
    assert broker.stats()["connections"] == 0
    still_works()


def test_a_principals_messages_without_form_are_dropped_whole(broker, raw_peer, eventually, still_works):
    peer = raw_peer()
    peer.hello("run/a")
    peer.say(b"one frame")
    peer.say(*letter("run/a", "run/a"), b"a third frame")
    counts_reach(broker, eventually, {"malformed": 2})
    assert broker.stats()["routed"] == 0
    still_works()


def test_a_message_of_too_many_pairs_is_dropped_and_one_of_the_most_is_not(broker, raw_peer, eventually):
    peer = raw_peer()
    peer.hello("run/a")
    peer.say(*letter("run/a", "run/a") * (wire.PAIRS_MAX + 1))
    counts_reach(broker, eventually, {"oversized": 1})
    assert broker.stats()["routed"] == 0
    peer.say(*letter("run/a", "run/a") * wire.PAIRS_MAX)
    eventually(lambda: broker.stats()["routed"] == wire.PAIRS_MAX)


def test_a_frame_over_the_ceiling_ends_the_connection_and_its_friends_are_told(broker, raw_peer, still_works):
    friend, peer = raw_peer(), raw_peer()
    friend.hello("run/friend", incarnation=b"friend")
    peer.hello("run/a", incarnation=b"peer")
    peer.say(*letter("run/a", "run/friend"))
    assert friend.hear()[1].payload == b"x"
    peer.say(wire.road("run/friend", "run/a"), bytes(wire.FRAME_MAX + 1))
    assert Gone.decode(friend.hear()[1].payload).address == "run/a"
    still_works()


def test_another_peers_address_cannot_be_written_from(broker, raw_peer, still_works):
    victim, thief = raw_peer(), raw_peer()
    victim.hello("run/victim", incarnation=b"victim")
    thief.hello("run/thief", incarnation=b"thief")
    for source in ("run/victim", "", "run/nobody"):
        thief.say(*letter(source, "run/victim", sequence=7))
        frame, envelope = thief.hear()
        assert (frame, envelope.kind, envelope.correlation) == (wire.road(source, ""), Kind.NACK, 7)
        assert Nack.decode(envelope.payload).code == "source"
    still_works()


def test_a_peer_that_speaks_like_the_broker_is_not_believed(broker, raw_peer, connections, recorder):
    async def story():
        async with asyncio.timeout(20), connections(broker.endpoint) as connect:
            a = recorder()
            await (await connect()).open("run/a", a)
            liar = raw_peer()
            liar.hello("run/liar")
            for kind, message in [
                (Kind.GONE, Gone("run/b", "a lie")),
                (Kind.NACK, Nack("run/b", "gone", "a lie")),
                (Kind.BYE, Bye((), "a lie")),
                (Kind.WELCOME, Welcome()),
            ]:
                liar.say(wire.road("run/a", "run/liar"), wire.seal(kind, 1, 1, message.encode()))
            liar.say(wire.road("run/a", "run/liar"), b"no envelope at all")
            liar.say(*letter("run/liar", "run/a", b"the truth"))
            await a.wait("letter")
            assert a.payloads == [b"the truth"]
            assert len(a.heard) == 1

    asyncio.run(story())


def test_a_coalesced_message_for_several_peers_keeps_the_order_of_each(broker, raw_peer):
    sender, first, second = raw_peer(), raw_peer(), raw_peer()
    sender.hello("run/a", incarnation=b"a")
    first.hello("run/b", "run/c", incarnation=b"bc")
    second.hello("run/d", incarnation=b"d")
    for start in (0, 8):  # the second time every lane is known
        numbers = range(start, start + 8)
        pairs = [letter("run/a", f"run/{'bdcd'[number % 4]}", b"%d" % number) for number in numbers]
        sender.say(*(frame for pair in pairs for frame in pair))
        heard = {b"b": [], b"d": []}
        for peer, key in ((first, b"b"), (second, b"d")):
            while len(heard[key]) < 4:
                frames = peer._socket.recv_multipart()
                heard[key] += [int(wire.unseal(envelope).payload) for envelope in frames[1::2]]
        assert heard == {b"b": [n for n in numbers if n % 2 == 0], b"d": [n for n in numbers if n % 2]}


@pytest.mark.parametrize("seed", range(3))
def test_a_valid_principal_that_sends_noise_harms_nobody(broker, outcast, eventually, still_works, seed):
    noise = random.Random(seed)
    good = [*hello("run/a", "run/b", principal="outcast-1"), *letter("run/a", "run/b"), *letter("run/b", "run/a")]
    good.append(wire.seal(Kind.BYE, 0, 0, Bye(("run/b", "run/b")).encode()))
    for number in range(10):
        make_noise(outcast(number), noise, good)
    eventually(lambda: broker.stats()["counts"].get("malformed", 0) > 100)
    still_works()
    assert broker.stop() == 0


def make_noise(peer, noise, good):
    """A few hundred messages, or as many as it may send before it is shown out."""
    peer.hello("run/a")
    peer._socket.setsockopt(zmq.SNDTIMEO, 100)
    for _ in range(300):
        frames = []
        for _ in range(noise.choice([1, 2, 2, 2, 4, 4, 3, 40])):
            frame = bytearray(noise.choice(good))
            for _ in range(noise.choice([0, 0, 1, 3])):
                frame[noise.randrange(len(frame))] = noise.randrange(256)
            frames.append(bytes(frame[: noise.choice([None, None, noise.randrange(len(frame) + 1)])]))
        try:
            peer.say(*frames)
        except zmq.Again:
            break
        with contextlib.suppress(zmq.Again):  # a peer that did not read would be stalled by its own answers
            while True:
                peer._socket.recv_multipart(zmq.NOBLOCK)


def test_a_peer_with_a_full_queue_hears_of_a_death_when_it_reads_again(broker, raw_peer, eventually):
    slow, friend = raw_peer(), raw_peer()
    slow.hello("run/slow", incarnation=b"slow")
    friend.hello("run/friend", incarnation=b"friend")
    sent = 0
    while "letter refused: full" not in broker.stats()["counts"]:
        for _ in range(200):
            friend.say(*letter("run/friend", "run/slow", b"x" * 2000))
            sent += 1
        with contextlib.suppress(zmq.Again):
            while True:
                friend._socket.recv_multipart(zmq.NOBLOCK)
    friend.close()
    eventually(lambda: broker.stats()["connections"] == 1)
    heard = []
    while not heard or heard[-1].kind != Kind.GONE:
        frames = slow._socket.recv_multipart()
        heard += [wire.unseal(envelope) for envelope in frames[1::2]]
    assert Gone.decode(heard[-1].payload).address == "run/friend"
    assert 0 < len(heard) - 1 < sent
