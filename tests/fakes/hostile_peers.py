"""Peers that mean no good, each a program of its own.

    python hostile_peers.py ATTACK PATH SECONDS

`PATH` is the broker's socket. Those that pass for principals use `hostile` and its secret, or `revoked`. What an attack
did is printed as JSON at its end. Raw ones speak ZMTP 3.1 by hand, because ZeroMQ's own peers behave.
"""

import contextlib
import json
import os
import select
import socket
import struct
import sys
import time

import zmq

from partyctl_broker import wire
from partyctl_broker.control import Hello
from partyctl_broker.wire import Kind

SECRET = b"h" * 32
VICTIM_SECRET = b"v" * 32
PASSWORD = SECRET.hex().encode()
ADDRESS = "hostile/a"
GREETING = b"\xff\0\0\0\0\0\0\0\1\x7f\3\1"


class Raw:
    """A connection that speaks ZMTP by hand."""

    def __init__(self, path, mechanism=b"PLAIN"):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)  # before the time limit: with one a full backlog is an error
        self.socket.settimeout(5)
        self.mechanism = mechanism

    def greet(self):
        self.socket.sendall(GREETING + self.mechanism.ljust(20, b"\0") + bytes(32))
        return self

    def command(self, body):
        self.socket.sendall(bytes([4, len(body)]) + body)

    def shake_hands(self, principal=b"hostile", password=PASSWORD, identity=b""):
        """PLAIN: HELLO, WELCOME, INITIATE, READY."""
        self.greet()
        self._read(64)
        self.command(b"\5HELLO" + bytes([len(principal)]) + principal + bytes([len(password)]) + password)
        self._read_command()
        properties = ((b"Socket-Type", b"DEALER"), (b"Identity", identity))
        metadata = b"".join(bytes([len(k)]) + k + struct.pack(">I", len(v)) + v for k, v in properties)
        self.command(b"\x08INITIATE" + metadata)
        self._read_command()
        return self

    def _read(self, size):
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("the broker closed the connection")
            data += piece
        return data

    def _read_command(self):
        _, size = self._read(2)
        return self._read(size)

    def close(self):
        self.socket.close()


def frame(body, more=False):
    flags = (1 if more else 0) | (2 if len(body) > 255 else 0)
    return bytes([flags]) + (struct.pack(">Q", len(body)) if flags & 2 else bytes([len(body)])) + body


TINY = frame(b"x", more=True)


class Sender:
    """A DEALER that passes the handshake."""

    def __init__(self, path, principal="hostile", secret=SECRET, routing_id=None):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.PLAIN_USERNAME, principal.encode())
        self.socket.setsockopt(zmq.PLAIN_PASSWORD, secret.hex().encode())
        self.socket.setsockopt(zmq.SNDTIMEO, 100)
        self.socket.setsockopt(zmq.RCVTIMEO, 5000)
        self.socket.setsockopt(zmq.LINGER, 0)
        if routing_id is not None:
            self.socket.setsockopt(zmq.ROUTING_ID, routing_id)
        self.socket.connect(f"ipc://{path}")

    def say(self, *frames):
        with contextlib.suppress(zmq.Again):
            self.socket.send_multipart(frames)
            return 1
        return 0

    def hello(self, *claims, principal="hostile", secret=SECRET, version=wire.VERSION):
        said = Hello(principal, secret, os.urandom(16), claims, version)
        self.say(wire.TO_BROKER, wire.seal(Kind.HELLO, 1, 0, said.encode()))
        return self

    def drain(self):
        with contextlib.suppress(zmq.Again):
            while True:
                self.socket.recv_multipart(zmq.NOBLOCK)

    def close(self):
        self.socket.close(0)
        self.context.term()


def letter(destination, source=ADDRESS, payload=b"x" * 200, sequence=1):
    return wire.road(destination, source), wire.seal(Kind.DATA, sequence, 0, payload, stream=7)


def until(seconds):
    """Count up until the time is over."""
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        number += 1
        yield number


def repeat(path, seconds, *pairs, batch=100, introduce=True):
    """The same message at full speed; answers are read and thrown away."""
    first = (ADDRESS,) if introduce else ()
    return persist(path, seconds, lambda sender: all(sender.say(*pairs) for _ in range(batch)) and batch, *first)


def persist(path, seconds, turn, *claims, reads=True):
    """Turns of a sender, which says how much it sent; who is not let send any more comes back with another HELLO."""
    done, sender = 0, None
    for _ in until(seconds):
        if sender is None:
            sender = Sender(path)
            if claims:
                sender.hello(*claims)
        sent = turn(sender)
        done += sent
        if reads:
            sender.drain()
        if not sent:
            sender.close()
            sender = None
    if sender is not None:
        sender.close()
    return done


# --- strangers


def garbage(path, seconds):
    done = 0
    for number in until(seconds):
        raw = Raw(path)
        with contextlib.suppress(OSError):
            for _ in range(20):
                raw.socket.sendall((b"", GREETING, b"GET / HTTP/1.1\r\n\r\n" * 200)[number % 3] + os.urandom(4096))
                done += 1
        raw.close()
    return done


