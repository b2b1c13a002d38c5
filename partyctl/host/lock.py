"""One host per party: the flock decides, the text in the file is for people.

The lock is taken before any socket is bound and held until the process ends, so that a file left by a crash never
stands in the way: the kernel frees the lock with the process.
"""

import fcntl
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from partyctl.control import LOCK_NAME, owner
from partyctl.errors import AlreadyRunning, HostError


class PartyLock:
    """Holds `directory/lock` from construction to the end of the process or `release`.

    Raises:
        AlreadyRunning: a living process holds it; names its pid.
        HostError: nobody could be told who holds it, for the disk is full or broken.
    """

    def __init__(self, party: str, directory: Path) -> None:
        self._fd = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._fd)
            raise AlreadyRunning(party, owner(party)) from None
        text = json.dumps({"pid": os.getpid(), "party": party, "started": datetime.now(UTC).isoformat()})
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, text.encode(), 0)
        except OSError as error:
            os.close(self._fd)
            raise HostError(
                "the party's lock cannot be written", where=str(directory / LOCK_NAME), why=error.strerror or ""
            ) from error

    def release(self) -> None:
        """Free the lock; the file stays, so that two starters never lock two files of one name."""
        os.ftruncate(self._fd, 0)
        os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
