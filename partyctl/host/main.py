"""The host of a party: takes the lock, starts the tree, answers at the doors, drains and stops.

States: starting -> ready -> draining -> stopped. The first SIGINT or SIGTERM drains: no new run, wait for the running
ones, then stop. The second stops at once. `partyctl down` does the same through the doors.
"""

import asyncio
import os
import signal
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path

from partyctl.config import PartyConfig
from partyctl.errors import HostError
from partyctl.host import report
from partyctl.host.doors import Caller, Doors
from partyctl.host.lock import PartyLock
from partyctl.host.tree import Tree
from partyctl.maps import Map, maps
from partyctl_base.ids import RandomIds
from partyctl_base.paths import runtime_directory
from partyctl_confinement import reaper
from partyctl_base.process import set_child_subreaper

DRAIN_LIMIT = 30.0
"""Seconds the running runs get to end after the first signal."""


def serve(config: PartyConfig, *, ready_fd: int | None = None) -> int:
    """Run a party from start to stop.

    Args:
        config: what to run.
        ready_fd: a descriptor that gets one byte when everything is ready; closed at the end.

    Returns:
        The exit code: 0 after a drain, 130 or 143 when forced by a second signal, 1 when the party gave up.

    Raises:
        AlreadyRunning: another host holds the party's lock; names its pid.
        HostError: a part did not start; everything that had started is stopped.
    """
    os.umask(0o077)
    directory = runtime_directory(config.name)
    with PartyLock(config.name, directory):
        set_child_subreaper()
        reaper.reap_records(directory / "spawned")
        return asyncio.run(_serve(config, directory, ready_fd))


async def _serve(config: PartyConfig, directory: Path, ready_fd: int | None) -> int:
    return await Host(config, directory, ready_fd).run()


def say(line: str) -> None:
    """A line for the person at the terminal, on stderr."""
    print(f"partyctl: {line}", file=sys.stderr, flush=True)


class Host:
    """One party while it runs."""

    def __init__(self, config: PartyConfig, directory: Path, ready_fd: int | None) -> None:
        self._config = config
        self._directory = directory
        self._ready_fd = ready_fd
        self._nodes = config.nodes or os.cpu_count() or 1
        self.state = "starting"
        self._started = time.time()
        self._ready = asyncio.Event()
        self._stop = asyncio.Event()
        self._forced = 0
        self._gave_up: str | None = None
        self._entered: dict[str, Caller] = {}
        self.tree = Tree(directory, self._nodes, say, self._give_up)

    async def run(self) -> int:
        """Start, serve, stop; the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._signalled, number)
        answers = {"status": self._status, "wait": self._wait, "down": self._down, "enter": self._enter}
        doors = Doors(self._directory, self._config.name, answers)
        try:
            starting = loop.create_task(self.tree.start())
            stopping = loop.create_task(self._stop.wait())
            await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                self._announce()
                await stopping
            starting.cancel()
        finally:
            self.state = "stopping"
            await self.tree.stop()
            await doors.close()
        if self._gave_up:
            raise HostError("the party gave up", why=self._gave_up, fix="Mend the cause, then run partyctl up again")
        return 128 + self._forced if self._forced else 0

    def _announce(self) -> None:
        if self.state == "starting":
            self.state = "ready"
        self._ready.set()
        say(f"party {self._config.name!r} is up: {self._nodes} nodes, pid {os.getpid()}")
        if self._ready_fd is not None:
            os.write(self._ready_fd, b"1")

    def _give_up(self, why: str) -> None:
        self._gave_up = why
        self._stop.set()

    def _signalled(self, number: signal.Signals) -> None:
        if self.state == "draining":
            self._forced = number
            self._stop.set()
        else:
            say("draining; once more to stop at once")
            self.tree.spawn_task(self._drain(DRAIN_LIMIT, say))

    async def _drain(self, limit: float, tell: Callable[[str], None]) -> None:
        self.state = "draining"
        deadline = asyncio.get_running_loop().time() + limit
        told: set[str] = set()
        while runs := [run for node in await report.nodes(self.tree) for run in maps(node.get("runs"))]:
            for run in runs:
                if (name := str(run["id"])) not in told:
                    told.add(name)
                    tell(f"waiting for run {name}")
            if asyncio.get_running_loop().time() > deadline:
                tell(f"{len(runs)} runs did not end within {limit:.0f} s and are cut off")
                break
            await asyncio.sleep(0.1)
        self._stop.set()

    async def _status(self, caller: Caller, request: Map) -> None:
        document = await report.document(self.tree, self._config.name, self.state, self._started)
        await caller.reply({"t": "status", "status": document})

    async def _wait(self, caller: Caller, request: Map) -> None:
        await self._ready.wait()
        await caller.reply({"t": "ready"})

    async def _down(self, caller: Caller, request: Map) -> None:
        limit = 0.0 if request.get("now") else float(str(request.get("timeout", DRAIN_LIMIT)))
        lines: asyncio.Queue[str] = asyncio.Queue()
        drain = asyncio.get_running_loop().create_task(self._drain(limit, lines.put_nowait))
        while not drain.done() or not lines.empty():
            line = asyncio.ensure_future(lines.get())
            await asyncio.wait((line, drain), return_when=asyncio.FIRST_COMPLETED)
            if line.done():
                await caller.reply({"t": "progress", "text": line.result()})
            line.cancel()
        await caller.reply({"t": "done"})

    async def _enter(self, caller: Caller, request: Map) -> None:
        """Let a caller in for one run: a secret and two addresses, its own and that of the node that takes the run."""
        if self.state != "ready":
            await caller.reply({"t": "failed", "error": f"the party is {self.state}, it takes no new run"})
            return
        run = RandomIds().new_id("run")
        address = f"client/{run}"
        principal = await self.tree.admit(address, (address,))
        node = f"node/{zlib.crc32(run.encode()) % self._nodes}"
        secret = os.memfd_create("secret", os.MFD_CLOEXEC)
        os.write(secret, principal.secret)
        os.lseek(secret, 0, os.SEEK_SET)
        reply: Map = {"t": "entered", "run": run, "endpoint": self.tree.endpoint, "principal": principal.name}
        await caller.reply(reply | {"address": address, "node": node}, [secret])
        os.close(secret)
        # The caller keeps this connection open for as long as it follows the run; at its end the secret is void.
        while await caller.channel.receive() is not None:
            continue
        await self.tree.dismiss(principal.name)
