import errno
import json
import os
import resource
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from partyctl.logfiles import Book, segment_path, segments
from partyctl_base.paths import PathError


def note(count: int, why: str) -> dict[str, object]:
    return {"dropped": count, "why": why}


def book(directory: Path, segment_max: int = 1000, keep: int = 3) -> Book:
    return Book(lambda: directory, note, segment_max=segment_max, keep=keep)


def kept(directory: Path) -> list[dict[str, object]]:
    lines = b"".join(segment_path(directory, number).read_bytes() for number in segments(directory)).splitlines()
    return [json.loads(line) for line in lines]


def test_records_are_lines_of_a_private_file(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "logs"
    one = book(directory)
    assert one.write({"n": 1, "text": "é\n\udc80"})
    assert one.write({"n": 2})
    one.close()
    assert kept(directory) == [{"n": 1, "text": "é\n\udc80"}, {"n": 2}]
    (file,) = directory.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_a_book_is_bounded_and_keeps_the_newest(tmp_path: Path) -> None:
    one = book(tmp_path)
    for number in range(2000):
        one.write({"n": number})
    one.close()
    assert len(segments(tmp_path)) == 3
    assert all(path.stat().st_size <= 1000 for path in tmp_path.iterdir())
    numbers = [record["n"] for record in kept(tmp_path)]
    assert numbers == list(range(2000))[-len(numbers) :]
    assert len(numbers) > 100


def test_a_record_larger_than_a_segment_gets_one_of_its_own(tmp_path: Path) -> None:
    one = book(tmp_path)
    for text in ("a", "b" * 2000, "c"):
        assert one.write({"t": text})
    one.close()
    assert [len(str(record["t"])) for record in kept(tmp_path)] == [1, 2000, 1]


def test_another_book_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    for number in range(100):
        one = book(tmp_path)
        one.write({"n": number})
        one.close()
    assert [record["n"] for record in kept(tmp_path)][-50:] == list(range(50, 100))


@pytest.mark.parametrize("torn", [b'{"n": 2', b"\x00" * 5000, b"x" * 200_000])
def test_what_a_crash_left_behind_the_last_newline_is_cut_off(tmp_path: Path, torn: bytes) -> None:
    (tmp_path / "000007.jsonl").write_bytes(b'{"n":1}\n' + torn)
    one = book(tmp_path, segment_max=10**6)
    one.write({"n": 3})
    one.close()
    assert (tmp_path / "000007.jsonl").read_bytes() == b'{"n":1}\n{"n":3}\n'


def test_a_file_without_any_whole_line_becomes_empty(tmp_path: Path) -> None:
    (tmp_path / "000001.jsonl").write_bytes(b"torn")
    one = book(tmp_path)
    one.write({"n": 3})
    one.close()
    assert kept(tmp_path) == [{"n": 3}]


def test_a_file_that_is_removed_or_emptied_meanwhile_is_made_anew(tmp_path: Path) -> None:
    one = book(tmp_path)
    one.write({"n": 1})
    (tmp_path / "000001.jsonl").unlink()
    one.write({"n": 2})
    assert kept(tmp_path) == [{"n": 2}]
    os.truncate(tmp_path / "000001.jsonl", 0)
    one.write({"n": 3})
    one.close()
    assert kept(tmp_path) == [{"n": 3}]


def test_other_files_of_the_directory_are_left_alone(tmp_path: Path) -> None:
    for name in ("notes.txt", "x.jsonl", "000001.jsonl.gz"):
        (tmp_path / name).write_text("mine")
    one = book(tmp_path)
    for number in range(500):
        one.write({"n": number})
    one.close()
    assert (tmp_path / "x.jsonl").read_text() == (tmp_path / "notes.txt").read_text() == "mine"


def test_a_directory_that_cannot_be_had_loses_lines_and_says_so_later(tmp_path: Path) -> None:
    errors: list[Exception] = [
        OSError(errno.EROFS, "Read-only file system"),
        PathError("a private directory is not a real directory"),
    ]

    def locate() -> Path:
        if errors:
            raise errors.pop(0)
        return tmp_path

    one = Book(locate, note)
    assert not one.write({"n": 1})
    assert one.trouble == "Read-only file system"
    assert not one.write({"n": 2})
    assert one.trouble == "a private directory is not a real directory"
    assert one.write({"n": 3})
    assert (one.trouble, one.missing) == ("", 0)
    one.close()
    assert kept(tmp_path) == [{"dropped": 2, "why": "a private directory is not a real directory"}, {"n": 3}]


def test_a_link_in_place_of_a_segment_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious\n")
    directory = tmp_path / "logs"
    directory.mkdir()
    (directory / "000001.jsonl").symlink_to(target)
    one = book(directory)
    assert not one.write({"n": 1})
    assert target.read_text() == "precious\n"


@pytest.mark.parametrize("record", [{("a", "b"): 1}, {"a": float}])
def test_a_record_that_is_no_json_is_no_error(tmp_path: Path, record: dict[str, object]) -> None:
    one = book(tmp_path)
    one.write(record)
    assert one.write({"n": 1})
    one.close()
    assert kept(tmp_path)[-1] == {"n": 1}


def _limited(size: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


PROGRAM = """
import resource, sys
from pathlib import Path
from partyctl.logfiles import Book
book = Book(lambda: Path(sys.argv[1]), lambda count, why: {"dropped": count, "why": why})
told = [book.write({"n": number, "text": "x" * 30}) for number in range(100)]
assert True in told and False in told, told
assert "large" in book.trouble, book.trouble
assert book.missing == told.count(False)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert book.write({"n": 100})
book.close()
"""


def test_a_file_that_may_not_grow_loses_lines_and_says_how_many(tmp_path: Path) -> None:
    # The kernel takes a part of the line that crosses the limit, as a full disk does.
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        preexec_fn=_limited(1000),
        timeout=60,
        check=True,
        close_fds=True,
    )
    records = kept(tmp_path)
    (told,) = [number for number, record in enumerate(records) if "dropped" in record]
    assert [record["n"] for record in records[:told]] == list(range(told))
    assert records[told]["dropped"] == 100 - told
    assert records[told + 1 :] == [{"n": 100}]
