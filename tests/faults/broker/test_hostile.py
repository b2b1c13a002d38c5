"""Peers that mean no good, against a live broker: the others get every answer, and nothing grows without a bound.

How much slower the others become is a figure, and figures need a quiet machine: `python -m benchmarks.hostile`.
"""

import asyncio
import contextlib
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from fakes import hostile_peers
from fakes.broker_process import LIMIT, SECRET, BrokerProcess
from fakes.hostile_peers import ATTACKS, Raw, Sender

from partyctl_broker import HelloDeferred, Letter
from partyctl_broker.peer import ZmqBus

MEMORY_MAX = 32 * 1024 * 1024
"""Bytes that a broker may grow under an attack."""
ATTACK = 1.0
"""Seconds an attack lasts."""
CAUSES = {
    "garbage": "handshake of a stranger",
    "half_handshakes": "handshake not finished",
    "stranger_endless": "handshake of a stranger",
    "million_messages": "malformed",
    "anothers_address": "letter refused: source",
    "anothers_routing_id": "chosen routing id",
    "replayed_hello": "hello refused: principal",
    "revoked_key": "handshake refused: principal",
    "wrong_version": "hello refused: version",
    "claim_without_rule": "claim refused: rule",
    "flood": "",
    "flood_of_batches": "letter refused: unknown",
}
GATHERING = ("million_frames", "endless", "big_endless")
"""Attacks that fill the memory before there is a message: the guard has to be as fast as they are."""


class Echo:
    """Sends every letter back, or counts the answers."""

    def __init__(self, mailbox=None):
        self.mailbox, self.payloads, self.lost = mailbox, [], 0
        self.changed = asyncio.Event()

    def letter(self, letter: Letter):
        if self.mailbox is not None:
            self.mailbox.send(letter.source, letter.payload)
        self.payloads.append(letter.payload)
        self.changed.set()

    def undelivered(self, letter_id, destination, why):
        raise AssertionError(f"{destination}: {why}")

    def gone(self, address, unknown, why):
        raise AssertionError(f"{address}: {why}")

    def link_lost(self, why):
        self.lost += 1


class Pair:
    """Two sound peers that exchange numbered letters until told to stop; every answer must come, in order."""

    async def __aenter__(self):
        self.buses = [await ZmqBus.connect(self.endpoint, "p", SECRET) for _ in range(2)]
        echo, self.client = Echo(), Echo()
        echo.mailbox = await self.buses[0].open("run/echo", echo)
        self.mailbox = await self.buses[1].open("run/client", self.client)
        return self

    def __init__(self, endpoint):
        self.endpoint, self.sent = endpoint, 0

    async def trip(self):
        self.mailbox.send("run/echo", b"%d" % self.sent)
        self.sent += 1
        async with asyncio.timeout(3 * LIMIT):
            while len(self.client.payloads) < self.sent:
                self.client.changed.clear()
                await self.client.changed.wait()

    async def __aexit__(self, *_):
        for bus in self.buses:
            await bus.close()
        assert self.client.payloads == [b"%d" % number for number in range(self.sent)]


