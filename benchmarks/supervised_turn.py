"""What a supervised turn costs: prompt to result, through a worker process, against a provider that answers at once.

    python benchmarks/supervised_turn.py [--json]

Interleaved with it, in the same rounds, the yardstick: a bare echo of the same bytes through a pair of the same kind to
a forked process that does nothing else.
"""

import argparse
import asyncio
import json
import os
import socket
import statistics
import sys
import time

from partyctl.embedded import PrivateHost
from partyctl_actors.supervision import Supervisor, WorkerPlan
from partyctl_plugins import manager
from partyctl_plugins.contract import (
    ApprovalPolicy,
    ConversationSpec,
    NativePermissions,
    TransportKind,
    TurnRequest,
)

TARGET_P50_MS = 5.0
ROUNDS, TURNS = 10, 50


def echo_pair() -> socket.socket:
    """One end of a SOCK_SEQPACKET pair whose other end a forked process echoes, until end-of-file."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork():
        theirs.close()
        return ours
    ours.close()
    while data := theirs.recv(65536):
        theirs.send(data)
    os._exit(0)


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` of the values lie."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


async def measure(pair: socket.socket) -> tuple[list[float], list[float]]:
    """Milliseconds of each supervised turn, and of each bare echo."""
    workers = PrivateHost()
    script = [[{"say": "done"}]] * (ROUNDS * TURNS)
    spec = ConversationSpec(os.getcwd(), NativePermissions.bypass(), ApprovalPolicy.DENY)
    plan = WorkerPlan(manager.resolve("scripted"), TransportKind.STREAM, spec, {"script": script})
    supervisor = Supervisor(await workers.client(), plan, lambda event: None)
    turns: list[float] = []
    echoes: list[float] = []
    prompt = "Write the article. " * 20
    try:
        await supervisor.open()
        for _ in range(ROUNDS):
            for number in range(TURNS):
                start = time.perf_counter()
                result = await supervisor.turn(f"turn-{number}", TurnRequest(prompt))
                turns.append((time.perf_counter() - start) * 1000)
                assert result.text == "done"
            for _ in range(TURNS):
                start = time.perf_counter()
                pair.send(prompt.encode())
                pair.recv(65536)
                echoes.append((time.perf_counter() - start) * 1000)
    finally:
        await supervisor.close()
        await workers.close()
    return turns, echoes


def main() -> int:
    """Measure, print, and say by the exit status whether the target is met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    pair = echo_pair()
    turns, echoes = asyncio.run(measure(pair))
    pair.close()
    os.wait()
    figures = {
        "turn_p50_ms": round(statistics.median(turns), 3),
        "turn_p99_ms": round(percentile(turns, 0.99), 3),
        "echo_p50_ms": round(statistics.median(echoes), 3),
        "ratio_p50": round(statistics.median(turns) / statistics.median(echoes), 1),
        "target_p50_ms": TARGET_P50_MS,
    }
    if arguments.json:
        print(json.dumps({"schema_version": 1, **figures}))
    else:
        print("supervised turn, scripted provider that answers at once (ms)")
        print("\n".join(f"  {name:<14} {value:>8}" for name, value in figures.items()))
    return 0 if figures["turn_p50_ms"] <= TARGET_P50_MS else 1


if __name__ == "__main__":
    sys.exit(main())
