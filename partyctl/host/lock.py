"""One host per party and per state directory: the flock decides, the text in the file is for people.

The lock is taken before any socket is bound and held until the process ends, so that a file left by a crash never
stands in the way: the kernel frees the lock with the process.
"""

import contextlib
import fcntl
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from partyctl.control import LOCK_NAME, owner, read_owner
from partyctl.errors import AlreadyRunning, HostError, Owner, StateTaken
from partyctl_base.paths import RUNTIME_VARIABLE, PathError, state_directory


class PartyLock:
    """Holds `directory/lock` from construction to the end of the process or `release`.

    Attributes:
        lost: the host that held it before, if that ended without a farewell: its name is still there.

    Raises:
        AlreadyRunning: a living process holds it; names its pid.
        HostError: it cannot be had, or nobody could be told who holds it: the disk is full, broken or read-only.
    """

    def __init__(self, party: str, directory: Path) -> None:
        path = directory / LOCK_NAME
        self.lost: Owner | None = None
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise _unusable("the party's lock cannot be opened", path, error) from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._fd)
            raise AlreadyRunning(party, owner(party)) from None
        with contextlib.suppress(OSError):
            self.lost = read_owner(path)
        text = json.dumps({"pid": os.getpid(), "party": party, "started": datetime.now(UTC).isoformat()})
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, text.encode(), 0)
        except OSError as error:
            os.close(self._fd)
            raise _unusable("the party's lock cannot be written", path, error) from error

    def release(self) -> None:
        """Free the lock; the file stays, so that two starters never lock two files of one name."""
        with contextlib.suppress(OSError):  # a name that is left there is no lock; see above
            os.ftruncate(self._fd, 0)
        os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class StateLock:
    """Holds the state directory of a party, so that two hosts with runtime directories of their own do not share it.

    The directory itself is locked: nothing is written, so a full disk is no obstacle. Where it cannot be locked, as on
    some network file systems, each record is still its owner's by its epoch. Where it cannot be had, nothing is kept,
    and whoever wants to keep something says so.

    Raises:
        StateTaken: another host has it.
    """

    def __init__(self, party: str) -> None:
        self._held = contextlib.ExitStack()
        try:
            directory = state_directory(party)
            fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (PathError, OSError):
            return
        self._held.callback(os.close, fd)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._held.close()
            raise StateTaken(party, str(directory)) from None
        except OSError:
            self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()


def _unusable(what: str, path: Path, error: OSError) -> HostError:
    fix = f"Make room or make it writable, or set {RUNTIME_VARIABLE} to another directory"
    return HostError(what, where=str(path), why=error.strerror or str(error), fix=fix)
