"""A real broker process, peers on it, and a receiver that remembers what it heard."""

import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fakes.broker_process import LIMIT, SECRET, BrokerProcess

from partyctl_broker import Letter
from partyctl_broker.peer import ZmqBus


class Recorder:
    """A receiver that keeps everything it is told, in order."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []
        self._changed = asyncio.Event()

    def letter(self, letter: Letter) -> None:
        self._note("letter", letter)

    def undelivered(self, letter_id: int, destination: str, why: str) -> None:
        self._note("undelivered", letter_id, destination, why)

    def gone(self, address: str, unknown: tuple[int, ...], why: str) -> None:
        self._note("gone", address, unknown, why)

    def link_lost(self, why: str) -> None:
        self._note("link_lost", why)

    def _note(self, *what: object) -> None:
        self.heard.append(what)
        self._changed.set()

    def all(self, kind: str) -> list[tuple[object, ...]]:
        """What was heard of one kind."""
        return [entry[1:] for entry in self.heard if entry[0] == kind]

    @property
    def payloads(self) -> list[bytes]:
        """The payloads of all letters."""
        return [entry[1].payload for entry in self.heard if isinstance(entry[1], Letter)]

    async def wait(self, kind: str, count: int = 1) -> list[tuple[object, ...]]:
        """Wait until `count` things of one kind were heard."""
        async with asyncio.timeout(LIMIT):
            while len(self.all(kind)) < count:
                self._changed.clear()
                await self._changed.wait()
        return self.all(kind)


class PeerProcess:
    """A peer in its own process: it opens one address, says so, and answers every letter with the same payload."""

    SOURCE = """
import asyncio, sys
from partyctl_broker.peer import ZmqBus

class Echo:
    def letter(self, letter): self.mailbox.send(letter.source, letter.payload, letter.correlation)
    def undelivered(self, letter_id, destination, why): pass
    def gone(self, address, unknown, why): pass
    def link_lost(self, why): pass

async def main(endpoint, address):
    bus = await ZmqBus.connect(endpoint, "p", bytes(range(32)))
    echo = Echo()
    echo.mailbox = await bus.open(address, echo)
    print("open", flush=True)
    await asyncio.sleep(60)

asyncio.run(main(*sys.argv[1:]))
"""

    def __init__(self, endpoint: str, address: str) -> None:
        command = [sys.executable, "-c", self.SOURCE, endpoint, address]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)

    def wait_until_open(self) -> "PeerProcess":
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"open\n"
        return self

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        self.process.kill()
        self.process.wait(LIMIT)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory whose path leaves room for a socket's name; tmp_path may not."""
    path = Path(tempfile.mkdtemp(prefix="pb-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def broker(directory: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(directory).start()
    yield process
    process.end()


@pytest.fixture
def unstarted_broker(directory: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(directory)
    yield process
    process.end()


@pytest.fixture
def recorder() -> type[Recorder]:
    return Recorder


@pytest.fixture
def peer_process(broker: BrokerProcess) -> Iterator[Callable[[str], PeerProcess]]:
    """Start a peer process that echoes at an address."""
    peers: list[PeerProcess] = []

    def start(address: str) -> PeerProcess:
        peers.append(PeerProcess(broker.endpoint, address))
        return peers[-1].wait_until_open()

    yield start
    for peer in peers:
        peer.end()


class Connections:
    """Buses connected to one endpoint, closed when the block ends."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._buses: list[ZmqBus] = []

    async def __call__(self, **options: float) -> ZmqBus:
        bus = await ZmqBus.connect(self._endpoint, "p", SECRET, **options)
        self._buses.append(bus)
        return bus

    async def __aenter__(self) -> "Connections":
        return self

    async def __aexit__(self, *_: object) -> None:
        for bus in self._buses:
            await bus.close()


@pytest.fixture
def connections() -> type[Connections]:
    return Connections


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], None]:
    """Wait until something holds, within the limit."""

    def wait(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT
        while not condition():
            assert time.monotonic() < deadline, "it never came true"
            time.sleep(0.01)

    return wait