@pytest.fixture
def directory():
    path = Path(tempfile.mkdtemp(prefix="pb-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def broker(directory):
    process = BrokerProcess(directory).start()
    for name, secret in (("hostile", hostile_peers.SECRET), ("sound", hostile_peers.VICTIM_SECRET)):
        process.admit(name, secret, [f"{name}/*"])
    process.stats()
    yield process
    process.end()


@contextlib.contextmanager
def attacked(broker, name, seconds=ATTACK):
    """The attack goes on within the block; yields a function that says whether it does."""
    command = [sys.executable, hostile_peers.__file__, name, str(broker.path), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"ready\n"
            yield lambda: process.poll() is None
            assert json.loads(process.stdout.read())["done"] >= 0
        finally:
            process.kill()


def endure(broker, name):
    """Run an attack beside a sound pair; the most memory that was seen meanwhile."""
    most = 0

    async def story():
        nonlocal most
        async with Pair(broker.endpoint) as pair:
            with attacked(broker, name) as goes_on:
                while goes_on():
                    await pair.trip()
                    most = max(most, broker.memory)
                await pair.trip()

    asyncio.run(story())
    return most


@pytest.mark.parametrize("name", CAUSES)
def test_the_others_get_every_answer_and_the_cause_is_counted(broker, name):
    before = broker.memory
    assert endure(broker, name) - before < MEMORY_MAX
    deadline = time.monotonic() + LIMIT
    while CAUSES[name] and CAUSES[name] not in (counts := broker.stats()["counts"]):
        assert time.monotonic() < deadline, counts
        time.sleep(0.1)
    assert broker.process.poll() is None


@pytest.mark.parametrize("name", GATHERING)
def test_a_message_without_an_end_is_cut_off_and_what_it_filled_is_given_back(broker, name):
    before = broker.memory
    endure(broker, name)
    stats = broker.stats()
    assert stats["counts"]["cut off: a message without an end"] >= 1
    assert any("without an end" in message["what"] for message in broker.told)
    deadline = time.monotonic() + LIMIT
    while broker.memory - before > MEMORY_MAX:
        assert time.monotonic() < deadline, (broker.memory - before) >> 20
        time.sleep(0.1)


def test_every_attack_is_tried():
    assert {*CAUSES, *GATHERING, "flood_of_large"} == set(ATTACKS)


def test_a_flood_of_the_largest_letters_to_one_that_does_not_read_is_refused(broker):
    before = broker.memory
    most = endure(broker, "flood_of_large")
    assert broker.stats()["counts"].get("letter refused: full", 0) >= 1
    assert most - before < 4 * MEMORY_MAX  # what waits at both ends of the loop: UNREAD_MAX letters of 4 MiB, and 8 MiB
    assert broker.process.poll() is None


def test_sound_peers_that_send_each_other_the_largest_letters_are_not_taken_for_hostile(broker):
    async def story():
        buses = [await ZmqBus.connect(broker.endpoint, "p", SECRET) for _ in range(4)]
        readers = [Echo() for _ in buses]
        mailboxes = [await bus.open(f"run/{number}", readers[number]) for number, bus in enumerate(buses)]
        for _ in range(3):
            for number, mailbox in enumerate(mailboxes):
                for _ in range(3):
                    mailbox.send(f"run/{(number + 1) % 4}", bytes(4 << 20))
            async with asyncio.timeout(3 * LIMIT):
                for reader in readers:
                    while len(reader.payloads) < 3:
                        reader.changed.clear()
                        await reader.changed.wait()
                    reader.payloads.clear()
        assert not any(reader.lost for reader in readers)
        for reader in readers:
            reader.gone = lambda *_: None
        for bus in buses:
            await bus.close()

    asyncio.run(story())
    assert not any("cut off" in what for what in broker.stats()["counts"])


def test_memory_over_the_limit_ends_the_broker_with_the_cause_and_the_next_one_goes_on(directory, capfd):
    broker = BrokerProcess(directory).start(arguments=("--memory-max", "48"))
    broker.admit("hostile", hostile_peers.SECRET, ["hostile/*"])

    async def story():
        async with Pair(broker.endpoint) as pair:
            await pair.trip()
            deaf = [Sender(str(broker.path)).hello(f"hostile/{number}") for number in range(40)]
            for one in deaf:
                one.socket.recv_multipart()
            payload = bytes(4 << 20)
            while broker.process.poll() is None:
                for number in range(40):
                    deaf[0].say(*hostile_peers.letter(f"hostile/{number}", "hostile/0", payload=payload))
            for one in deaf:
                one.close()
            assert broker.wait() == 75
            why = broker.hear()
            assert why["t"] == "failed"
            assert "limit is 48 MiB" in why["why"]
            broker.control.close()
            broker.start(arguments=())
            for _ in range(10):
                await pair.trip()

    try:
        asyncio.run(story())
    finally:
        broker.end()
    message = capfd.readouterr().err
    assert "limit is 48 MiB" in message
    assert "Traceback" not in message


class TestDescriptors:
    def test_a_peer_that_does_not_fit_is_refused_by_name_and_comes_in_when_there_is_room(self, directory):
        broker = BrokerProcess(directory).start(arguments=("--hold", "0", "--descriptors", "128"))
        peers = []

        async def connect():
            peers.append(await ZmqBus.connect(broker.endpoint, "p", SECRET))

        async def fill():
            for _ in range(128):
                await connect()

        async def story():
            with pytest.raises(HelloDeferred, match="no descriptor left") as refused:
                await fill()
            assert "ulimit -n" in refused.value.fix
            assert broker.stats()["counts"]["handshake refused: descriptors"] >= 1
            assert "descriptors run short" in broker.told[0]["what"]
            assert len(peers) >= 50
            await peers.pop().close()
            for attempt in range(50):
                with contextlib.suppress(HelloDeferred):
                    await connect()
                    break
                await asyncio.sleep(0.1 + attempt / 100)
            else:
                raise AssertionError("nobody came in any more")
            for peer in peers:
                await peer.close()

        try:
            asyncio.run(story())
        finally:
            broker.end()

    @pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 4096, reason="too few descriptors here")
    def test_connections_that_cannot_be_refused_by_name_find_the_doors_shut(self, directory, eventually):
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        broker = BrokerProcess(directory).start(files=4096)
        crowd = []
        sound = Sender(str(broker.path), "p", SECRET).hello("run/a", principal="p", secret=SECRET)
        sound.socket.recv_multipart()
        try:
            with contextlib.suppress(OSError):
                crowd += (Raw(str(broker.path)) for _ in range(3200))
            eventually(lambda: broker.stats()["counts"].get("doors shut", 0) >= 1)
            sound.say(*hostile_peers.letter("run/a", "run/a"))
            assert sound.socket.recv_multipart()  # who was in stays in
            for raw in crowd:
                raw.close()
            eventually(lambda: broker.stats()["sockets"] == 1)
            late = Sender(str(broker.path), "p", SECRET).hello("run/b", principal="p", secret=SECRET)
            assert late.socket.recv_multipart()
            late.close()
        finally:
            sound.close()
            broker.end()


@pytest.fixture
def eventually():
    def wait(condition):
        deadline = time.monotonic() + 2 * LIMIT
        while not condition():
            assert time.monotonic() < deadline, "it never came true"
            time.sleep(0.05)

    return wait


class TestHold:
    def test_after_a_restart_a_letter_waits_for_its_address(self, directory):
        broker = BrokerProcess(directory).start(arguments=())

        async def story():
            sender, receiver = Echo(), Echo()
            first = await ZmqBus.connect(broker.endpoint, "p", SECRET)
            mailbox = await first.open("run/a", sender)
            mailbox.send("run/late", b"early")
            await asyncio.sleep(0.2)
            second = await ZmqBus.connect(broker.endpoint, "p", SECRET)
            await second.open("run/late", receiver)
            async with asyncio.timeout(LIMIT):
                await receiver.changed.wait()
            assert receiver.payloads == [b"early"]
            for bus in (first, second):
                await bus.close()

        try:
            asyncio.run(story())
        finally:
            broker.end()
