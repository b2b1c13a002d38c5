"""Locks on bytes of one file, held by an open file and not by a process.

Unlike flock they are many in one file, and unlike POSIX record locks they conflict within a process and outlive the
closing of other descriptors (fcntl(2), "Open file description locks"). The kernel frees them when their holder dies.

What the file holds is a note: how much was acknowledged, at least. It is written after the acknowledged, without a sync
of its own, so a crash of the machine may take it back, and never brings it forward.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import struct
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

# struct flock of 64-bit Linux: l_type, l_whence, l_start, l_len, l_pid.
_FLOCK = "hhqqi4x"

_NOTE = struct.Struct("<8sQI")
_NOTE_MARK = b"partyctl"
_LOOKS = 4

MUTEX_LIMIT = 10.0
"""Seconds to wait for another process that writes."""


class ByteLocks:
    """The locks of one file, which is made if missing. Byte 0 is the file's own mutex.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        # A journal that nobody closes ends with its last user, and so do its locks.
        self._close = weakref.finalize(self, os.close, self._fd)
        self.held: set[int] = set()
        """The places that are locked through this object."""

    def close(self) -> None:
        """Free all of them. Idempotent."""
        self._close()

    def note(self, count: int, *, sync: bool = False) -> None:
        """Note that at least so much was acknowledged.

        Args:
            count: how much; 0 is "begun".
            sync: have it survive a crash of the machine.

        Raises:
            OSError: it cannot be written.
        """
        packed = struct.pack("<8sQ", _NOTE_MARK, count)
        os.pwrite(self._fd, packed + struct.pack("<I", crc32(packed)), 0)
        if sync:
            os.fsync(self._fd)

    def try_lock(self, place: int) -> bool:
        """Lock the byte at `place`; False if it is locked, by whomever."""
        if place in self.held:
            return False
        if not self._tries(place):
            return False
        self.held.add(place)
        return True

    def unlock(self, place: int) -> None:
        """Free the byte at `place`."""
        self.held.discard(place)
        self._set(fcntl.F_UNLCK, place)

    @contextlib.contextmanager
    def mutex(self) -> Iterator[None]:
        """Wait for the file's own mutex and hold it.

        Raises:
            TimeoutError: another process has held it for ten seconds, so it is stopped or its disk is.
        """
        self._acquire()
        try:
            yield
        finally:
            self._set(fcntl.F_UNLCK, 0)

    def _acquire(self) -> None:
        # Asked for again and again, because the kernel's own wait has no limit. It is rarely held, and for a commit.
        deadline = time.monotonic() + MUTEX_LIMIT
        pause = 0.0002
        while not self._tries(0):
            if time.monotonic() > deadline:
                raise TimeoutError(f"another process has been writing for {MUTEX_LIMIT:.0f} s; is it stopped?")
            time.sleep(pause)
            pause = min(2 * pause, 0.01)

    def _tries(self, place: int) -> bool:
        try:
            self._set(fcntl.F_WRLCK, place)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def _set(self, kind: int, place: int) -> None:
        fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, kind, os.SEEK_SET, place, 1, 0))


def noted(path: Path) -> int | None:
    """What `ByteLocks.note` noted in a file last, without making or locking it; None if nothing.

    Raises:
        OSError: it cannot be read.
        ValueError: it holds something else.
    """
    # The kernel lets a reader see half of what is being written; a second look then sees the rest.
    for _ in range(_LOOKS):
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        if not data.strip(b"\0"):
            return None
        if len(data) == _NOTE.size:
            mark, count, check = _NOTE.unpack(data)
            if mark == _NOTE_MARK and check == crc32(data[:-4]):
                return int(count)
    raise ValueError("it does not have the form and the checksum it was written with")


def place_of(run_id: str, epoch: int) -> int:
    """The byte that stands for one owner of one run: 62 bits of a digest, so that no two meet."""
    digest = hashlib.sha256(f"{epoch} {run_id}".encode("utf-8", "surrogatepass")).digest()
    return 1 + (int.from_bytes(digest[:8], "big") >> 2)
