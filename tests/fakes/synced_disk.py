"""A file layer under SQLite that knows what a disk has: at a crash, what was not synced is lost, or some of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

Change = tuple[int, bytes | None]
"""A write at an offset, or a cut to a size."""


class SyncedDisk:
    """Passes everything through to real files, and remembers per file what was synced and what was done since.

    Attributes:
        syncs: how often a file was synced.
        failing: asked before each sync of a file; if it returns True, the sync fails.
    """

    def __init__(self) -> None:
        self.name = f"synced-{id(self)}"
        self.syncs = 0
        self.failing: Callable[[], bool] = lambda: False
        self._synced: dict[str, bytes] = {}
        self._since: dict[str, list[Change]] = {}
        self._layer = _Layer(self)

    def connect(self, file: Path) -> apsw.Connection:
        """A connection whose files are on this disk."""
        connection = apsw.Connection(str(file), vfs=self.name)
        connection.set_busy_timeout(10_000)
        return connection

    def crash(self, into: Path, chance: random.Random | None = None) -> None:
        """What a machine that loses its power now finds afterwards, as files in `into`.

        Args:
            into: a new directory.
            chance: says which unsynced changes reached the disk all the same; without it, none did.
        """
        into.mkdir(mode=0o700)
        for path, synced in self._synced.items():
            content = bytearray(synced)
            for change in self._since[path]:
                if chance is not None and chance.random() < 0.5:
                    _apply(content, change)
            (into / Path(path).name).write_bytes(content)

    def close(self) -> None:
        """No connection is open any more."""
        self._layer.unregister()

    # --- what the layer tells ---

    def opened(self, path: str) -> None:
        """A file is there."""
        self._synced.setdefault(path, b"")
        self._since.setdefault(path, [])

    def changed(self, path: str, change: Change) -> None:
        """A file was written or cut."""
        self._since[path].append(change)

    def synced(self, path: str) -> None:
        """All that was done to a file is on the disk."""
        self.syncs += 1
        if self.failing():
            raise apsw.IOError("the disk failed")
        content = bytearray(self._synced[path])
        for change in self._since[path]:
            _apply(content, change)
        self._synced[path], self._since[path] = bytes(content), []

    def deleted(self, path: str) -> None:
        """A file is gone."""
        self._synced.pop(path, None)
        self._since.pop(path, None)


def _apply(content: bytearray, change: Change) -> None:
    place, data = change
    if data is None:
        del content[place:]
        return
    content.extend(bytes(max(0, place - len(content))))
    content[place : place + len(data)] = data


class _Layer(apsw.VFS):
    def __init__(self, disk: SyncedDisk) -> None:
        self._disk = disk
        super().__init__(disk.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> _File:  # noqa: N802
        return _File(self._disk, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        self._disk.deleted(filename)


class _File(apsw.VFSFile):
    def __init__(self, disk: SyncedDisk, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        self._path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        disk.opened(self._path)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        self._disk.changed(self._path, (offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        self._disk.changed(self._path, (newsize, None))

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.synced(self._path)
        super().xSync(flags)
