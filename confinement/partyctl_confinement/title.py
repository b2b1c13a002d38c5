"""The name under which `ps` and `top` show a process.

By hand, for what it costs the launcher: setproctitle is a C extension that every user would have to install for one
line of `ps`. The kernel shows whatever stands in the argument area that `execve` filled, so that is written over.
"""

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PR_SET_NAME: Final = 15
_COMM_MAX: Final = 15


@dataclass(frozen=True, slots=True)
class TitleArea:
    """Where the process's arguments stand in its memory; (0, 0) if the kernel does not say."""

    start: int
    size: int

    @staticmethod
    def of_this_process() -> "TitleArea":
        """Read once before forking; a forked child has the same area."""
        try:
            fields = Path("/proc/self/stat").read_bytes().rpartition(b") ")[2].split()
            start, end = int(fields[45]), int(fields[46])
        except (OSError, IndexError, ValueError):
            return TitleArea(0, 0)
        return TitleArea(start, max(0, end - start))

    def write(self, title: str) -> None:
        """Call this process `title`, cut to the room there is."""
        text = title.encode("utf-8", "replace")
        ctypes.CDLL(None).prctl(_PR_SET_NAME, ctypes.c_char_p(text[:_COMM_MAX]), 0, 0, 0)
        if self.size > 1:
            ctypes.memset(self.start, 0, self.size)
            ctypes.memmove(self.start, text[: self.size - 1], min(len(text), self.size - 1))
