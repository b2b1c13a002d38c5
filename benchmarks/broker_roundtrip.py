"""A round trip between two processes through the broker, against a bare pyzmq loop that guarantees nothing.

    python benchmarks/broker_roundtrip.py [--rounds 5] [--trips 2000] [--json]

The yardstick is three processes over ipc: DEALER, a ROUTER loop that swaps two frames, DEALER; its ends pack and unpack
a ten-field msgpack envelope. Ours is the broker process and two peers on asyncio, with secrets and claim rules. Both
carry 200 bytes. Both are up all the time and take turns within each round; the ratio is the median of the rounds'.
"""

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import msgpack
import zmq

from partyctl_base.channel import Channel
from partyctl_broker import Letter, Mailbox
from partyctl_broker.peer import ZmqBus

RATIO_MAX = 1.25
"""The target for the median round trip, as a multiple of the yardstick's."""
PAYLOAD = b"x" * 200
SECRET = bytes(32)
WARM_UP = 200


@dataclass(frozen=True)
class Figures:
    """Microseconds; each list has one value per round, `ratio` is the median of the rounds' ratios."""

    trips: int
    bare_p50: list[float]
    bare_p99: list[float]
    ours_p50: list[float]
    ours_p99: list[float]
    ratio_p50: float
    ratio_p99: float

    def ok(self) -> bool:
        """Whether the target is met."""
        return self.ratio_p50 <= RATIO_MAX


# --- the yardstick


def bare_router(endpoint: str) -> None:
    """Swap destination and source, for ever."""
    socket = zmq.Context().socket(zmq.ROUTER)
    socket.bind(endpoint)
    while True:
        source, destination, envelope = socket.recv_multipart()
        socket.send_multipart([destination, source, envelope])


def bare_dealer(endpoint: str, name: bytes) -> "zmq.Socket[bytes]":
    """A connected DEALER of that name."""
    socket: zmq.Socket[bytes] = zmq.Context().socket(zmq.DEALER)
    socket.setsockopt(zmq.ROUTING_ID, name)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.RCVTIMEO, 2000)
    socket.connect(endpoint)
    return socket


def envelope(sequence: int) -> bytes:
    """Ten fields, as an actor system would send them."""
    fields = {"v": 1, "kind": "data", "id": sequence, "cause": sequence, "source": "a", "destination": "b"}
    return bytes(msgpack.packb(fields | {"run": "r-1", "step": sequence, "trace": b"t" * 16, "payload": PAYLOAD}))


def bare_echo(endpoint: str) -> None:
    """Unpack, pack, send back, for ever."""
    socket = bare_dealer(endpoint, b"echo")
    socket.setsockopt(zmq.RCVTIMEO, -1)
    while True:
        source, packed = socket.recv_multipart()
        socket.send_multipart([source, envelope(msgpack.unpackb(packed)["id"])])


class Bare:
    """The client end of the yardstick."""

    def __init__(self, endpoint: str) -> None:
        self._socket = bare_dealer(endpoint, b"client")
        for attempt in range(20):  # the loop drops what comes before the echo is there
            try:
                self._socket.setsockopt(zmq.RCVTIMEO, 500)
                self._trip(attempt)
                break
            except zmq.Again:
                continue
        self._socket.setsockopt(zmq.RCVTIMEO, 5000)

    def _trip(self, number: int) -> None:
        self._socket.send_multipart([b"echo", envelope(number)])
        msgpack.unpackb(self._socket.recv_multipart()[1])

    def trips(self, count: int) -> list[float]:
        """The microseconds of each of `count` trips."""
        times: list[float] = []
        for number in range(count):
            start = time.perf_counter()
            self._trip(number)
            times.append((time.perf_counter() - start) * 1e6)
        return times

    def close(self) -> None:
        """Close the socket and its context."""
        self._socket.close(0)
        self._socket.context.term()


# --- ours


class Echo:
    """A receiver that sends every letter back."""

    mailbox: Mailbox

    def letter(self, letter: Letter) -> None:
        self.mailbox.send(letter.source, letter.payload, letter.correlation)

    def undelivered(self, letter_id: int, destination: str, why: str) -> None:
        raise SystemExit(f"{destination}: {why}")

    def gone(self, address: str, unknown: tuple[int, ...], why: str) -> None:
        pass

    def link_lost(self, why: str) -> None:
        raise SystemExit(why)


