"""The ends of the broker's benchmark, ours: `python -m benchmarks.broker_peer far|near ENDPOINT PRINCIPAL SECRET`.

`far` has the address far/echo, which sends every letter back, and far/count, which counts. `near` has an address for
each errand, below near/PRINCIPAL.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Final

from benchmarks.errands import PAYLOAD
from partyctl_broker import BusFull, Letter, Mailbox
from partyctl_broker.peer import ZmqBus

LIMIT: Final = 60.0
"""Seconds any errand may take."""
APART: Final = 200
"""Addresses over which exchanges are spread when they are to have one each."""


class Reader:
    """A receiver to whom nothing but letters may happen."""

    mailbox: Mailbox

    def letter(self, letter: Letter) -> None:
        raise NotImplementedError

    def undelivered(self, letter_id: int, destination: str, why: str) -> None:
        raise SystemExit(f"{destination}: {why}")

    def gone(self, address: str, unknown: tuple[int, ...], why: str) -> None:
        pass  # the other end is killed when all is done

    def link_lost(self, why: str) -> None:
        raise SystemExit(why)


class Echo(Reader):
    """Sends every letter back."""

    def letter(self, letter: Letter) -> None:
        self.mailbox.send(letter.source, letter.payload, letter.correlation)


class Counter(Reader):
    """Counts letters, and says how many when the last one, whose correlation is 0, is there."""

    count = 0

    def letter(self, letter: Letter) -> None:
        self.count += 1
        if not letter.correlation:
            self.mailbox.send(letter.source, self.count.to_bytes(8))
            self.count = 0


class Trips(Reader):
    """Sends the next letter when the last one is back, and notes the times."""

    started = 0.0

    def letter(self, letter: Letter) -> None:
        self.times.append((time.perf_counter() - self.started) * 1000)
        self.left -= 1
        if self.left:
            self.started = time.perf_counter()
            self.mailbox.send("far/echo", PAYLOAD)
        else:
            self.done.set_result(None)

    async def run(self, count: int) -> list[float]:
        """See `errands.Near.trips`."""
        self.times: list[float] = []
        self.left = count
        self.done = asyncio.get_running_loop().create_future()
        self.started = time.perf_counter()
        self.mailbox.send("far/echo", PAYLOAD)
        await asyncio.wait_for(self.done, LIMIT)
        return self.times


class OneWay(Reader):
    """Sends as fast as it is let."""

    def letter(self, letter: Letter) -> None:
        self.done.set_result(int.from_bytes(letter.payload))

    async def run(self, count: int) -> float:
        """See `errands.Near.one_way`."""
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        start = time.perf_counter()
        send, room = self.mailbox.send, self.mailbox.room
        for number in range(count - 1, -1, -1):
            try:
                send("far/count", PAYLOAD, number)
            except BusFull:
                await room("far/count")
                send("far/count", PAYLOAD, number)
        arrived = await asyncio.wait_for(self.done, LIMIT)
        assert arrived == count, f"{arrived} of {count} arrived"
        return time.perf_counter() - start


class Exchanges(Reader):
    """Many exchanges at once, over one address or several. Exchange and step of a letter are its correlation."""

    def __init__(self) -> None:
        self.mailboxes: list[Mailbox] = []

    def letter(self, letter: Letter) -> None:
        self.left -= 1
        following = letter.correlation + 1
        if following % self.steps:
            self.mailboxes[following // self.steps % len(self.mailboxes)].send("far/echo", PAYLOAD, following)
        elif not self.left:
            self.done.set_result(None)

    async def run(self, count: int, steps: int) -> float:
        """See `errands.Near.exchanges`."""
        self.steps, self.left = steps, count * steps
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        start = time.perf_counter()
        for exchange in range(count):
            self.mailboxes[exchange % len(self.mailboxes)].send("far/echo", PAYLOAD, exchange * steps)
        await asyncio.wait_for(self.done, LIMIT)
        return time.perf_counter() - start


async def far(bus: ZmqBus) -> None:
    """Answer until killed."""
    for name, reader in (("far/echo", Echo()), ("far/count", Counter())):
        reader.mailbox = await bus.open(name, reader)
    print("open", flush=True)
    await asyncio.Event().wait()


async def near(bus: ZmqBus, address: str) -> None:
    """Run errands until standard input ends."""
    trips, one_way, together, apart = Trips(), OneWay(), Exchanges(), Exchanges()
    trips.mailbox = await bus.open(f"{address}/trips", trips)
    one_way.mailbox = await bus.open(f"{address}/one-way", one_way)
    together.mailboxes.append(await bus.open(f"{address}/exchanges", together))
    for number in range(APART):
        apart.mailboxes.append(await bus.open(f"{address}/exchanges/{number}", apart))
    errands: dict[str, Callable[..., Awaitable[object]]] = {
        "trips": trips.run,
        "one_way": one_way.run,
        "exchanges": together.run,
        "exchanges_apart": apart.run,
    }
    while line := await asyncio.to_thread(sys.stdin.readline):
        errand, *arguments = json.loads(line)
        print(json.dumps(await errands[errand](*arguments)), flush=True)


async def main(role: str, endpoint: str, principal: str, secret: str) -> None:
    """Connect and do what the role is."""
    bus = await ZmqBus.connect(endpoint, principal, bytes.fromhex(secret))
    await (far(bus) if role == "far" else near(bus, f"near/{principal}"))
    await bus.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
