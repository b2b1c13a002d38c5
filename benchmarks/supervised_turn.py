"""What a supervised turn costs, `python -m benchmarks.supervised_turn`: prompt to result, through a worker process,
against a provider that answers at once. The yardstick, yardsticks/echo_pair.py, sends the same bytes there and back."""

import asyncio
import os
import socket
import sys
import time
from collections.abc import Mapping

from benchmarks.harness import Comparison, Target, parser, run, spread
from benchmarks.yardsticks.echo_pair import echo_pair
from partyctl.embedded import PrivateHost
from partyctl_actors.supervision import Supervisor, WorkerPlan
from partyctl_plugins import manager
from partyctl_plugins.contract import ApprovalPolicy, ConversationSpec, NativePermissions, TransportKind, TurnRequest

TURNS = 50
PROMPT = "Write the article. " * 20


async def turns(supervisor: Supervisor) -> Mapping[str, float]:
    """Turns, one after the other."""
    times: list[float] = []
    for number in range(TURNS):
        start = time.perf_counter()
        result = await supervisor.turn(f"turn-{number}", TurnRequest(PROMPT))
        times.append((time.perf_counter() - start) * 1000)
        assert result.text == "done"
    return spread(times)


def echoes(pair: socket.socket) -> Mapping[str, float]:
    """Echoes, one after the other."""
    times: list[float] = []
    for _ in range(TURNS):
        start = time.perf_counter()
        pair.send(PROMPT.encode())
        pair.recv(65536)
        times.append((time.perf_counter() - start) * 1000)
    return spread(times)


async def started(workers: PrivateHost, count: int) -> Supervisor:
    """A supervisor whose worker answers `count` turns."""
    spec = ConversationSpec(os.getcwd(), NativePermissions.bypass(), ApprovalPolicy.DENY)
    script = {"script": [[{"say": "done"}]] * count}
    plan = WorkerPlan(manager.resolve("scripted"), TransportKind.STREAM, spec, script)
    supervisor = Supervisor(await workers.client(), plan, lambda event: None)
    await supervisor.open()
    return supervisor


def main() -> int:
    """Measure and print; 1 if a target is missed."""
    options = parser(__doc__, rounds=10).parse_args()
    pair = echo_pair()
    with asyncio.Runner() as runner:
        workers = PrivateHost()
        supervisor = runner.run(started(workers, options.rounds * TURNS))
        variants = {"supervised turn": lambda: runner.run(turns(supervisor)), "echo": lambda: echoes(pair)}
        try:
            title = f"{TURNS} turns with a provider that answers at once"
            return run([Comparison(title, variants, [Target("supervised turn", "p50 ms", 5.0)])], options)
        finally:
            runner.run(supervisor.close())
            runner.run(workers.close())
            pair.close()
            os.wait()


if __name__ == "__main__":
    sys.exit(main())
