"""Reads the books of a party, whether it runs or not, and follows them over rotations and restarts.

A torn or foreign line is skipped, never an error. Times are compared as texts: all of a book's have one form and zone.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from partyctl.logfiles import segment_path, segments
from partyctl.maps import Map
from partyctl_base.paths import PathError

Wait = Callable[[], bool]
"""Waits a moment for something new; False ends the following."""


class Reader:
    """Reads one book.

    Args:
        directory: the book's directory; it need not be there.

    `read` gives what is there, and leaves the place from which `follow` goes on. Both raise a PathError if the
    book is there and cannot be read.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._number = 0
        self._offset = 0

    def read(self, *, since: str = "", role: str | None = None, lines: int | None = None) -> list[Map]:
        """What is in the book, oldest first.

        Args:
            since: leave out what is older than this time, given as `timestamp` gives it.
            role: only what concerns this role, process or subject; None for everything.
            lines: only the newest so many; None for all.
        """
        found: list[Map] = []
        there = _segments(self._directory)
        if there:
            self._number, self._offset = there[-1], 0
        for number in reversed(there):
            if lines is not None and len(found) >= lines:
                break
            data = _tail(segment_path(self._directory, number), 0)
            if number == self._number:
                self._offset = len(data)
            records = [record for record in map(_record, reversed(data.splitlines())) if record is not None]
            found += [record for record in records if _wanted(record, since, role)]
            if records and since and str(records[0].get("time")) < since:
                break  # the newest of this segment is too old, so the segments before it are too
        newest = found if lines is None else found[:lines]
        return newest[::-1]

    def follow(self, wait: Wait, *, since: str = "", role: str | None = None) -> Iterator[Map]:
        """What is added, as it is added; `since` and `role` as for `read`.

        Args:
            wait: called when everything is read.
        """
        while True:
            before = (self._number, self._offset)
            for record in self._added():
                if _wanted(record, since, role):
                    yield record
            if (self._number, self._offset) == before and not wait():
                return

    def newest(self, limit: int) -> Iterator[Map]:
        """What is in the book, newest first, at most `limit` records; no more of it is read than is taken."""
        left = limit
        for number in reversed(_segments(self._directory)):
            for line in reversed(_tail(segment_path(self._directory, number), 0).splitlines()):
                if left == 0:
                    return
                if (record := _record(line)) is not None:
                    left -= 1
                    yield record

    def names(self) -> set[str]:
        """The roles and processes the book speaks of."""
        keys = ("role", "process", "subject")
        return {str(record[key]) for record in Reader(self._directory).read() for key in keys if record.get(key)}

    def _added(self) -> Iterator[Map]:
        # The next segment is looked for before this one is read: what is added to this one in between is then either
        # read now, or there is no next one yet.
        there = _segments(self._directory)
        later = [number for number in there if number > self._number]
        if there and there[-1] < self._number:  # the directory was removed, and a new book begun
            later = there
        data = _tail(segment_path(self._directory, self._number), self._offset) if self._number else b""
        self._offset += len(data)
        yield from (record for record in map(_record, data.splitlines()) if record is not None)
        if later:
            self._number, self._offset = later[0], 0


def _tail(path: Path, offset: int) -> bytes:
    """The whole lines of a segment from an offset on; nothing if it is gone.

    Raises:
        PathError: it is there and cannot be read.
    """
    try:
        with path.open("rb") as segment:
            if os.fstat(segment.fileno()).st_size < offset:
                return b""
            segment.seek(offset)
            data = segment.read()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise _unreadable(path, error) from error
    return data[: data.rfind(b"\n") + 1]


def _segments(directory: Path) -> list[int]:
    try:
        return segments(directory)
    except OSError as error:
        raise _unreadable(directory, error) from error


def _unreadable(path: Path, error: OSError) -> PathError:
    fix = "Make it readable, or set XDG_STATE_HOME to another directory"
    return PathError("the party's state cannot be read", where=str(path), why=error.strerror or str(error), fix=fix)


def _record(line: bytes) -> Map | None:
    try:
        record = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _wanted(record: Map, since: str, role: str | None) -> bool:
    if since and str(record.get("time")) < since:
        return False
    names = (record.get("role"), record.get("process"), record.get("subject"))
    # All nodes are one name to who does not know which of them it was.
    return role is None or role in names or any(str(name).startswith(f"{role}/") for name in names)
