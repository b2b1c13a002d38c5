"""How many processes the kernel killed for want of memory, as near to the launcher as can be read."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_KEY: Final = b"oom_kill "
_LONGEST: Final = 32 * 1024
"""Bytes of the longest of these files, /proc/vmstat; it is some 5 KiB."""


class OomCounter:
    """Counts the out-of-memory kills in the launcher's cgroup; in the whole machine if its cgroup counts none.

    Args:
        root: where /proc and /sys are; for tests.

    Attributes:
        source: who counts; empty if nobody does.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self.source = ""
        self._fd = -1
        for source, path in _candidates(root):
            with contextlib.suppress(OSError):
                self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                if self.read() is not None:
                    self.source = source
                    return
                self.close()

    def read(self) -> int | None:
        """How many there have been; None if nobody counts."""
        if self._fd < 0:
            return None
        try:
            text = os.pread(self._fd, _LONGEST, 0)
        except OSError:
            return None
        return next((int(line[len(_KEY) :]) for line in text.splitlines() if line.startswith(_KEY)), None)

    def close(self) -> None:
        """Stop counting; idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _candidates(root: Path) -> Iterator[tuple[str, Path]]:
    """Version 2 keeps the count in memory.events, version 1 in memory.oom_control (cgroups(7))."""
    with contextlib.suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text(encoding="utf-8", errors="replace").splitlines():
            _number, controllers, path = line.split(":", 2)
            below = path.lstrip("/")
            if not controllers:
                yield f"the cgroup {path}", root / "sys/fs/cgroup" / below / "memory.events"
            elif "memory" in controllers.split(","):
                yield f"the cgroup {path}", root / "sys/fs/cgroup/memory" / below / "memory.oom_control"
                yield "the memory cgroup", root / "sys/fs/cgroup/memory/memory.oom_control"
    yield "the machine", root / "proc/vmstat"
