"""What a script does to the process it runs in."""

import os
import signal
import sys
from typing import Protocol

_UNCATCHABLE = (signal.SIGKILL, signal.SIGSTOP)


class World(Protocol):
    """The process, as far as a script can touch it."""

    def end(self, how: int | signal.Signals) -> None:
        """End the process, by a status or a signal."""

    def complain(self, data: bytes) -> None:
        """Write to standard error."""


class Process:
    """This process, in earnest."""

    def end(self, how: int | signal.Signals) -> None:
        if not isinstance(how, signal.Signals):
            os._exit(how)
        if how not in _UNCATCHABLE:
            signal.signal(how, signal.SIG_DFL)
        os.kill(os.getpid(), how)

    def complain(self, data: bytes) -> None:
        sys.stderr.flush()
        view = memoryview(data)
        while view:
            view = view[os.write(2, view) :]
