"""The host of a party: takes the lock, starts the tree, answers at the doors, drains and stops.

States: starting -> ready -> draining -> stopping. The first SIGINT or SIGTERM drains: no new run, wait for the running
ones, then stop. The second stops at once. `partyctl down` does the same through the doors. Before it is ready a host
has nothing to drain, and the first signal stops it.
"""

import asyncio
import math
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from partyctl.config import PartyConfig
from partyctl.config_text import fingerprint
from partyctl.errors import HostError, Owner
from partyctl.host import report
from partyctl.host.budget import GiveUp, RestartPolicy
from partyctl.host.children import Children
from partyctl.host.chronicle import Chronicle, Witness
from partyctl.host.doors import BadRequest, Caller, Doors
from partyctl.host.drain import Drain
from partyctl.host.listening import Listening
from partyctl.host.lock import PartyLock, StateLock
from partyctl.host.tree import Tree, counted
from partyctl.hostlog import log_path, rotate
from partyctl.keys import Keys
from partyctl.maps import Map
from partyctl.nodes import owner_of
from partyctl_base.ids import RandomIds
from partyctl_base.paths import runtime_directory
from partyctl_base.process import set_child_subreaper
from partyctl_confinement import reaper

FAREWELL = "the host before ended without a farewell: it was killed, or the machine went down"
"""Of a host that left its name in the lock."""

LOOK = 2.0
"""Seconds between two looks at the length of host.log, and at the clock; a look is a few calls of the kernel."""

SUSPENDED_MIN = 5.0
"""Seconds by which a look must be late to be told: a machine that is merely busy makes it late too."""

SUSPENDED = "the host was stopped, or its machine slept; limits do not count the time"

DRAIN_LIMIT = 30.0
"""Seconds the running runs get to end after the first signal."""

CODE_HOSTS = 16
"""Code hosts of one node that are not counted as workers."""

ADMIT_LIMIT = 1.0
"""Seconds the broker may take to know somebody new; one that is being started again hears it before anybody else."""

DRAIN_STEP = 0.1
"""Seconds between two questions whether they have."""


def serve(config: PartyConfig, *, ready_fd: int | None = None) -> int:
    """Run a party from start to stop.

    Args:
        config: what to run.
        ready_fd: a descriptor that gets one byte when everything is ready; closed at the end.

    Returns:
        The exit code: 0 after a drain, 130 or 143 when forced by a second signal, 1 when the party gave up.

    Raises:
        AlreadyRunning: another host holds the party's lock; names its pid.
        StateTaken: another host has its state directory.
        HostError: a part did not start; everything that had started is stopped.
    """
    os.umask(0o077)
    directory = runtime_directory(config.name)
    with PartyLock(config.name, directory) as lock, StateLock(config.name):
        set_child_subreaper()
        reaped = reaper.reap_records(directory / "spawned")
        return asyncio.run(_serve(config, directory, ready_fd, lost(lock.lost, reaped)))


async def _serve(config: PartyConfig, directory: Path, ready_fd: int | None, lost: Map | None) -> int:
    return await Host(config, directory, ready_fd, lost).run()


def lost(host: Owner | None, reaped: reaper.Reaped) -> Map | None:
    """What is told of a host that ended without a farewell, and of what it left; None if there is nothing to tell."""
    if host is None and not reaped.killed:
        return None
    about: Map = {"pid": host.pid if host else None, "started": host.started if host else None}
    return about | {"swept": list(reaped.killed), "left": list(reaped.left)}


def say(line: str) -> None:
    """A line for the person at the terminal, on stderr."""
    print(f"partyctl: {line}", file=sys.stderr, flush=True)


async def _look_around(log: Path, witness: Witness) -> None:
    """For as long as the host runs: keep host.log short, and note when everything stood still for a while."""
    while True:
        rotate(log)
        began = _time_with_sleep()
        await asyncio.sleep(LOOK)
        late = _time_with_sleep() - began - LOOK
        if late >= SUSPENDED_MIN:
            witness.happened("suspended", "party", SUSPENDED, seconds=round(late, 1))


