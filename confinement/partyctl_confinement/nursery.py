"""The launcher's children: forks them, drains what they print, kills their trees, and says when each is gone.

A worker counts as gone when its exit status was taken and no orphan is left: what a dead worker leaves behind
becomes a child of the launcher, and every child that is no worker is killed with its tree. Whose orphan it was cannot
be told, so the ends of several workers may wait for each other, at most ORPHANS_MAX seconds.
"""

import contextlib
import os
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from partyctl_base import process
from partyctl_confinement import birth, limits, records
from partyctl_confinement.birth import Parents
from partyctl_confinement.endings import NOTHING_HIT, Ending, Hit, explain
from partyctl_confinement.errors import SpawnRefused
from partyctl_confinement.oom import OomCounter
from partyctl_confinement.reaper import kill_tree, parent_and_start
from partyctl_confinement.requests import FORK, Spawn
from partyctl_confinement.starting import Starting
from partyctl_confinement.tail import Tail

ORPHANS_MAX: Final = 1.0
"""Seconds that the end of a worker is held back while orphans are still dying."""

KILLING_MAX: Final = 0.25
"""Seconds of one go at a tree that forks faster than it is stopped, before others have their turn."""

_READ: Final = 64 * 1024
_READS_AT_END: Final = 32
"""Reads of a dead worker's output: more than a pipe holds, and an end to whoever still writes."""


@dataclass(slots=True, eq=False)
class Worker:
    """One worker, from its fork to its exit notice.

    Attributes:
        client: whoever asked for it.
        output: the reading end of its standard output and error; -1 once it was closed.
        started: seconds since the epoch.
        oom_kills: out-of-memory kills that had been counted when it started; None if nobody counts.
        cause: why it ends: "exit" unless somebody here wanted it.
        wait_status: as `os.waitpid` gives it; None while it lives.
        died: when its status was taken, in monotonic seconds.
        hit: the limit that ended it.
    """

    request: Spawn
    client: object
    pid: int
    output: int
    started: float
    oom_kills: int | None = None
    tail: Tail = field(default_factory=Tail)
    cause: str = "exit"
    wait_status: int | None = None
    usage: "resource.struct_rusage | None" = None
    died: float = 0.0
    hit: Hit = NOTHING_HIT

    @property
    def id(self) -> str:
        """Its id, chosen by its client."""
        return self.request.id


