"""Which process has a name, across all processes of a machine: a lock of the kernel, which ends as its process ends.

A POSIX record lock, because a fork does not inherit it: a child that outlives its process holds up nobody. But it is
dropped as soon as its process closes any descriptor of the file. So a process has one descriptor of each file, and its
claims of that file pass it on, from each to the next.
"""

import contextlib
import fcntl
import json
import os
import threading
import time
import weakref
from pathlib import Path


class ClaimedElsewhere(Exception):
    """Another process has the name.

    Args:
        owner: which one, and since when, as far as it says.
    """

    def __init__(self, owner: str) -> None:
        super().__init__(owner)
        self.owner = owner


class Claim:
    """A name that this process has, until `let_go`, a later claim of the same name, or its own end.

    Args:
        path: the file that stands for the name; made, and removed when it is let go.

    Attributes:
        path: as given.

    Attributes:
        path: as given.

    Raises:
        ClaimedElsewhere: another process that lives has it.
        OSError: the file cannot be made or locked.
    """

    def __init__(self, path: Path) -> None:
        self.path, holder = path, object()
        with _lock:
            held = _ours.get(path)
            _ours[path] = (_locked(path) if held is None else held[0], holder)
        self._finalizer = weakref.finalize(self, _let_go, path, holder)

    def let_go(self) -> None:
        """Others may have it now, unless a later claim of this process has. Idempotent."""
        self._finalizer()


_lock = threading.RLock()  # a claim may be collected in the middle of another one's beginning
_ours: dict[Path, tuple[int, object]] = {}
"""The descriptor of each file that is claimed here, and the last claim of it."""


def _in_a_fork() -> None:
    """What was claimed is the forked process's."""
    for fd, _ in _ours.values():
        os.close(fd)
    _ours.clear()
    _lock.release()


os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_in_a_fork)


def _let_go(path: Path, holder: object) -> None:
    with _lock:
        fd, last = _ours.get(path, (-1, None))
        if last is holder:
            del _ours[path]
            with contextlib.suppress(OSError):  # its directory may be gone
                path.unlink()
            os.close(fd)


def _locked(path: Path) -> int:
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _take(fd)
            if _is_at(fd, path):
                with contextlib.suppress(OSError):  # the disk is full; the lock counts, and the text is for people
                    os.ftruncate(fd, 0)
                    os.pwrite(fd, json.dumps({"pid": os.getpid(), "since": time.time()}).encode(), 0)
                return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)  # it was let go, and removed, between the two


def _take(fd: int) -> None:
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError) as error:
        raise ClaimedElsewhere(_owner(os.pread(fd, 1024, 0))) from error


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _owner(record: bytes) -> str:
    try:
        told = json.loads(record)
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(told["since"]))
        return f"process {told['pid']} has had it since {since}"
    except (ValueError, TypeError, KeyError, OverflowError):  # it has it, and has not said so yet
        return "another process has it"