def _time_with_sleep() -> float:
    """Seconds by a clock that nobody sets, and that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Host:
    """One party while it runs."""

    def __init__(self, config: PartyConfig, directory: Path, ready_fd: int | None, lost: Map | None) -> None:
        self._config = config
        self._directory = directory
        self._ready_fd = ready_fd
        self._lost = lost
        self._nodes = config.nodes or os.cpu_count() or 1
        self.state = "starting"
        self._started = time.time()
        self._ready = asyncio.Event()
        self._stop = asyncio.Event()
        self._forced = 0
        self._gave_up = ""
        self._followed = 0
        self._chronicle = Chronicle(config.name)
        workers = config.limits.workers
        listen, restarts = config.listen, config.restarts
        self._listening = Listening(listen.url, Keys(config.name), say, self._chronicle) if listen else None
        self.tree = Tree(
            directory,
            self._nodes,
            Children(self._chronicle.wrote),
            say,
            self._give_up,
            witness=self._chronicle,
            # Code hosts are the launcher's children too; the limit of the file is about workers.
            max_workers=workers + self._nodes * CODE_HOSTS if workers else None,
            listening=self._listening,
            policy=RestartPolicy(restarts.intensity, restarts.period, same_deaths=restarts.same_deaths),
        )

    async def run(self) -> int:
        """Start, serve, stop; the exit code."""
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._signalled, number)
        answers = {"status": self._status, "wait": self._wait, "down": self._down, "enter": self._enter}
        answers |= {"keys": self._keys}
        doors = Doors(self._directory, self._config.name, answers, config=fingerprint(self._config))
        if self._lost is not None:
            self._chronicle.happened("host_lost", "host", FAREWELL, **self._lost)
        self._chronicle.happened("starting", "party", pid=os.getpid())
        self.tree.spawn_task(_look_around(log_path(self._config.name), self._chronicle))
        try:
            await self._until_stopped()
        except HostError as error:
            self._gave_up = str(error)
            self._chronicle.happened("gave_up", "party", self._gave_up)
            raise
        finally:
            self.state = "stopping"
            await self.tree.stop()
            await doors.close()
            if not self._gave_up:
                self._chronicle.happened("stopped", "party")
            self._chronicle.close()
        if self._gave_up:
            raise HostError("the party gave up", why=self._gave_up, fix="Mend the cause, then run partyctl up again")
        return 128 + self._forced if self._forced else 0

    async def _until_stopped(self) -> None:
        loop = asyncio.get_running_loop()
        starting = loop.create_task(self.tree.start())
        stopping = loop.create_task(self._stop.wait())
        try:
            await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not self._stop.is_set():
                starting.result()
                self._announce()
                await stopping
        finally:
            starting.cancel()
            stopping.cancel()
            await asyncio.gather(starting, stopping, return_exceptions=True)

    def _announce(self) -> None:
        if self.state == "starting":
            self.state = "ready"
            self._ready.set()
            self._chronicle.happened("ready", "party", nodes=self._nodes)
            say(f"party {self._config.name!r} is up: {self._nodes} nodes, pid {os.getpid()}")
            if self._ready_fd is not None:
                os.write(self._ready_fd, b"1")

    def _give_up(self, part: str, verdict: GiveUp) -> None:
        self._gave_up = f"the {part} is given up: {verdict.why}"
        self._chronicle.happened("gave_up", "party", self._gave_up, part=part, **counted(verdict))
        self._stop.set()

    def _signalled(self, number: signal.Signals) -> None:
        if self.state == "starting":
            say("stopping")
            self._stop.set()
        elif self.state == "ready":
            say("draining; once more to stop at once")
            self.tree.spawn_task(self._drain(DRAIN_LIMIT, say))
        else:
            self._forced = number
            self._stop.set()

    async def _drain(self, limit: float, tell: Callable[[str], None]) -> None:
        if self.state != "stopping":
            self.state = "draining"
            self._chronicle.happened("draining", "party", limit=limit)
        loop = asyncio.get_running_loop()
        drain: Drain | None = Drain(loop.time() + limit, limit)
        while drain is not None:
            drain, lines = drain.step(await report.survey(self.tree), loop.time())
            for line in lines:
                tell(line)
            if drain is not None:
                await asyncio.sleep(DRAIN_STEP)
        self._stop.set()

    # --- what callers at the doors ask ---

    async def _status(self, caller: Caller, request: Map) -> None:
        books = self._chronicle.troubles
        document = await report.document(self.tree, self._config.name, self.state, self._started, books, self._lost)
        await caller.reply({"t": "status", "status": document})

    async def _wait(self, caller: Caller, request: Map) -> None:
        await self._ready.wait()
        await caller.reply({"t": "ready"})

    async def _down(self, caller: Caller, request: Map) -> None:
        limit = 0.0 if request.get("now") else _seconds(request.get("timeout", DRAIN_LIMIT))
        lines: asyncio.Queue[str] = asyncio.Queue()
        drain = self.tree.spawn_task(self._drain(limit, lines.put_nowait))
        while not drain.done() or not lines.empty():
            line = asyncio.ensure_future(lines.get())
            await asyncio.wait((line, drain), return_when=asyncio.FIRST_COMPLETED)
            if line.done():
                await caller.reply({"t": "progress", "text": line.result()})
            line.cancel()
        await caller.reply({"t": "done"})

    async def _keys(self, caller: Caller, request: Map) -> None:
        """The keys have changed: let in those that there are now, and tell where."""
        listening = self._listening
        told: Map = {"t": "keys", "url": None, "is_open": False, "names": None, "directory": None}
        if listening is not None:
            await listening.refresh(str(request.get("revoked") or ""))
            told |= {"url": listening.url, "is_open": listening.is_open}
            told |= {"names": listening.names, "directory": listening.directory}
        await caller.reply(told)

    async def _enter(self, caller: Caller, request: Map) -> None:
        """Let a caller in for one run, or one order to an agent session: a secret, its own address and the node's."""
        session = request.get("session")
        if self.state != "ready" and (session is None or request.get("begins")):
            fix = "Try again in a moment" if self.state == "starting" else "Wait for its end, then partyctl up"
            what = f"the party is {self.state}, it takes no new {'run' if session is None else 'turn'}"
            raise HostError(what, fix=fix)
        if session is None and self._followed >= self._config.limits.runs:
            raise HostError(
                "the party takes no new run",
                why=f"{self._followed} are under way, its limit",
                fix="Wait until one ends, or raise limits.runs in party.toml",
            )
        self._followed += session is None
        run = RandomIds().new_id("run" if session is None else "ask")
        address = f"client/{run}"
        principal = await self.tree.principals.admit(address, (address,))
        try:
            # Nobody is let in who is then refused.
            await self.tree.caught_up("broker", limit=ADMIT_LIMIT)
            secret = os.memfd_create("secret", os.MFD_CLOEXEC)
            try:
                os.write(secret, principal.secret)
                os.lseek(secret, 0, os.SEEK_SET)
                reply: Map = {"t": "entered", "run": run, "endpoint": self.tree.endpoint, "principal": principal.name}
                node = owner_of(run if session is None else str(session), self.tree.node_names, self.tree.given_up)
                await caller.reply(reply | {"address": address, "node": node}, [secret])
            finally:
                os.close(secret)
            # The caller keeps this connection for as long as it follows the run; at its end the secret is void.
            while await caller.hear() is not None:
                continue
        finally:
            self._followed -= session is None
            await self.tree.principals.dismiss(principal.name)


def _seconds(value: object) -> float:
    """A limit that a caller asked for."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise BadRequest("the timeout is no number of seconds", why=repr(value)[:100])
    return float(value)