class Nursery:
    """All children of the launcher.

    Args:
        records_directory: where spawn records go; None: nowhere.
        parents: what every worker gets.
        oom: who counts out-of-memory kills.
        heard: called with each piece that a worker printed.

    Attributes:
        starting: those of them that have not come to their main.
    """

    def __init__(
        self,
        *,
        records_directory: Path | None,
        parents: Parents,
        oom: OomCounter,
        heard: Callable[[Worker, bytes], None] = lambda _worker, _piece: None,
    ) -> None:
        self._records = records_directory
        self._parents = parents
        self._oom = oom
        self._heard = heard
        self._pid = os.getpid()
        self._boot = process.boot_id()
        self._by_id: dict[str, Worker] = {}
        self._by_pid: dict[int, Worker] = {}
        self._dead: list[Worker] = []
        self._orphans = False
        self.starting = Starting()

    @property
    def busy(self) -> bool:
        """Whether something is dying: `collect` should be called again in some milliseconds."""
        return self._orphans or bool(self._dead)

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Worker]:
        return iter(list(self._by_id.values()))

    def get(self, worker_id: str) -> Worker | None:
        """The worker of that id, until its end was collected."""
        return self._by_id.get(worker_id)

    def spawn(self, request: Spawn, client: object) -> tuple[Worker, int]:
        """Fork a worker. Its spawn record is written before its main begins.

        Returns:
            The worker, and the descriptor of the client's end of its pair.

        Raises:
            SpawnRefused: the id is taken, a limit or the program is impossible here, or the machine has no room.
        """
        if why := self.impossible(request):
            raise SpawnRefused("the worker cannot be started here", where=request.id, why=why)
        oom_kills = self._oom.read()
        try:
            born = birth.fork(request, self._parents, self.starting.writing)
        except OSError as error:
            raise SpawnRefused("the machine has no room for a worker", why=error.strerror or str(error)) from error
        worker = Worker(request, client, born.pid, born.output, time.time(), oom_kills)
        self._by_id[worker.id] = self._by_pid[born.pid] = worker
        self.starting.add(born.pid, time.monotonic())
        try:
            self._record(born.pid)
        except OSError as error:
            # Unrecorded, it could outlive a killed party unseen.
            os.close(born.end)
            self.close_output(worker)
            worker.client = None  # who asked for it was refused, and hears of no end
            self.kill(worker, "killed")
            where = os.path.dirname(error.filename or "")  # it may have been removed under a party that runs
            raise SpawnRefused(
                "the worker's spawn record cannot be written", where=where, why=error.strerror or ""
            ) from error
        with contextlib.suppress(OSError):  # killed by somebody in between: its exit notice comes
            born.begin()
        return worker, born.end

    def impossible(self, request: Spawn) -> str:
        """Why this request can never be met here; empty if it can."""
        if request.id in self._by_id:
            return "a worker of this id is alive"
        if request.argv and not (os.path.isfile(request.argv[0]) and os.access(request.argv[0], os.X_OK)):
            return f"{request.argv[0]} is no executable file"
        if not request.limits:
            return ""
        return limits.impossible(request.limits, limits.Machine.of_this_process(), fork=request.mode == FORK)

    def _record(self, pid: int) -> None:
        found = parent_and_start(pid) if self._records is not None else None
        if self._records is not None and found is not None:
            records.write(self._records, process.ProcessIdentity(pid, found[1], self._boot))

    def kill(self, worker: Worker, cause: str) -> None:
        """Kill the worker with its whole tree; its end comes by `collect`. Nothing happens if it is dead already."""
        if worker.wait_status is None:
            worker.cause = cause
            kill_tree(worker.pid, parent=self._pid, hurry=_soon())

    def drain(self, worker: Worker) -> bool:
        """Read once what the worker printed; False at end-of-file. Keeps the last of it only."""
        try:
            piece = os.read(worker.output, _READ)
        except BlockingIOError:
            return True
        self._hear(worker, piece)
        return bool(piece)

    def _hear(self, worker: Worker, piece: bytes) -> None:
        worker.tail.feed(piece)
        if piece:
            self._heard(worker, piece)

    def close_output(self, worker: Worker) -> None:
        """Close the reading end of the worker's output; idempotent."""
        if worker.output >= 0:
            os.close(worker.output)
            worker.output = -1

    def collect(self) -> list[Worker]:
        """Take exit statuses, kill orphans, and hand out the workers that are now gone, with all they printed."""
        self._reap()
        # The kernel may skip a child in its list while another one exits: an end needs two looks that find nobody.
        self._orphans = self._kill_orphans() or (bool(self._dead) and self._kill_orphans())
        if self._orphans:
            self._reap()
        now = time.monotonic()
        gone = [worker for worker in self._dead if not self._orphans or now - worker.died > ORPHANS_MAX]
        self._dead = [worker for worker in self._dead if worker not in gone]
        for worker in gone:
            del self._by_id[worker.id]
            self._drain_to_end(worker)
            worker.hit = self._explain(worker)
        return gone

    def _explain(self, worker: Worker) -> Hit:
        usage, oom_kills = worker.usage, self._oom.read()
        if worker.wait_status is None or usage is None:
            return NOTHING_HIT
        counted = None if oom_kills is None or worker.oom_kills is None else oom_kills - worker.oom_kills
        ending = Ending(
            worker.wait_status,
            asked=worker.cause != "exit",
            limits=limits.effective(worker.request.limits),
            cpu=usage.ru_utime + usage.ru_stime,
            resident=usage.ru_maxrss * 1024,
            oom_kills=counted,
            oom_source=self._oom.source,
            last_line=worker.tail.bytes().rstrip().rpartition(b"\n")[2],
        )
        return explain(ending)

    def _reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.starting.forget(pid)
            worker = self._by_pid.pop(pid, None)
            if worker is None:
                continue  # an orphan
            worker.wait_status, worker.usage = status, usage
            worker.died = time.monotonic()
            self._dead.append(worker)
            if self._records is not None:
                records.remove(self._records, pid)

    def _kill_orphans(self) -> bool:
        strangers = [pid for pid in process.children(self._pid) if pid not in self._by_pid]
        hurry = _soon()
        for stranger in strangers:
            kill_tree(stranger, parent=self._pid, hurry=hurry)
        return bool(strangers)

    def _drain_to_end(self, worker: Worker) -> None:
        if worker.output < 0:
            return
        with contextlib.suppress(BlockingIOError):
            for _ in range(_READS_AT_END):
                piece = os.read(worker.output, _READ)
                if not piece:
                    break
                self._hear(worker, piece)


def _soon() -> Callable[[], bool]:
    """True once the launcher has been killing for as long as it may keep others waiting."""
    end = time.monotonic() + KILLING_MAX
    return lambda: time.monotonic() >= end


def raise_nofile() -> int:
    """Let the launcher itself open as many files as it may; the soft limit it was started with."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft
