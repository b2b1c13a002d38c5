import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from partyctl.logfiles import Book
from partyctl.logreader import Reader
from partyctl.maps import Map


def book(directory: Path, keep: int = 4) -> Book:
    return Book(lambda: directory, lambda count, why: {}, segment_max=1000, keep=keep)


def write(directory: Path, numbers: Iterable[int], keep: int = 4, **fields: object) -> None:
    one = book(directory, keep)
    for number in numbers:
        one.write({"time": f"T{number:04d}", "n": number, **fields})
    one.close()


class Moments:
    """Waits by doing the next thing; ends the following when there is none left."""

    def __init__(self, *things: Callable[[], object]) -> None:
        self._things = list(things)

    def __call__(self) -> bool:
        if not self._things:
            return False
        self._things.pop(0)()
        return True


def numbers(records: Iterable[Map]) -> list[object]:
    return [record["n"] for record in records]


def test_a_book_that_was_never_written_is_empty(tmp_path: Path) -> None:
    reader = Reader(tmp_path / "none")
    assert reader.read() == []
    assert list(reader.follow(lambda: False)) == []


def test_records_come_oldest_first_over_all_segments(tmp_path: Path) -> None:
    write(tmp_path, range(100))
    assert len(list(tmp_path.iterdir())) > 2
    assert numbers(Reader(tmp_path).read()) == list(range(100))


def test_records_can_be_taken_newest_first_up_to_a_limit(tmp_path: Path) -> None:
    assert list(Reader(tmp_path).newest(3)) == []
    write(tmp_path, range(80))
    assert numbers(Reader(tmp_path).newest(50)) == list(range(79, 29, -1))
    assert numbers(Reader(tmp_path).newest(1000)) == list(range(79, -1, -1))


def test_a_name_stands_for_all_that_are_numbered_under_it(tmp_path: Path) -> None:
    for number, process in enumerate(("node/0", "node/1", "nodes", "broker")):
        write(tmp_path, [number], process=process)
    assert numbers(Reader(tmp_path).read(role="node")) == [0, 1]
    assert numbers(Reader(tmp_path).read(role="node/1")) == [1]


@pytest.mark.parametrize("lines", [0, 1, 7, 50, 80, 200])
def test_the_newest_lines_can_be_asked_for(tmp_path: Path, lines: int) -> None:
    write(tmp_path, range(80))
    assert numbers(Reader(tmp_path).read(lines=lines)) == list(range(80))[80 - min(lines, 80) :]


@pytest.mark.parametrize("since", [0, 5, 40, 79, 80])
def test_only_what_is_new_enough_can_be_asked_for(tmp_path: Path, since: int) -> None:
    write(tmp_path, range(80))
    assert numbers(Reader(tmp_path).read(since=f"T{since:04d}")) == list(range(since, 80))


def test_a_role_is_found_by_its_own_name_its_process_and_its_subject(tmp_path: Path) -> None:
    one = book(tmp_path)
    for number, fields in enumerate([{"role": "Writer"}, {"process": "Writer"}, {"subject": "Writer"}, {"role": "R"}]):
        one.write({"time": "T", "n": number, **fields})
    one.close()
    assert numbers(Reader(tmp_path).read(role="Writer")) == [0, 1, 2]
    assert numbers(Reader(tmp_path).read(role="Writer", lines=1)) == [2]
    assert Reader(tmp_path).names() == {"Writer", "R"}


@pytest.mark.parametrize("bad", [b"{", b"\xff\xfe", b"[]", b"3", b"", b"[" * 100_000])
def test_a_torn_or_foreign_line_is_skipped(tmp_path: Path, bad: bytes) -> None:
    (tmp_path / "000001.jsonl").write_bytes(b'{"n":1}\n' + bad + b'\n{"n":2}\n' + b'{"n":3')
    assert numbers(Reader(tmp_path).read()) == [1, 2]


def test_following_gives_what_is_added_after_what_was_read(tmp_path: Path) -> None:
    write(tmp_path, range(3))
    reader = Reader(tmp_path)
    assert numbers(reader.read(lines=1)) == [2]
    moments = Moments(lambda: write(tmp_path, [3]), lambda: None, lambda: write(tmp_path, [4, 5]))
    assert numbers(reader.follow(moments)) == [3, 4, 5]


def test_following_goes_over_rotations_and_restarts(tmp_path: Path) -> None:
    write(tmp_path, range(10))
    reader = Reader(tmp_path)
    reader.read()
    moments = Moments(lambda: write(tmp_path, range(10, 60)), lambda: write(tmp_path, range(60, 100)))
    assert numbers(reader.follow(moments)) == list(range(10, 100))


def test_a_follower_that_was_overtaken_goes_on_with_the_oldest_that_is_left(tmp_path: Path) -> None:
    write(tmp_path, range(10))
    reader = Reader(tmp_path)
    reader.read()
    found = numbers(reader.follow(Moments(lambda: write(tmp_path, range(10, 500), keep=2))))
    assert found == list(range(500))[-len(found) :]
    assert found


def test_a_half_written_line_is_given_when_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "000001.jsonl"
    file.write_bytes(b'{"n":1}\n{"n":')
    reader = Reader(tmp_path)
    assert numbers(reader.read()) == [1]
    assert numbers(reader.follow(Moments(lambda: file.write_bytes(b'{"n":1}\n{"n":2}\n')))) == [2]


def test_a_line_torn_by_a_crash_and_cut_off_by_the_next_writer_does_not_disturb(tmp_path: Path) -> None:
    file = tmp_path / "000001.jsonl"
    file.write_bytes(b'{"n":1}\n{"n":')
    reader = Reader(tmp_path)
    reader.read()
    assert numbers(reader.follow(Moments(lambda: write(tmp_path, [2])))) == [2]


def test_following_a_book_that_is_begun_later_or_anew(tmp_path: Path) -> None:
    directory = tmp_path / "logs"
    reader = Reader(directory)

    def anew() -> None:
        shutil.rmtree(directory)
        write(directory, [90])

    moments = Moments(lambda: write(directory, range(60)), anew)
    assert numbers(reader.follow(moments)) == [*range(60), 90]


def test_following_selects_as_reading_does(tmp_path: Path) -> None:
    def more() -> None:
        write(tmp_path, [1, 8], role="Writer")
        write(tmp_path, [9], role="Other")

    assert numbers(Reader(tmp_path).follow(Moments(more), since="T0005", role="Writer")) == [8]


def test_every_record_is_given_once_whenever_the_writer_rotates(tmp_path: Path) -> None:
    one = book(tmp_path, keep=1000)
    given: list[object] = []
    wait = Moments(*(lambda n=n: one.write({"time": "T", "n": n}) for n in range(200)))  # type: ignore[misc]
    given = numbers(Reader(tmp_path).follow(wait))
    one.close()
    assert given == list(range(200))
    assert json.loads((tmp_path / "000001.jsonl").read_text().splitlines()[0])["n"] == 0
