"""How a loop over descriptors hears that a child died."""

import contextlib
import os
import signal


class ChildDeaths:
    """A descriptor that becomes readable when a child dies.

    SIGCHLD through the interpreter's wakeup descriptor: the standard library has no signalfd in every version we
    support, and one byte in a pipe does the same.
    """

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)

    def fileno(self) -> int:
        return self._reading

    def take(self) -> None:
        """Forget the deaths that were announced until now."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._reading, 4096):
                pass
