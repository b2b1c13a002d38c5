"""The place of a worker: what holds for every one, however its program comes to it; after a fork and after an exec."""

import contextlib
import io
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import Final, cast

from partyctl_base import process

CHANNEL_FD: Final = 3
"""Where a worker finds its end of the pair; everything above is closed when its main begins."""

STARTED_FD: Final = 4
"""Where it says that it comes to its main."""

_RESET: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD, signal.SIGXFSZ)
_IGNORED_BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)

_set_signal = cast("Callable[[int, object], object]", getattr(signal.signal, "__wrapped__", signal.signal))
"""`signal.signal` without its conversions from and to enumerations, which took a fresh fork 0.15 ms for six signals."""


def reset_signals(*, program: bool) -> None:
    """Undo what the launcher set, and what Python ignores where that hides a limit.

    Args:
        program: whether another program than Python takes over: an ignored signal would stay ignored in it.
    """
    signal.set_wakeup_fd(-1)
    for number in (*_RESET, *(_IGNORED_BY_PYTHON if program else ())):
        _set_signal(number, int(signal.SIG_DFL))
    _set_signal(signal.SIGINT, int(signal.SIG_DFL) if program else signal.default_int_handler)


def take(*, launcher: int, subreaper: bool) -> None:
    """A session of its own, death with the launcher, no new privileges. All of it survives an exec.

    Args:
        launcher: the pid that must be the parent's.
        subreaper: whether orphans of this process become its children.

    Raises:
        ProcessLookupError: the launcher died meanwhile.
    """
    os.setsid()
    process.set_parent_death_signal(signal.SIGKILL, launcher)
    if subreaper:
        process.set_child_subreaper()
    process.set_no_new_privileges()
    os.umask(0o077)


def place_descriptors(channel: int, output: int, started: int) -> None:
    """Put the descriptors of a worker into their places."""
    # First away from the places to fill: a source may itself stand at 0 to 4.
    channel, output, started = _above(channel), _above(output), _above(started)
    nothing = _above(os.open(os.devnull, os.O_RDONLY))
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.dup2(channel, CHANNEL_FD, inheritable=False)
    os.dup2(started, STARTED_FD, inheritable=False)


def await_record() -> None:
    """Wait until the launcher has written this worker's spawn record.

    Raises:
        ProcessLookupError: it took the worker back.
    """
    os.set_blocking(CHANNEL_FD, True)  # until a `Channel` takes it over
    if not os.read(CHANNEL_FD, 1):
        raise ProcessLookupError("the launcher took this worker back")


def close_others(first: int) -> None:
    """Close every descriptor from `first` on."""
    os.closerange(first, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def announce(fd: int) -> None:
    """Tell the launcher that this worker comes to its main, so that another one may start."""
    with contextlib.suppress(OSError):
        os.write(fd, os.getpid().to_bytes(4, sys.byteorder))
        os.close(fd)


def line_buffered() -> None:
    """Have standard output and error reach the launcher line by line: a worker that is killed flushes nothing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)


def _above(fd: int) -> int:
    while fd <= STARTED_FD:
        fd = os.dup(fd)
    return fd
