"""What hostile peers cost the others: round trips of a sound pair, with and without an attack beside it.

    python benchmarks/hostile.py [--attack NAME ...] [--rounds 5] [--seconds 1.5] [--json]

A round is a stretch without an attack and one with it, in turns; the ratio is the median of the rounds'. The broker's
memory is sampled every 5 ms. The attacker is a process of its own and wants a core for itself, so on two cores a part
of what is seen here is the scheduler's: `busy` does nothing but compute beside the pair, and shows how large that is.
"""

import argparse
import asyncio
import contextlib
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from fakes import hostile_peers
from fakes.broker_process import SECRET, BrokerProcess
from fakes.hostile_peers import ATTACKS

from partyctl_broker import Letter, Mailbox
from partyctl_broker.peer import ZmqBus

RATIO_MAX = 2.0
"""The target for the p99 beside an attack, as a multiple of the undisturbed one."""
MEMORY_MAX = 32.0
"""MiB that the broker may grow."""
BUSY = "busy"
BURN = """
import sys, time
print("ready", flush=True)
end = time.time() + float(sys.argv[1])
while time.time() < end:
    pass
"""
PAYLOAD = b"x" * 200


class Echo:
    """A receiver that sends every letter back."""

    mailbox: Mailbox

    def letter(self, letter: Letter) -> None:
        self.mailbox.send(letter.source, letter.payload)

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


@dataclass(frozen=True)
class Row:
    """Microseconds, and MiB over the broker's memory before the attack."""

    attack: str
    quiet_p50: float
    quiet_p99: float
    p50: float
    p99: float
    ratio_p99: float
    memory_peak: float
    memory_after: float
    counts: dict[str, int]

    def ok(self) -> bool:
        """Whether the targets are met."""
        return self.ratio_p99 <= RATIO_MAX and self.memory_peak <= MEMORY_MAX


class MemoryWatch(threading.Thread):
    """Samples the broker's memory."""

    def __init__(self, broker: BrokerProcess) -> None:
        super().__init__(daemon=True)
        self._broker, self._over, self.peak = broker, threading.Event(), 0

    def run(self) -> None:
        while not self._over.wait(0.005):
            with contextlib.suppress(OSError, IndexError):
                self.peak = max(self.peak, self._broker.memory)

    def stop(self) -> int:
        """The most that was seen."""
        self._over.set()
        self.join()
        return self.peak


@contextlib.contextmanager
def attack(name: str, broker: BrokerProcess, seconds: float) -> Iterator[None]:
    """The attack goes on within the block."""
    command = [sys.executable, hostile_peers.__file__, name, str(broker.path), str(seconds)]
    if name == BUSY:
        command = [sys.executable, "-c", BURN, str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


async def trips(client: Client, seconds: float) -> list[float]:
    """Round trips one after the other for so long."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        times += await client.trips(50)
    return times


async def measure(name: str, broker: BrokerProcess, rounds: int, seconds: float) -> Row:
    """All rounds of one attack."""
    bus = await ZmqBus.connect(broker.endpoint, "p", SECRET)
    client = Client()
    client.mailbox = await bus.open("run/client", client)
    await client.trips(300)
    before, watch = broker.memory, MemoryWatch(broker)
    watch.start()
    quiet, beside = [], []
    for _ in range(rounds):
        quiet.append(await trips(client, seconds))
        with attack(name, broker, 2 * seconds + 5):
            await trips(client, 0.2)
            beside.append(await trips(client, seconds))
        await asyncio.sleep(0.3)
    peak = watch.stop()
    await bus.close()
    time.sleep(0.5)
    quiet_p99, p99 = ([statistics.quantiles(times, n=100)[98] for times in part] for part in (quiet, beside))
    quiet_p50, p50 = ([statistics.median(times) for times in part] for part in (quiet, beside))
    return Row(
        attack=name,
        quiet_p50=statistics.median(quiet_p50),
        quiet_p99=statistics.median(quiet_p99),
        p50=statistics.median(p50),
        p99=statistics.median(p99),
        ratio_p99=statistics.median(with_it / without for with_it, without in zip(p99, quiet_p99, strict=True)),
        memory_peak=(peak - before) / 2**20,
        memory_after=(broker.memory - before) / 2**20,
        counts=broker.stats()["counts"],
    )


async def our_echo(endpoint: str) -> None:
    """Echo until killed."""
    bus = await ZmqBus.connect(endpoint, "p", SECRET)
    echo = Echo()
    echo.mailbox = await bus.open("run/echo", echo)
    print("open", flush=True)
    await asyncio.Event().wait()


def run(name: str, rounds: int, seconds: float) -> Row:
    """One attack against a broker of its own."""
    directory = Path(tempfile.mkdtemp(prefix="pb-", dir="/tmp"))
    broker = BrokerProcess(directory).start(arguments=())
    try:
        for principal, secret in (("hostile", hostile_peers.SECRET), ("sound", hostile_peers.VICTIM_SECRET)):
            broker.admit(principal, secret, [f"{principal}/*"])
        command = [sys.executable, __file__, "--echo", broker.endpoint]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as echo:
            assert echo.stdout is not None
            echo.stdout.readline()
            try:
                return asyncio.run(measure(name, broker, rounds, seconds))
            finally:
                echo.kill()
    finally:
        broker.end()
        shutil.rmtree(directory)


def table(rows: list[Row]) -> str:
    """The figures for people."""
    lines = [
        "a pair's round trips beside a hostile peer, microseconds; the broker's memory, MiB",
        f"{'attack':<22}{'alone p50':>10}{'p99':>8}{'beside p50':>12}{'p99':>8}{'ratio p99':>11}"
        f"{'peak':>8}{'after':>8}",
    ]
    for row in rows:
        figures = f"{row.quiet_p50:>10.0f}{row.quiet_p99:>8.0f}{row.p50:>12.0f}{row.p99:>8.0f}{row.ratio_p99:>11.2f}"
        lines.append(f"{row.attack:<22}{figures}{row.memory_peak:>8.1f}{row.memory_after:>8.1f}")
    return "\n".join([*lines, f"targets: ratio at most {RATIO_MAX:g}, peak at most {MEMORY_MAX:g} MiB"])


def main() -> int:
    """Measure, print; 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attack", nargs="*", choices=[BUSY, *ATTACKS], default=[BUSY, *ATTACKS], metavar="NAME")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--seconds", type=float, default=1.5, metavar="S", help="of each stretch of a round")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--echo", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.echo:
        asyncio.run(our_echo(options.echo))
    rows = [run(name, options.rounds, options.seconds) for name in options.attack]
    print(json.dumps([asdict(row) for row in rows]) if options.json else table(rows))
    return 0 if all(row.ok() for row in rows if row.attack != BUSY) else 1


if __name__ == "__main__":
    sys.exit(main())