class Client(Echo):
    """Sends the next letter when the last one is back, and notes the times."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.left = 0
        self.started = 0.0
        self.done: asyncio.Future[None] | None = None

    def letter(self, letter: Letter) -> None:
        self.times.append((time.perf_counter() - self.started) * 1e6)
        self.left -= 1
        if self.left:
            self.send()
        elif self.done is not None:
            self.done.set_result(None)

    def send(self) -> None:
        self.started = time.perf_counter()
        self.mailbox.send("run/echo", PAYLOAD)

    async def trips(self, count: int) -> list[float]:
        """The microseconds of each of `count` trips."""
        self.times, self.left = [], count
        self.done = asyncio.get_running_loop().create_future()
        self.send()
        async with asyncio.timeout(60):
            await self.done
        return self.times


async def our_echo(endpoint: str) -> None:
    """Echo until killed."""
    bus = await ZmqBus.connect(endpoint, "bench", SECRET)
    echo = Echo()
    echo.mailbox = await bus.open("run/echo", echo)
    print("open", flush=True)
    await asyncio.Event().wait()


# --- both


@contextlib.contextmanager
def processes(directory: Path) -> Iterator[tuple[str, str]]:
    """Everything but the clients, up and running; the endpoints of the yardstick and of ours."""
    bare, ours = f"ipc://{directory}/bare", f"ipc://{directory}/ours"
    control, theirs = Channel.pair()
    message = {"t": "principal", "name": "bench", "secret": SECRET, "claims": ["run/*"]}
    control.send(msgpack.packb(message))
    inherited = theirs.detach()
    broker = [sys.executable, "-m", "partyctl_broker", "--endpoint", ours]
    broker += ["--control-fd", str(inherited), "--host-pid", str(os.getpid())]
    with contextlib.ExitStack() as stack:
        stack.callback(control.close)

        def start(command: list[str], **options: object) -> "subprocess.Popen[bytes]":
            process: subprocess.Popen[bytes] = subprocess.Popen(command, **options)  # type: ignore[call-overload]
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        start(broker, pass_fds=[inherited])
        os.close(inherited)
        control.receive(timeout=10)
        role = [sys.executable, __file__, "--role"]
        start([*role, "bare-router", "--endpoint", bare])
        start([*role, "bare-echo", "--endpoint", bare])
        echo = start([*role, "our-echo", "--endpoint", ours], stdout=subprocess.PIPE)
        assert echo.stdout is not None
        stack.callback(echo.stdout.close)
        echo.stdout.readline()
        yield bare, ours


async def measure(bare_endpoint: str, our_endpoint: str, rounds: int, trips: int) -> Figures:
    """All rounds; the two take turns."""
    bus = await ZmqBus.connect(our_endpoint, "bench", SECRET)
    client = Client()
    client.mailbox = await bus.open("run/client", client)
    bare = Bare(bare_endpoint)
    bare.trips(WARM_UP)
    await client.trips(WARM_UP)
    bare_rounds, our_rounds = [], []
    for number in range(rounds):
        first_bare = number % 2 == 0
        if first_bare:
            bare_rounds.append(bare.trips(trips))
        our_rounds.append(await client.trips(trips))
        if not first_bare:
            bare_rounds.append(bare.trips(trips))
    bare.close()
    await bus.close()
    return figures(trips, bare_rounds, our_rounds)


def figures(trips: int, bare_rounds: list[list[float]], our_rounds: list[list[float]]) -> Figures:
    """Medians and ratios of the rounds."""

    def p99(times: list[float]) -> float:
        return statistics.quantiles(times, n=100)[98]

    bare_p50, ours_p50 = [[statistics.median(times) for times in rounds] for rounds in (bare_rounds, our_rounds)]
    bare_p99, ours_p99 = [[p99(times) for times in rounds] for rounds in (bare_rounds, our_rounds)]
    return Figures(
        trips=trips,
        bare_p50=bare_p50,
        bare_p99=bare_p99,
        ours_p50=ours_p50,
        ours_p99=ours_p99,
        ratio_p50=statistics.median(ours / bare for ours, bare in zip(ours_p50, bare_p50, strict=True)),
        ratio_p99=statistics.median(ours / bare for ours, bare in zip(ours_p99, bare_p99, strict=True)),
    )


def table(measured: Figures) -> str:
    """The figures for people."""

    def row(what: str, values: list[float]) -> str:
        return f"  {what:<26}{statistics.median(values):>9.0f} us   [{min(values):.0f} .. {max(values):.0f}]"

    return "\n".join(
        [
            f"round trip through the broker, {len(measured.bare_p50)} rounds of {measured.trips}",
            row("bare pyzmq loop, p50", measured.bare_p50),
            row("partyctl, p50", measured.ours_p50),
            row("bare pyzmq loop, p99", measured.bare_p99),
            row("partyctl, p99", measured.ours_p99),
            f"  {'ratio of p50':<26}{measured.ratio_p50:>9.2f}      at most {RATIO_MAX:g}",
            f"  {'ratio of p99':<26}{measured.ratio_p99:>9.2f}",
        ]
    )


def main() -> int:
    """Measure, print; 1 if the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--trips", type=int, default=2000, metavar="N")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--role", choices=["bare-router", "bare-echo", "our-echo"], help=argparse.SUPPRESS)
    parser.add_argument("--endpoint", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role == "our-echo":
        asyncio.run(our_echo(options.endpoint))
    elif options.role:
        {"bare-router": bare_router, "bare-echo": bare_echo}[options.role](options.endpoint)
    directory = Path(tempfile.mkdtemp(prefix="pb-", dir="/tmp"))
    try:
        with processes(directory) as (bare, ours):
            measured = asyncio.run(measure(bare, ours, options.rounds, options.trips))
    finally:
        shutil.rmtree(directory)
    print(json.dumps(asdict(measured)) if options.json else table(measured))
    return 0 if measured.ok() else 1


if __name__ == "__main__":
    sys.exit(main())
