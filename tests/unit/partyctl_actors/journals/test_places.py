"""The directory of a journal: made for its owner alone, refused where others could write."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from partyctl_actors.errors import JournalError
from partyctl_actors.journals import JsonlJournal, SqliteJournal

Make = Callable[[Path | str], object]

JOURNALS = pytest.mark.parametrize("make", [SqliteJournal, JsonlJournal])


@JOURNALS
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
def test_one_that_others_can_write_in_is_refused_and_left_alone(make: Make, mode: int, tmp_path: Path) -> None:
    directory = tmp_path / "open"
    directory.mkdir()
    directory.chmod(mode)
    with pytest.raises(JournalError, match=rf"open to others \({directory}\).*{mode:o}.*chmod go-w {directory}"):
        make(directory)
    assert stat.S_IMODE(directory.stat().st_mode) == mode
    assert list(directory.iterdir()) == []


@JOURNALS
def test_one_that_others_can_read_is_taken(make: Make, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make(tmp_path)


@JOURNALS
def test_no_name_is_not_the_current_directory(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(JournalError, match=r'needs a directory: "" is none\. Name one'):
        make("")
    assert list(tmp_path.iterdir()) == []


@JOURNALS
def test_one_that_cannot_be_made_is_refused_with_what_to_do(make: Make, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "runs", tmp_path / "file", "a\0b"):
        with pytest.raises(JournalError, match=r"cannot be made.*Give \w+Journal a directory"):
            make(path)
