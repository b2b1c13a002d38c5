"""Brokers and peers are killed, stopped and replaced under load: no letter is lost, doubled or told wrongly.

`make test` plays it in moderate sizes, `make test-load` in full ones.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest
from fakes.broker_process import LIMIT, SECRET, BrokerProcess
from fakes.peer_forks import PeerForks

from partyctl_broker import Letter
from partyctl_broker.peer import ZmqBus

MEMORY_MAX = 32 * 1024 * 1024
"""Bytes that a broker may grow while a peer does not read."""
load = pytest.mark.load


@pytest.fixture
def directory():
    """A directory whose path leaves room for a socket's name; tmp_path may not."""
    path = Path(tempfile.mkdtemp(prefix="pb-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def broker(directory):
    process = BrokerProcess(directory).start(arguments=())
    yield process
    process.end()


@pytest.fixture
def forks(broker, directory):
    logs = directory / "logs"
    logs.mkdir()
    forks = PeerForks(broker.endpoint, logs)
    yield forks
    forks.close()


class End:
    """One end of a pair."""

    def __init__(self):
        self.payloads, self.told, self.unknown, self.losses = [], {}, {}, 0
        self.changed = asyncio.Event()

    def letter(self, letter: Letter):
        self.payloads.append(letter.payload)
        self.changed.set()

    def undelivered(self, letter_id, destination, why):
        self.told[letter_id] = time.monotonic()

    def gone(self, address, unknown, why):
        for letter_id in unknown:
            assert letter_id not in self.unknown
            self.unknown[letter_id] = time.monotonic()

    def link_lost(self, why):
        self.losses += 1

    async def hears(self, count):
        while len(self.payloads) < count:
            self.changed.clear()
            await self.changed.wait()


async def numbered(endpoint, pair, count, receivers, kills):
    """One pair: a sender that waits for room, and some way behind each milestone for the kill; and a receiver."""
    gates = {count * (2 * number + 1) // (2 * len(kills) + 2): kill for number, kill in enumerate(kills, 1)}
    here, there = [await ZmqBus.connect(endpoint, "p", SECRET, timeout=LIMIT) for _ in range(2)]
    sender, receiver = End(), End()
    receivers.append(receiver)
    mailbox = await here.open(f"run/{pair}/from", sender)
    await there.open(f"run/{pair}/to", receiver)
    for number in range(count):
        if number in gates:
            await gates[number].wait()
        await mailbox.room(f"run/{pair}/to")
        mailbox.send(f"run/{pair}/to", b"%d" % number)
        if number % 50 == 0:
            await asyncio.sleep(0)
    await receiver.hears(count)
    await asyncio.sleep(0.2)  # whatever is one too many would come now
    await here.close()
    await there.close()
    assert [int(payload) for payload in receiver.payloads] == list(range(count))
    assert (sender.told, sender.unknown) == ({}, {})
    return receiver.losses


@pytest.mark.parametrize(("letters", "kills"), [(10_000, 3), pytest.param(100_000, 5, marks=load)])
@pytest.mark.timeout(180)
def test_a_broker_that_is_killed_again_and_again_loses_doubles_and_reorders_nothing(broker, letters, kills):
    async def story():
        receivers, count, killed = [], letters // 10, [asyncio.Event() for _ in range(kills)]
        pairs = [asyncio.ensure_future(numbered(broker.endpoint, pair, count, receivers, killed)) for pair in range(10)]
        for number, kill in enumerate(killed, 1):
            while len(receivers) < 10 or min(len(each.payloads) for each in receivers) < count * number // (kills + 1):
                await asyncio.sleep(0.005)
            await asyncio.to_thread(broker.kill)
            kill.set()
            broker.control.close()
            await asyncio.to_thread(lambda: broker.start(arguments=()))
        assert await asyncio.gather(*pairs) == [kills] * 10

    asyncio.run(asyncio.wait_for(story(), 170))


@pytest.mark.parametrize("rounds", [15, pytest.param(200, marks=load)])
@pytest.mark.timeout(240)
def test_a_peer_that_is_killed_and_replaced_at_once_gets_no_letter_that_its_sender_was_told_about(
    broker, forks, rounds
):
    async def story():
        bus = await ZmqBus.connect(broker.endpoint, "p", SECRET, timeout=LIMIT)
        end, sent = End(), {}
        mailbox = await bus.open("run/from", end)

        async def until_heard(name):
            while not forks.lines(name):
                sent[mailbox.send("run/to", b"%d" % len(sent))] = len(sent)
                await asyncio.sleep(0.002)

        pid = forks.start("peer-0", "log", "run/to")
        await until_heard("peer-0")
        for number in range(1, rounds + 1):
            for _ in range(20 + number % 30):
                sent[mailbox.send("run/to", b"%d" % len(sent))] = len(sent)
            await asyncio.sleep(0.001 * (number % 4))
            os.kill(pid, signal.SIGKILL)
            pid = forks.start(f"peer-{number}", "log", "run/to")
            await until_heard(f"peer-{number}")
        await asyncio.sleep(1.0)
        await bus.close()
        return end, sent

    end, sent = asyncio.run(asyncio.wait_for(story(), 230))
    got = {}
    for number in range(rounds + 1):
        lines = forks.lines(f"peer-{number}")
        order = [line["payload"] for line in lines]
        assert order == sorted(order)
        assert not got.keys() & set(order), "delivered twice"
        got |= {line["payload"]: line["at"] for line in lines}
    fates = Counter()
    for letter_id, payload in sent.items():
        told, unknown = letter_id in end.told, letter_id in end.unknown
        assert (payload in got) or told or unknown, "vanished"
        assert not (told and (unknown or payload in got))
        assert not unknown or payload not in got or got[payload] <= end.unknown[letter_id], "delivered later"
        fates["undelivered" if told else "delivered" if payload in got else "unknown"] += 1
    print(f"{rounds} rounds: {dict(fates)}")
    assert fates["delivered"] > rounds


def p99(times):
    return statistics.quantiles(times, n=100)[98]


@pytest.mark.parametrize(("letters", "rounds"), [(3_000, 2), pytest.param(100_000, 7, marks=load)])
@pytest.mark.timeout(180)
def test_a_stopped_peer_costs_the_broker_little_and_its_sender_is_told(broker, forks, letters, rounds):
    async def trips(mailbox, end, count):
        times = []
        for _ in range(count):
            started = time.perf_counter()
            heard = len(end.payloads)
            mailbox.send("run/echo", b"x" * 200)
            await end.hears(heard + 1)
            times.append(time.perf_counter() - started)
        return times

    async def story():
        forks.start("echo", "echo", "run/echo")
        end = End()
        bus = await ZmqBus.connect(broker.endpoint, "p", SECRET, timeout=LIMIT)
        mailbox = await bus.open("run/pinger", end)
        while not end.payloads:
            mailbox.send("run/echo", b"x")
            await asyncio.sleep(0.01)
        await trips(mailbox, end, 300)
        before, most, ratios = broker.memory, 0, []
        for number in range(rounds):
            quiet = await trips(mailbox, end, 1000)
            target = forks.start(f"stopped-{number}", "log", f"run/stopped/{number}")
            while not forks.lines(f"stopped-{number}"):
                mailbox.send(f"run/stopped/{number}", b"-1")
                await asyncio.sleep(0.05)
            os.kill(target, signal.SIGSTOP)
            name = f"flood-{number}"
            flood = forks.start(name, "flood", f"run/{name}", f"run/stopped/{number}", str(letters), "10240")
            busy = await trips(mailbox, end, 1000)
            while not any("taken" in line for line in forks.lines(name)):
                busy += await trips(mailbox, end, 100)
            most = max(most, broker.memory)
            [result] = [line for line in forks.lines(name) if "taken" in line]
            assert result["refused"] > 0
            os.kill(target, signal.SIGCONT)
            payloads = []
            while len(payloads) < result["taken"]:
                await asyncio.sleep(0.02)
                payloads = [line["payload"] for line in forks.lines(f"stopped-{number}") if line["payload"] >= 0]
            assert payloads[:100] == list(range(100))
            assert payloads == sorted(set(payloads))
            assert len(payloads) == result["taken"]
            os.kill(flood, signal.SIGKILL)
            os.kill(target, signal.SIGKILL)
            ratios.append(p99(busy) / p99(quiet))
        await bus.close()
        print(
            f"{letters} letters of 10 KiB: {result['taken']:.0f} taken, {result['refused']:.0f} refused, "
            f"others' p99 {statistics.median(ratios):.2f} times, {[round(ratio, 2) for ratio in ratios]}, "
            f"memory +{(most - before) / 2**20:.1f} MiB"
        )
        assert most - before <= MEMORY_MAX

    with contextlib.suppress(ProcessLookupError):
        asyncio.run(asyncio.wait_for(story(), 170))
