"""The launcher's children: forks them, drains what they print, kills their trees, and says when each is gone.

A worker counts as gone when its exit status was taken and no orphan is left: what a dead worker leaves behind
becomes a child of the launcher, and every child that is no worker is killed with its tree. Whose orphan it was cannot
be told, so the ends of several workers may wait for each other, at most ORPHANS_MAX seconds.
"""

import contextlib
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from partyctl_base import process
from partyctl_base.channel import Channel
from partyctl_confinement import child, records
from partyctl_confinement.errors import SpawnRefused
from partyctl_confinement.messages import Spawn
from partyctl_confinement.reaper import kill_tree
from partyctl_confinement.tail import Tail
from partyctl_confinement.title import TitleArea

WORKERS_MAX: Final = 1024
"""Living workers of one launcher."""

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
        output: the reading end of its standard output and error; -1 once it was closed.
        started: seconds since the epoch.
        cause: why it ends: "exit" unless somebody here wanted it.
        wait_status: as `os.waitpid` gives it; None while it lives.
        died: when its status was taken, in monotonic seconds.
    """

    id: str
    name: str
    labels: Mapping[str, str]
    client: object
    pid: int
    output: int
    started: float
    tail: Tail = field(default_factory=Tail)
    cause: str = "exit"
    wait_status: int | None = None
    died: float = 0.0


class Nursery:
    """All children of the launcher.

    Args:
        records_directory: where spawn records go; None: nowhere.
        nofile: the soft limit of open files that workers get.
        area: where their titles go.
    """

    def __init__(self, *, records_directory: Path | None, nofile: int, area: TitleArea) -> None:
        self._records = records_directory
        self._nofile = nofile
        self._area = area
        self._pid = os.getpid()
        self._boot = process.boot_id()
        self._by_id: dict[str, Worker] = {}
        self._by_pid: dict[int, Worker] = {}
        self._dead: list[Worker] = []
        self._orphans = False

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
        """Fork a worker.

        Returns:
            The worker, and the descriptor of the client's end of its pair.

        Raises:
            SpawnRefused: the id is taken, there are too many workers, or the machine has no room.
        """
        if request.id in self._by_id:
            raise SpawnRefused("a worker of this id is alive", where=request.id)
        if len(self._by_id) >= WORKERS_MAX:
            raise SpawnRefused("too many workers are alive", why=f"the launcher starts at most {WORKERS_MAX}")
        try:
            pid, output, end = self._fork(request)
        except OSError as error:
            raise SpawnRefused("the machine has no room for a worker", why=error.strerror or str(error)) from error
        worker = Worker(request.id, request.name, request.labels, client, pid, output, time.time())
        self._by_id[worker.id] = self._by_pid[pid] = worker
        try:
            self._record(pid)
        except OSError as error:
            # Unrecorded, it could outlive a killed party unseen.
            os.close(end)
            self.kill(worker, "killed")
            raise SpawnRefused("the worker's spawn record cannot be written", why=error.strerror or "") from error
        return worker, end

    def _fork(self, request: Spawn) -> tuple[int, int, int]:
        with contextlib.ExitStack() as cleanup:
            near, far = Channel.pair()
            cleanup.callback(near.close)
            cleanup.callback(far.close)
            reading, writing = os.pipe2(os.O_CLOEXEC)
            undo_reading = cleanup.enter_context(contextlib.ExitStack())
            undo_reading.callback(os.close, reading)
            cleanup.callback(os.close, writing)
            os.set_blocking(reading, False)
            plan = child.ChildPlan(
                main=request.main,
                title=f"partyctl: {request.name}",
                launcher=self._pid,
                channel=far.fileno(),
                output=writing,
                nofile=self._nofile,
                area=self._area,
            )
            _flush_output()
            pid = os.fork()
            if pid == 0:
                child.run(plan)
            undo_reading.pop_all()
            return pid, reading, near.detach()

    def _record(self, pid: int) -> None:
        started = process.start_time(pid)
        if self._records is not None and started is not None:
            records.write(self._records, process.ProcessIdentity(pid, started, self._boot))

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
        worker.tail.feed(piece)
        return bool(piece)

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
        return gone

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            worker = self._by_pid.pop(pid, None)
            if worker is None:
                continue  # an orphan
            worker.wait_status = status
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
                worker.tail.feed(piece)


def _soon() -> Callable[[], bool]:
    """True once the launcher has been killing for as long as it may keep others waiting."""
    end = time.monotonic() + KILLING_MAX
    return lambda: time.monotonic() >= end


def _flush_output() -> None:
    """What the launcher printed is its own: a worker must not print it again."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # the host's terminal may be gone
            stream.flush()


def raise_nofile() -> int:
    """Let the launcher itself open as many files as it may; the soft limit it was started with."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft
