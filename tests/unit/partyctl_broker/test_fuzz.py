"""Noise: frames that are nearly right, by the hundred thousand. Nothing raises but Malformed, nothing is left behind.

`make nightly` sets PARTYCTL_FUZZ_FRAMES to ten million.
"""

import os
import random

import pytest

from partyctl_broker import wire
from partyctl_broker.auth import Principal, Roll
from partyctl_broker.control import Bye, Gone, Hello, Nack, Welcome
from partyctl_broker.errors import Malformed
from partyctl_broker.router import Table
from partyctl_broker.steps import Admit, Arrived, Check, Lost, Settle, Unsent
from partyctl_broker.wire import Kind
from partyctl_broker.zap import judge

FRAMES = int(os.environ.get("PARTYCTL_FUZZ_FRAMES", "100000"))
SECRET = b"s" * 32
CONNECTIONS = [b"\0aaa" + bytes([number]) for number in range(4)]
NAMES = ["run/a", "run/b", "run/c", "desk/x", ""]


def hello(number, *claims):
    return wire.seal(Kind.HELLO, 9, 0, Hello("p", SECRET, b"life%d" % number, claims).encode())


ENVELOPES = [
    *(hello(number, NAMES[number]) for number in range(4)),
    *(wire.seal(kind, 5, 1, b"payload", stream=3) for kind in Kind),
    wire.seal(Kind.DATA, 5, 1, b"x", stream=3, trace=b"t" * 16, since=7),
    wire.seal(Kind.BYE, 0, 0, Bye(("run/a",)).encode()),
    wire.seal(Kind.GONE, 0, 0, Gone("run/a", "why", (1, 2)).encode()),
    wire.seal(Kind.NACK, 0, 0, Nack("run/a", "gone", "why").encode()),
    wire.seal(Kind.WELCOME, 0, 0, Welcome(("run/a",)).encode()),
]
ROADS = [wire.road(destination, source) for destination in NAMES for source in NAMES]


def spoilt(chance: random.Random, data: bytes) -> bytes:
    """The data with a few things wrong with it; often with none."""
    kind = chance.randrange(8)
    if kind < 3 or not data:
        return data
    at = chance.randrange(len(data))
    if kind == 3:
        return data[:at]
    if kind == 4:
        return data[:at] + chance.randbytes(chance.randrange(1, 9)) + data[at:]
    if kind == 5:
        return data[at:] + data[:at]
    spoilt = bytearray(data)
    for _ in range(kind - 5):
        spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
    return bytes(spoilt)


def fresh(chance):
    table = Table(1, holding=chance.random() < 0.3)
    table.step(Admit(Principal("p", SECRET, ("run/*",))))
    for number, connection in enumerate(CONNECTIONS[:3]):
        table.step(Arrived(connection, wire.TO_BROKER, hello(number, NAMES[number])))
    return table


def check_all_gone(table):
    table.step(Settle())
    for connection in list(table.lanes):
        table.step(Lost(connection, "end"))
    assert (table.connections, table.addresses, table.lanes) == (0, 0, {})
    assert not any(table.contacts(name) for name in NAMES)


@pytest.mark.timeout(max(90, FRAMES // 5000))
def test_the_table_takes_any_frames():
    chance = random.Random(7)
    table = fresh(chance)
    for number in range(FRAMES // 2):
        connection = chance.choice(CONNECTIONS)
        frame, envelope = spoilt(chance, chance.choice(ROADS)), spoilt(chance, chance.choice(ENVELOPES))
        unsent = chance.random() < 0.02
        event = Unsent(connection, frame, envelope, "full") if unsent else Arrived(connection, frame, envelope)
        for command in table.step(event):
            if isinstance(command, Check):
                table.step(Arrived(connection, frame, envelope, settled=True))
        if number % 500 == 499:
            check_all_gone(table)
            table = fresh(chance)


@pytest.mark.timeout(max(90, FRAMES // 5000))
def test_the_readers_take_any_bytes():
    chance = random.Random(11)
    readers = [wire.unseal, wire.ends, *(kind.decode for kind in (Hello, Welcome, Nack, Gone, Bye))]
    seeds = [*ENVELOPES, *ROADS, *(envelope[wire.HEADER_SIZE :] for envelope in ENVELOPES)]
    refused = 0
    for _ in range(FRAMES // 2):
        data = spoilt(chance, spoilt(chance, chance.choice(seeds)))
        try:
            chance.choice(readers)(data)
        except Malformed:
            refused += 1
    assert FRAMES // 10 < refused < FRAMES // 2


def test_the_gate_takes_any_question():
    chance, roll = random.Random(13), Roll()
    roll.add(Principal("p", SECRET, ()))
    sound = [b"1.0", b"1", b"partyctl", b"localhost", b"", b"PLAIN", b"p", SECRET.hex().encode()]
    for _ in range(5000):
        frames = [spoilt(chance, frame) for frame in sound][: chance.randrange(9)]
        allowed = judge(frames, roll, crowded=False).status == 200
        assert not allowed or (frames[0], *frames[5:]) == (b"1.0", b"PLAIN", b"p", frames[7])
        assert not allowed or bytes.fromhex(frames[7].decode()) == SECRET
