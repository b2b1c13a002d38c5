"""Locks on the bytes of a file: between open files, in one process or several."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from partyctl_actors.errors import JournalError
from partyctl_actors.journals import SqliteJournal, locks
from partyctl_actors.journals.locks import ByteLocks, place_of
from partyctl_actors.journals.sqlite import shard_of


def test_a_byte_is_locked_once_and_free_again_after(tmp_path: Path) -> None:
    mine, theirs = ByteLocks(tmp_path / "lock"), ByteLocks(tmp_path / "lock")
    assert mine.try_lock(5)
    assert not mine.try_lock(5)
    assert not theirs.try_lock(5)
    assert theirs.try_lock(6)
    mine.unlock(5)
    assert theirs.try_lock(5)
    theirs.close()
    assert mine.try_lock(5)
    mine.close()


def test_a_lock_goes_with_its_process(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom partyctl_actors.journals.locks import ByteLocks\n"
        "locks = ByteLocks(Path(sys.argv[1]))\nprint(locks.try_lock(5), flush=True)\nsys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "True\n"
    mine = ByteLocks(tmp_path / "lock")
    assert not mine.try_lock(5)
    holder.kill()
    holder.communicate()
    assert mine.try_lock(5)
    mine.close()


def test_who_writes_for_too_long_is_waited_for_no_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "MUTEX_LIMIT", 0.0)
    journal = SqliteJournal(tmp_path)
    record = journal.open("r", "p")
    stuck = ByteLocks(tmp_path / f"runs-{shard_of('r'):02}.lock")
    with stuck.mutex(), pytest.raises(JournalError, match="another process has been writing"):
        SqliteJournal(tmp_path).open("r", "p", take_over=True)
    record.close()
    stuck.close()


def test_each_owner_of_each_run_has_a_byte_of_its_own_within_a_file_s_offsets() -> None:
    places = {place_of(f"run-{n}", epoch) for n in range(1000) for epoch in range(3)}
    assert len(places) == 3000
    assert min(places) > 0
    assert max(places) < 1 << 63
    assert place_of("\udc80", 0) > 0


def test_the_locks_of_a_journal_that_nobody_closed_go_with_its_last_user(tmp_path: Path) -> None:
    locks = ByteLocks(tmp_path / "lock")
    assert locks.try_lock(5)
    del locks
    mine = ByteLocks(tmp_path / "lock")
    assert mine.try_lock(5)
    mine.close()
