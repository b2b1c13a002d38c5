"""How long a worker takes to be ready, and what 200 of them cost: `python -m benchmarks.worker_spawn`.

    python -m benchmarks.worker_spawn --main benchmarks.tiny_worker:main --preload benchmarks.tiny_worker

Ready is the time from the spawn request to the first record that the worker's main sends. Memory is proportional set
size (/proc/PID/smaps_rollup), read while all workers are up. The targets are those of a fork.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Literal, get_args

from benchmarks.errands import ROOT
from benchmarks.harness import Comparison, Target, parser, run, spread
from partyctl_base.aio import AsyncChannel
from partyctl_confinement.client import Hired, LauncherClient
from partyctl_confinement.control import LauncherProcess

Mode = Literal["fork", "exec"]
READY_P50_MAX = 15.0
MEMORY_MAX = 6.0
"""The targets: milliseconds, and MiB of each of the workers that are there at once."""


def pss(pid: int) -> float:
    """The proportional set size of a process in MiB."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"no Pss in the memory map of {pid}")


async def until_ready(client: LauncherClient, main: str, number: int, mode: Mode) -> tuple[Hired, float]:
    """Hire a worker and wait for its first record; the worker and the milliseconds that took."""
    start = time.perf_counter()
    hired = await client.spawn(name=f"bench-{number}", main=main, timeout=60, mode=mode)
    if await hired.channel.receive() is None:
        notice = await hired.exited()
        raise SystemExit(f"{main} {notice.describe()}:\n{notice.stderr.decode(errors='replace')}")
    return hired, (time.perf_counter() - start) * 1000


async def dismiss(hired: Hired) -> None:
    """End a worker."""
    await hired.kill()
    hired.channel.close()


def status_times(launcher: LauncherProcess, enough: threading.Event) -> list[float]:
    """Milliseconds of each answer to the host's question for all workers, asked until it is enough."""
    times: list[float] = []
    while not enough.is_set():
        start = time.perf_counter()
        launcher.workers(timeout=30)
        times.append((time.perf_counter() - start) * 1000)
    return times


async def one_by_one(client: LauncherClient, main: str, count: int, mode: Mode) -> Mapping[str, float]:
    """Workers, each of which is gone before the next is hired."""
    times: list[float] = []
    for number in range(count):
        hired, milliseconds = await until_ready(client, main, number, mode)
        times.append(milliseconds)
        await dismiss(hired)
    return spread(times)


async def at_once(
    launcher: LauncherProcess, client: LauncherClient, main: str, count: int, mode: Mode
) -> Mapping[str, float]:
    """Workers that are all there at the same time, and the host's questions meanwhile."""
    enough = threading.Event()
    asking = asyncio.create_task(asyncio.to_thread(status_times, launcher, enough))
    start = time.perf_counter()
    crowd = [hired for hired, _ in await asyncio.gather(*(until_ready(client, main, n, mode) for n in range(count)))]
    all_up = (time.perf_counter() - start) * 1000
    enough.set()
    answers = {f"status {figure}": value for figure, value in spread(await asking).items()}
    sizes = [pss(hired.pid) for hired in crowd]
    memory = {"median MiB": median(sizes), "largest MiB": max(sizes), "launcher MiB": pss(launcher.pid)}
    await asyncio.gather(*(dismiss(hired) for hired in crowd))
    return {"all ready ms": all_up, **answers, **memory}


def main() -> int:
    """Measure and print; 1 if a target is missed."""
    made = parser(__doc__, rounds=3)
    made.add_argument("--main", default="partyctl_plugins.worker:main", help="module:function of the worker")
    made.add_argument("--preload", default="partyctl_plugins.worker", help="modules the launcher imports, by commas")
    made.add_argument("--mode", choices=get_args(Mode), default="fork", help="a fork, or a fresh interpreter")
    made.add_argument("--one-by-one", type=int, default=50, metavar="N")
    made.add_argument("--at-once", type=int, default=200, metavar="N")
    options = made.parse_args()
    preload = [name for name in options.preload.split(",") if name]
    launcher = LauncherProcess.start(preload=preload, environment={"PYTHONPATH": str(ROOT)})
    with asyncio.Runner() as runner:
        client: LauncherClient = runner.run(connected(launcher))
        what = (options.main, options.one_by_one, options.mode)
        crowd = (launcher, client, options.main, options.at_once, options.mode)
        single, many = f"{options.one_by_one} one by one", f"{options.at_once} at once"
        targets = [Target(single, "p50 ms", READY_P50_MAX), Target(many, "largest MiB", MEMORY_MAX)]
        variants = {single: lambda: runner.run(one_by_one(client, *what)), many: lambda: runner.run(at_once(*crowd))}
        try:
            title = f"workers of {options.main}, by {options.mode}"
            return run([Comparison(title, variants, targets if options.mode == "fork" else ())], options)
        finally:
            runner.run(client.close())
            launcher.stop()


async def connected(launcher: LauncherProcess) -> LauncherClient:
    """A client of the launcher."""
    return LauncherClient(AsyncChannel(launcher.add_client("benchmark")))


if __name__ == "__main__":
    sys.exit(main())
