"""What an error of a disk is put down to."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

import apsw
import pytest

from partyctl_actors.journals import refusals
from partyctl_actors.journals.causes import BUSY, DENIED, FAILING, FULL, READ_ONLY, UNKNOWN, Cause, cause_of


def sqlite_error(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("it failed")
    error.sqlite_errorcode = code
    return error


class Disk:
    """What statvfs says of one."""

    def __init__(self, flags: int = 0, free: int = 1) -> None:
        self.f_flag, self.f_bavail = flags, free


@pytest.mark.parametrize(
    ("number", "cause"),
    [
        (errno.ENOSPC, FULL),
        (errno.EDQUOT, FULL),
        (errno.EROFS, READ_ONLY),
        (errno.EACCES, DENIED),
        (errno.EPERM, DENIED),
        (errno.EIO, FAILING),
        (errno.ETIMEDOUT, BUSY),
    ],
)
def test_errors_of_the_system(number: int, cause: Cause, tmp_path: Path) -> None:
    assert cause_of(OSError(number, "no"), tmp_path / "f") is cause


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (sqlite3.SQLITE_FULL, FULL),
        (sqlite3.SQLITE_READONLY, READ_ONLY),
        (sqlite3.SQLITE_READONLY_DBMOVED, READ_ONLY),
        (sqlite3.SQLITE_BUSY, BUSY),
        (sqlite3.SQLITE_IOERR_FSYNC, FAILING),
        (sqlite3.SQLITE_CANTOPEN, FAILING),
        (sqlite3.SQLITE_CORRUPT, UNKNOWN),
        (sqlite3.SQLITE_NOTADB, UNKNOWN),
    ],
)
def test_errors_of_sqlite(code: int, cause: Cause, tmp_path: Path) -> None:
    assert cause_of(sqlite_error(code), tmp_path / "f") is cause


def test_errors_of_another_binding_count_the_same(tmp_path: Path) -> None:
    error = apsw.FullError("full")
    error.result = 13
    assert cause_of(error, tmp_path / "f") is FULL


@pytest.mark.parametrize(
    ("disk", "may", "cause"),
    [
        (Disk(os.ST_RDONLY), False, READ_ONLY),
        (Disk(), False, DENIED),
        (Disk(free=0), True, FULL),
        (Disk(), True, FAILING),
    ],
)
def test_a_file_that_cannot_be_opened_is_looked_at(
    disk: Disk, may: bool, cause: Cause, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: disk)
    monkeypatch.setattr(os, "access", lambda *_: may)
    assert cause_of(sqlite_error(sqlite3.SQLITE_CANTOPEN), tmp_path / "f") is cause


def test_only_what_the_file_itself_does_is_called_damage(tmp_path: Path) -> None:
    place = str(tmp_path / "f")
    assert "is damaged" in str(refusals.unread(place, sqlite_error(sqlite3.SQLITE_CORRUPT)))
    full = str(refusals.unread(place, OSError(errno.ENOSPC, "No space left on device")))
    assert full == f"Records cannot be used now ({place}): the disk is full (No space left on device). Free the disk"
    denied = str(refusals.unkept(place, OSError(errno.EACCES, "Permission denied")))
    assert denied.startswith(f"A decision could not be recorded ({place}): Permission denied. Give yourself the right")
