"""Letters through the broker, against a bare pyzmq loop that guarantees nothing: `python -m benchmarks.broker`.

Ours is the broker process and two peers on asyncio, with secrets, claim rules, windows and receipts; the far one is
local, and the near one comes by ipc or by tcp with CURVE. The yardstick is yardsticks/forwarding_loop.py, over ipc. All
are started anew for each round, and are up at the same time. Every payload has 200 bytes; one-way messages are counted
by their receiver, and none may be lost.
"""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import msgpack

from benchmarks.errands import Runner, cpu, running
from benchmarks.harness import Comparison, Target, Variant, parser, run, spread
from partyctl_base.channel import Channel
from partyctl_broker.endpoint import Target as Endpoint
from partyctl_broker.keys import decode_z85, new_pair

BARE, IPC, TCP = "bare loop, ipc", "partyctl, ipc", "partyctl, tcp with CURVE"
APART = "partyctl, ipc, 200 addresses"
PEER, YARDSTICK = "benchmarks.broker_peer", "benchmarks.yardsticks.forwarding_loop"
TRIPS, ONE_WAY, EXCHANGES, STEPS = 1000, 20_000, 200, 20
SECRET = bytes(range(32))
OURS, THEIRS = new_pair(), new_pair()


@dataclass(frozen=True)
class End:
    """One that measures.

    Args:
        near: runs errands.
        pids: the three processes that a message meets.
    """

    near: Runner
    pids: tuple[int, int, int]

    def trips(self) -> Mapping[str, float]:
        """Round trips, one after the other."""
        before = cpu(self.pids)
        times = cast(list[float], self.near("trips", TRIPS))
        return {**spread(times), "cpu us each": (cpu(self.pids) - before) / TRIPS * 1e6}

    def rate(self, count: int, errand: str, *arguments: int) -> Mapping[str, float]:
        """An errand of `count` parts."""
        before = cpu(self.pids)
        seconds = cast(float, self.near(errand, *arguments))
        return {"per second": count / seconds, "cpu us each": (cpu(self.pids) - before) / count * 1e6}

    def one_way(self) -> Mapping[str, float]:
        """Messages one way."""
        return self.rate(ONE_WAY, "one_way", ONE_WAY)

    def exchanges(self, errand: str = "exchanges") -> Mapping[str, float]:
        """Many exchanges at once."""
        return self.rate(EXCHANGES * STEPS, errand, EXCHANGES, STEPS)


@contextlib.contextmanager
def broker(path: str, further: Sequence[Mapping[str, object]] = ()) -> Iterator[tuple[int, str, str]]:
    """A broker that knows our peers; its pid, and where they find it on this machine and by tcp.

    Args:
        path: of its socket.
        further: what else it is told.
    """
    control, theirs = Channel.pair()
    orders: Sequence[Mapping[str, object]] = (
        *further,
        {"t": "principal", "name": "local", "secret": SECRET, "claims": ["near/*", "far/*"]},
        {"t": "key", "name": "remote", "public": THEIRS.public, "claims": ["near/*"]},
        {"t": "listen", "url": "tcp://127.0.0.1:*", "public": OURS.public, "secret": OURS.secret},
    )
    for order in orders:
        control.send(msgpack.packb(order))
    inherited = theirs.detach()
    arguments = ("--endpoint", f"ipc://{path}", "--control-fd", str(inherited), "--host-pid", str(os.getpid()))
    with contextlib.closing(control), running("partyctl_broker", *arguments, fds=(inherited,)) as process:
        os.close(inherited)
        told: dict[str, str] = {}
        while not {"url", "endpoint"} <= told.keys():
            received = control.receive(timeout=10)
            if received is None:
                raise SystemExit("the broker did not start")
            told |= msgpack.unpackb(received.data)
        yield process.pid, told["endpoint"], Endpoint.write(told["url"], decode_z85(OURS.public))


@contextlib.contextmanager
def ends() -> Iterator[dict[str, End]]:
    """Everything up and warm."""
    with contextlib.ExitStack() as stack:
        directory = tempfile.mkdtemp(prefix="pb-", dir="/tmp")
        stack.callback(shutil.rmtree, directory)
        router, ipc, tcp = stack.enter_context(broker(f"{directory}/ours"))
        bare = f"ipc://{directory}/bare"

        def start(module: str, *arguments: str, piped: bool = True) -> Runner:
            return Runner(stack.enter_context(running(module, *arguments, piped=piped)))

        loop = start(YARDSTICK, "loop", bare, piped=False)
        bare_far = start(YARDSTICK, "far", bare, piped=False)
        far = start(PEER, "far", ipc, "local", SECRET.hex())
        far.read()
        found: dict[str, End] = {}
        for name, near, middle, other in (
            (BARE, start(YARDSTICK, "near", bare), loop.pid, bare_far.pid),
            (IPC, start(PEER, "near", ipc, "local", SECRET.hex()), router, far.pid),
            (TCP, start(PEER, "near", tcp, "remote", THEIRS.secret_bytes.hex()), router, far.pid),
        ):
            near("trips", 200)
            near("exchanges", EXCHANGES, 2)
            found[name] = End(near, (near.pid, middle, other))
        found[IPC].near("exchanges_apart", EXCHANGES, 2)
        yield found


def comparisons(found: Mapping[str, End]) -> list[Comparison]:
    """What is compared, and the targets."""
    exchanges: dict[str, Variant] = {name: end.exchanges for name, end in found.items()}
    return [
        Comparison(
            f"{TRIPS} round trips, one after the other",
            {name: end.trips for name, end in found.items()},
            (
                Target(IPC, "p50 ms", 1.25, BARE),
                Target(IPC, "p99 ms", 2.0, BARE),
                Target(TCP, "p50 ms", 1.5, BARE),
                Target(TCP, "p99 ms", 2.0, BARE),
            ),
        ),
        Comparison(
            f"{ONE_WAY} messages one way",
            {name: end.one_way for name, end in found.items()},
            (Target(IPC, "per second", 1.0, BARE, at_least=True),),
        ),
        Comparison(
            f"{EXCHANGES} exchanges of {STEPS} requests and replies at once, steps",
            exchanges | {APART: lambda: found[IPC].exchanges("exchanges_apart")},
            (Target(IPC, "per second", 2.0, BARE, at_least=True),),
        ),
    ]


@contextlib.contextmanager
def setting() -> Iterator[list[Comparison]]:
    """A round's processes."""
    with ends() as found:
        yield comparisons(found)


def main() -> int:
    """Measure and print; 1 if a target is missed."""
    options = parser(__doc__, rounds=8).parse_args()
    return run(setting, options)


if __name__ == "__main__":
    sys.exit(main())
