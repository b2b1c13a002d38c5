"""The files of a book: JSON lines in numbered segments, appended by one writer; the oldest makes room for the newest.

    state directory/logs/000007.jsonl  000008.jsonl  000009.jsonl  000010.jsonl   <- written now

A number is never used again, so a reader follows a rotation by counting, and nothing is renamed under it. Only the
holder of the party's lock writes. No line is followed by an fsync: the page cache outlives the death of any process,
which is what the books are read for; what must outlive the machine is in the journals; and an fsync of 0.4 ms a line
would make a noisy worker everybody's problem.

Writing never raises. A disk that is full or broken makes the book drop lines and count them; the first line that fits
again is preceded by one that says how many are missing and why. A line is written whole or not at all: what a full disk
took of it is cut off again, and so is what a crash left behind the last newline.
"""

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from partyctl_base.errors import PartyError

SEGMENT_MAX: Final = 8 * 1024 * 1024
"""Bytes of one segment."""

SEGMENTS: Final = 4
"""Segments kept of a book; with the one above 32 MiB at most."""

_BLOCK = 64 * 1024

Note = Callable[[int, str], Mapping[str, object]]
"""Makes the record that says how many lines are missing, and why."""


def segments(directory: Path) -> list[int]:
    """The numbers of the segments that are there, oldest first.

    Raises:
        OSError: the directory is there and cannot be read.
    """
    try:
        names = [Path(name) for name in os.listdir(directory)]
    except FileNotFoundError:
        return []
    return sorted(int(name.stem) for name in names if name.suffix == ".jsonl" and name.stem.isdecimal())


def segment_path(directory: Path, number: int) -> Path:
    """Where a segment is."""
    return directory / f"{number:06d}.jsonl"


class Book:
    """Appends records to the newest segment of a directory. Nothing here raises.

    Args:
        directory: where the segments are, found or made at the first write; it may raise an OSError or PartyError.
        note: makes the record about missing lines.
        segment_max, keep: the limits, in bytes and in segments.

    Attributes:
        trouble: why the last record could not be written; "" if it was.
        missing: how many records were dropped since the last one that was written.
    """

    def __init__(
        self, directory: Callable[[], Path], note: Note, *, segment_max: int = SEGMENT_MAX, keep: int = SEGMENTS
    ) -> None:
        self._locate = directory
        self._note = note
        self._segment_max = segment_max
        self._keep = keep
        self._directory: Path | None = None
        self._fd = -1
        self._number = 0
        self._end = 0
        self.trouble = ""
        self.missing = 0

    def write(self, record: Mapping[str, object]) -> bool:
        """Append one record; False if it was dropped."""
        try:
            self._tell()
            self._append(_line(record))
        except (OSError, PartyError, ValueError, TypeError, RecursionError) as error:
            self.missing += 1
            self.trouble = (error.strerror if isinstance(error, OSError) else "") or str(error)
            return False
        self.trouble = ""
        return True

    def close(self) -> None:
        """Say what is missing, if there is room now, and close the segment. A later write opens it again."""
        with contextlib.suppress(OSError, PartyError):
            self._tell()
        self._release()

    def _tell(self) -> None:
        # A write of its own: a reader that has seen a whole line must never see it cut off again.
        if self.missing:
            self._append(_line(self._note(self.missing, self.trouble)))
            self.missing = 0

    def _append(self, data: bytes) -> None:
        self._ready(len(data))
        try:
            rest = memoryview(data)
            while rest:  # a disk that becomes full takes a part, and refuses the rest with its reason
                rest = rest[os.write(self._fd, rest) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._end)
            raise
        self._end += len(data)

    def _ready(self, room: int) -> None:
        """Have an open segment that ends with a newline and has room."""
        if self._fd >= 0 and os.fstat(self._fd).st_nlink == 0:
            self._release()  # somebody removed the file; what is written to it now nobody could read
        if self._fd < 0:
            self._directory = self._locate()
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._open(self._directory, max(segments(self._directory), default=1))
        size = os.fstat(self._fd).st_size
        if size > self._end:
            os.ftruncate(self._fd, self._end)  # a part of a line that could not be cut off when it failed
        self._end = min(size, self._end)
        if self._end and self._end + room > self._segment_max and self._directory is not None:
            self._open(self._directory, self._number + 1)
            for old in segments(self._directory)[: -self._keep]:
                segment_path(self._directory, old).unlink(missing_ok=True)

    def _open(self, directory: Path, number: int) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(segment_path(directory, number), flags, 0o600)
        try:
            os.fchmod(fd, 0o600)
            end = _whole(fd)
            os.ftruncate(fd, end)
        except OSError:
            os.close(fd)
            raise
        self._release()
        self._fd, self._number, self._end = fd, number, end

    def _release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _whole(fd: int) -> int:
    """The offset behind the last newline."""
    end = os.fstat(fd).st_size
    while end:
        start = max(0, end - _BLOCK)
        found = os.pread(fd, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _line(record: Mapping[str, object]) -> bytes:
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"), default=str)
    # A lone surrogate becomes \udcXX, which inside a JSON string is that very character.
    return text.encode("utf-8", "backslashreplace") + b"\n"