def half_handshakes(path, seconds, count=1000):
    """A thousand at once, at different depths, opened anew when the broker closes them."""
    opened, done = {}, 0
    for _ in until(seconds):
        while len(opened) < count:
            try:
                raw = Raw(path)
            except OSError:
                break
            raw.socket.sendall((GREETING + b"PLAIN" + bytes(47))[: 1 + len(opened) % 64])
            opened[raw.socket.fileno()] = raw
            done += 1
        poll = select.poll()
        for descriptor in opened:
            poll.register(descriptor, select.POLLHUP)
        for descriptor, _ in poll.poll(50):
            opened.pop(descriptor).close()
    for raw in opened.values():
        raw.close()
    return done


def stranger_endless(path, seconds):
    """An endless message without a proof, and one that only pretends to have passed."""
    return _endless(path, seconds, b"NULL", Raw.greet, TINY * 20_000)


# --- principals


def _endless(path, seconds, mechanism, begin, chunk):
    done = 0
    for _ in until(seconds):
        with contextlib.suppress(OSError):
            raw = Raw(path, mechanism)
            begin(raw)
            for _ in until(seconds):
                raw.socket.sendall(chunk)
                done += len(chunk)
        with contextlib.suppress(OSError, UnboundLocalError):
            raw.close()
        time.sleep(0.02)
    return done


def endless(path, seconds):
    """A message without an end."""
    return _endless(path, seconds, b"PLAIN", Raw.shake_hands, TINY * 20_000)


def big_endless(path, seconds):
    """The same in large frames."""
    return _endless(path, seconds, b"PLAIN", Raw.shake_hands, frame(bytes(1 << 20), more=True))


def million_frames(path, seconds):
    """One message of a million frames, again and again."""
    done = 0
    for _ in until(seconds):
        with contextlib.suppress(OSError):
            raw = Raw(path).shake_hands()
            raw.socket.sendall(frame(b"x", more=True) * 1_000_000 + frame(b"x"))
            done += 1
        time.sleep(0.02)
    return done


def million_messages(path, seconds):
    """Messages of one tiny frame."""
    raw, done = Raw(path).shake_hands(), 0
    chunk = frame(b"x") * 1000
    with contextlib.suppress(OSError):
        for _ in until(seconds):
            raw.socket.sendall(chunk)
            done += 1000
    return done


def anothers_address(path, seconds):
    return repeat(path, seconds, *letter("sound/echo", source="sound/client"))


def anothers_routing_id(path, seconds):
    done = 0
    for number in until(seconds):
        with contextlib.suppress(OSError):
            raw = Raw(path).shake_hands(identity=b"\0" + struct.pack(">I", number) if number % 2 else b"echo")
            hello = Hello("hostile", SECRET, b"life", (ADDRESS,))
            raw.socket.sendall(frame(wire.TO_BROKER, True) + frame(wire.seal(Kind.HELLO, 1, 0, hello.encode())))
            done += 1
            raw.close()
    return done


def replayed_hello(path, seconds):
    """The HELLO of another principal, as it was overheard, within a handshake of its own."""
    hello = Hello("sound", VICTIM_SECRET, b"overheard", ("sound/client",))
    return repeat(path, seconds, wire.TO_BROKER, wire.seal(Kind.HELLO, 1, 0, hello.encode()), introduce=False)


def revoked_key(path, seconds):
    done = 0
    for _ in until(seconds):
        sender = Sender(path, "revoked", SECRET).hello("hostile/revoked", principal="revoked")
        time.sleep(0.005)
        sender.close()
        done += 1
    return done


def wrong_version(path, seconds):
    hello = Hello("hostile", SECRET, b"life", (ADDRESS,), 99)
    foreign = b"\x96\x63" + wire.seal(Kind.HELLO, 1, 0, hello.encode())[2:]
    return repeat(path, seconds, wire.TO_BROKER, foreign)


def claim_without_rule(path, seconds):
    claims = ("sound/echo", "sound/x", *[f"nobody/{number}" for number in range(100)])
    hello = Hello("hostile", SECRET, b"life", claims)
    return repeat(path, seconds, wire.TO_BROKER, wire.seal(Kind.HELLO, 1, 0, hello.encode()), batch=1, introduce=False)


def flood(path, seconds):
    """Sound letters to an address that reads, as fast as it goes."""
    return repeat(path, seconds, *letter(ADDRESS))


def flood_of_batches(path, seconds):
    """The most pairs that a message may have, each to another address that nobody has."""
    pairs = [part for number in range(wire.PAIRS_MAX) for part in letter(f"hostile/{number}")]
    return repeat(path, seconds, *pairs, batch=1)


def flood_of_large(path, seconds):
    """The largest letters, to an address that does not read."""
    large = letter("hostile/deaf", payload=bytes(wire.PAYLOAD_MAX))
    return persist(path, seconds, lambda sender: sender.say(*large), ADDRESS, "hostile/deaf", reads=False)


STRANGERS = (garbage, half_handshakes, stranger_endless)
PRINCIPALS = (
    million_messages,
    million_frames,
    anothers_address,
    anothers_routing_id,
    replayed_hello,
    revoked_key,
    wrong_version,
    claim_without_rule,
    flood,
    flood_of_batches,
    flood_of_large,
    endless,
    big_endless,
)
ATTACKS = {attack.__name__: attack for attack in STRANGERS + PRINCIPALS}


if __name__ == "__main__":
    name, path, seconds = sys.argv[1:4]
    print("ready", flush=True)
    print(json.dumps({"attack": name, "done": ATTACKS[name](path, float(seconds))}), flush=True)
