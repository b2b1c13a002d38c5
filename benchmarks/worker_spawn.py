"""How long a worker takes to be ready, and what 200 of them cost.

    python benchmarks/worker_spawn.py
    python benchmarks/worker_spawn.py --main partyctl_plugins.worker:main --preload partyctl_plugins.worker

Ready is the time from the spawn request to the first record that the worker's main sends. Memory is proportional set
size (/proc/PID/smaps_rollup), read while all workers are up.
"""

import argparse
import asyncio
import json
import statistics
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

from partyctl_base.aio import AsyncChannel
from partyctl_confinement.client import Hired, LauncherClient
from partyctl_confinement.control import LauncherProcess

Mode = Literal["fork", "exec"]

READY_P50_MAX = 15.0
PSS_MAX = 6.0
"""The targets: milliseconds, and MiB of each of 200 workers at once."""


@dataclass(frozen=True)
class Figures:
    """What was measured; times in milliseconds, memory in MiB."""

    main: str
    one_by_one: int
    ready_p50: float
    ready_p99: float
    at_once: int
    came_up: int
    all_up: float
    answer_p50: float
    answer_p99: float
    pss_median: float
    pss_max: float
    pss_launcher: float

    def ok(self) -> bool:
        """Whether the targets are met."""
        return self.ready_p50 <= READY_P50_MAX and self.pss_max <= PSS_MAX and self.came_up == self.at_once


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


async def measure(launcher: LauncherProcess, main: str, one_by_one: int, at_once: int, mode: Mode) -> Figures:
    """All figures of one main."""
    client = LauncherClient(AsyncChannel(launcher.add_client("benchmark")))
    times: list[float] = []
    for number in range(one_by_one):
        hired, milliseconds = await until_ready(client, main, number, mode)
        times.append(milliseconds)
        await dismiss(hired)
    enough = threading.Event()
    asking = asyncio.create_task(asyncio.to_thread(status_times, launcher, enough))
    start = time.perf_counter()
    crowd = [hired for hired, _ in await asyncio.gather(*(until_ready(client, main, n, mode) for n in range(at_once)))]
    all_up = (time.perf_counter() - start) * 1000
    enough.set()
    answers = await asking
    sizes = [pss(hired.pid) for hired in crowd]
    figures = Figures(
        main=main,
        one_by_one=one_by_one,
        ready_p50=statistics.median(times),
        ready_p99=statistics.quantiles(times, n=100, method="inclusive")[98],
        at_once=at_once,
        came_up=len(crowd),
        all_up=all_up,
        answer_p50=statistics.median(answers),
        answer_p99=statistics.quantiles(answers, n=100, method="inclusive")[98] if len(answers) > 1 else answers[0],
        pss_median=statistics.median(sizes),
        pss_max=max(sizes),
        pss_launcher=pss(launcher.pid),
    )
    await asyncio.gather(*(dismiss(hired) for hired in crowd))
    await client.close()
    return figures


def table(figures: Figures) -> str:
    """The figures for people."""
    rows = [
        (f"ready, {figures.one_by_one} one by one, p50", f"{figures.ready_p50:.1f} ms", f"at most {READY_P50_MAX:g}"),
        (f"ready, {figures.one_by_one} one by one, p99", f"{figures.ready_p99:.1f} ms", ""),
        (f"{figures.at_once} at once, came up", str(figures.came_up), "all"),
        (f"{figures.at_once} at once, all ready", f"{figures.all_up:.0f} ms", ""),
        ("status meanwhile, p50", f"{figures.answer_p50:.1f} ms", ""),
        ("status meanwhile, p99", f"{figures.answer_p99:.1f} ms", ""),
        ("memory of each, median", f"{figures.pss_median:.2f} MiB", ""),
        ("memory of each, largest", f"{figures.pss_max:.2f} MiB", f"at most {PSS_MAX:g}"),
        ("memory of the launcher", f"{figures.pss_launcher:.2f} MiB", ""),
    ]
    return "\n".join([figures.main, *(f"  {what:<28}{value:>12}   {target}".rstrip() for what, value, target in rows)])


def main() -> int:
    """Measure, print; 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--main", default="tiny_worker:main", help="module:function of the worker")
    parser.add_argument("--preload", default="tiny_worker", help="modules the launcher imports, separated by commas")
    parser.add_argument("--mode", choices=get_args(Mode), default="fork", help="a fork, or a fresh interpreter")
    parser.add_argument("--one-by-one", type=int, default=50, metavar="N")
    parser.add_argument("--at-once", type=int, default=200, metavar="N")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    preload = [name for name in options.preload.split(",") if name]
    environment = {"PYTHONPATH": str(Path(__file__).resolve().parent)}
    launcher = LauncherProcess.start(preload=preload, environment=environment)
    try:
        figures = asyncio.run(measure(launcher, options.main, options.one_by_one, options.at_once, options.mode))
    finally:
        launcher.stop()
    print(json.dumps(asdict(figures)) if options.json else table(figures))
    return 0 if options.mode == "exec" or figures.ok() else 1  # the targets are those of a fork


if __name__ == "__main__":
    sys.exit(main())
