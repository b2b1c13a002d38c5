"""Letters through the broker, against a bare pyzmq loop that guarantees nothing: `python -m benchmarks.broker`.

Ours is the broker process and two peers on asyncio, with secrets, claim rules, windows and receipts; the far one is
local, and the near one comes by ipc or by tcp with CURVE. The yardstick is yardsticks/forwarding_loop.py, over ipc. All
are up all the time. Every payload has 200 bytes; one-way messages are counted by their receiver, and none may be lost.
"""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import msgpack

from benchmarks.errands import Runner, running
from benchmarks.harness import Comparison, Target, parser, run, spread
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
class Ends:
    """The three that measure."""

    bare: Runner
    ipc: Runner
    tcp: Runner


@contextlib.contextmanager
def broker(path: str) -> Iterator[tuple[str, str]]:
    """A broker that knows our peers; where they find it on this machine, and by tcp."""
    control, theirs = Channel.pair()
    orders: Sequence[Mapping[str, object]] = (
        {"t": "principal", "name": "local", "secret": SECRET, "claims": ["near/*", "far/*"]},
        {"t": "key", "name": "remote", "public": THEIRS.public, "claims": ["near/*"]},
        {"t": "listen", "url": "tcp://127.0.0.1:*", "public": OURS.public, "secret": OURS.secret},
    )
    for order in orders:
        control.send(msgpack.packb(order))
    inherited = theirs.detach()
    arguments = ("--endpoint", f"ipc://{path}", "--control-fd", str(inherited), "--host-pid", str(os.getpid()))
    with contextlib.closing(control), running("partyctl_broker", *arguments, fds=(inherited,)):
        os.close(inherited)
        told: dict[str, str] = {}
        while not {"url", "endpoint"} <= told.keys():
            received = control.receive(timeout=10)
            if received is None:
                raise SystemExit("the broker did not start")
            told |= msgpack.unpackb(received.data)
        yield told["endpoint"], Endpoint.write(told["url"], decode_z85(OURS.public))


@contextlib.contextmanager
def ends() -> Iterator[Ends]:
    """Everything up and warm."""
    with contextlib.ExitStack() as stack:
        directory = tempfile.mkdtemp(prefix="pb-", dir="/tmp")
        stack.callback(shutil.rmtree, directory)
        ipc, tcp = stack.enter_context(broker(f"{directory}/ours"))
        bare = f"ipc://{directory}/bare"

        def start(module: str, *arguments: str, piped: bool = True) -> Runner:
            return Runner(stack.enter_context(running(module, *arguments, piped=piped)))

        start(YARDSTICK, "loop", bare, piped=False)
        start(YARDSTICK, "far", bare, piped=False)
        start(PEER, "far", ipc, "local", SECRET.hex()).read()
        found = Ends(
            start(YARDSTICK, "near", bare),
            start(PEER, "near", ipc, "local", SECRET.hex()),
            start(PEER, "near", tcp, "remote", THEIRS.secret_bytes.hex()),
        )
        for end in (found.bare, found.ipc, found.tcp):
            end("trips", 200)
            end("exchanges", EXCHANGES, 2)
        found.ipc("exchanges_apart", EXCHANGES, 2)
        yield found


def comparisons(found: Ends) -> list[Comparison]:
    """What is compared, and the targets."""

    def trips(end: Runner) -> Callable[[], Mapping[str, float]]:
        return lambda: spread(cast(list[float], end("trips", TRIPS)))

    def rate(end: Runner, errand: str, *arguments: int) -> Callable[[], Mapping[str, float]]:
        count = arguments[0] * (arguments[1] if len(arguments) > 1 else 1)
        return lambda: {"per second": count / cast(float, end(errand, *arguments))}

    by_name = {BARE: found.bare, IPC: found.ipc, TCP: found.tcp}
    exchanges = {name: rate(end, "exchanges", EXCHANGES, STEPS) for name, end in by_name.items()}
    return [
        Comparison(
            f"{TRIPS} round trips, one after the other",
            {name: trips(end) for name, end in by_name.items()},
            (
                Target(IPC, "p50 ms", 1.25, BARE),
                Target(IPC, "p99 ms", 2.0, BARE),
                Target(TCP, "p50 ms", 1.5, BARE),
                Target(TCP, "p99 ms", 2.0, BARE),
            ),
        ),
        Comparison(
            f"{ONE_WAY} messages one way",
            {name: rate(end, "one_way", ONE_WAY) for name, end in by_name.items()},
            (Target(IPC, "per second", 1.0, BARE, at_least=True),),
        ),
        Comparison(
            f"{EXCHANGES} exchanges of {STEPS} requests and replies at once, steps",
            exchanges | {APART: rate(found.ipc, "exchanges_apart", EXCHANGES, STEPS)},
            (Target(IPC, "per second", 2.0, BARE, at_least=True),),
        ),
    ]


def main() -> int:
    """Measure and print; 1 if a target is missed."""
    options = parser(__doc__, rounds=15).parse_args()
    with ends() as found:
        return run(comparisons(found), options)


if __name__ == "__main__":
    sys.exit(main())
