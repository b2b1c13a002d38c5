"""Reaps what a living worker's children lost to it.

A worker is a subreaper: a process that its CLI's tools start in the background becomes the worker's own child when its
parent ends, and a zombie when it ends itself. Nobody asked for its status, so it would stay for as long as the worker
lives (one report counts 303). But the kernel does not tell an adopted child from one that the plugin started and is
about to wait for, and taking the status of that one would lose it. So a child is reaped only when it is nobody's:

 1. it was dead already at the look before, a whole turn ago, and
 2. no `subprocess.Popen` that still waits names it, and `multiprocessing` does not know it.
"""

import gc
import os
import subprocess
import sys

from partyctl_base.process import children, is_alive, start_time
from partyctl_confinement.reaper import reap


class Orphans:
    """Remembers which children were dead at the last look."""

    def __init__(self) -> None:
        self._dead: set[tuple[int, int | None]] = set()

    def reap(self) -> list[int]:
        """Look again, best between two turns; the pids that were reaped."""
        dead = {(pid, start_time(pid)) for pid in children(os.getpid()) if not is_alive(pid)}
        forgotten = dead & self._dead
        self._dead = dead
        if not forgotten:
            return []
        waited_for = _waited_for()
        return [pid for pid, _ in forgotten if pid not in waited_for and reap(pid)]


def _waited_for() -> set[int]:
    """The children that an object of this process stands for."""
    if (multiprocessing := sys.modules.get("multiprocessing")) is not None:
        multiprocessing.active_children()  # takes the status of its own, and keeps it
    found = (each for each in gc.get_objects() if isinstance(each, subprocess.Popen))
    return {each.pid for each in found if each.returncode is None}
