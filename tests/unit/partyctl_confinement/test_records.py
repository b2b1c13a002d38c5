import pytest

from partyctl_base.process import ProcessIdentity
from partyctl_confinement import records

RECORD = ProcessIdentity(4711, 123456, "3f1f3a8e-0000-4000-8000-000000000000")


def test_a_record_survives_its_text() -> None:
    assert records.decode(records.encode(RECORD)) == RECORD


@pytest.mark.parametrize("cut", range(len(records.encode(RECORD))))
def test_a_torn_record_is_none(cut) -> None:
    assert records.decode(records.encode(RECORD)[:cut]) is None


@pytest.mark.parametrize(
    "text",
    [
        "something else\n",
        "partyctl-spawn-2 4711 1 boot\n",
        "partyctl-spawn-1 -1 1 boot\n",
        "partyctl-spawn-1 0 1 boot\n",
        "partyctl-spawn-1 1 1 boot\n",
        "partyctl-spawn-1 \u0664 1 boot\n",
        "partyctl-spawn-1 4711 1 boot more\n",
    ],
)
def test_what_is_no_record_is_none(text) -> None:
    assert records.decode(text) is None


def test_records_are_written_private_found_and_removed(tmp_path) -> None:
    records.write(tmp_path, RECORD)
    (path,) = tmp_path.iterdir()
    assert path.name == "4711.spawn"
    assert path.stat().st_mode & 0o777 == 0o600
    assert records.read_all(tmp_path) == ([RECORD], ())
    records.remove(tmp_path, RECORD.pid)
    records.remove(tmp_path, RECORD.pid)
    assert list(tmp_path.iterdir()) == []


def test_writing_again_replaces_the_record_of_an_earlier_process_of_that_pid(tmp_path) -> None:
    records.write(tmp_path, RECORD)
    later = ProcessIdentity(RECORD.pid, RECORD.started + 1, RECORD.boot)
    records.write(tmp_path, later)
    assert records.read_all(tmp_path) == ([later], ())


def test_a_draft_is_removed_and_a_foreign_file_is_named_and_stays(tmp_path) -> None:
    (tmp_path / ".12.spawn").write_text("half", encoding="ascii")
    (tmp_path / "13.spawn").write_text(records.encode(RECORD), encoding="ascii")
    (tmp_path / "14.spawn").mkdir()
    (tmp_path / "15.spawn").symlink_to("/etc/passwd")
    (tmp_path / "notes.txt").write_text("mine", encoding="ascii")
    assert records.read_all(tmp_path) == ([], ("13.spawn", "14.spawn", "15.spawn"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["13.spawn", "14.spawn", "15.spawn", "notes.txt"]


def test_a_directory_that_does_not_exist_holds_nothing(tmp_path) -> None:
    assert records.read_all(tmp_path / "none") == ([], ())


@pytest.mark.parametrize("left", [b"", b"\0" * 60], ids=["empty", "zeros"])
def test_what_a_power_cut_leaves_of_a_record_is_removed(tmp_path, left) -> None:
    (tmp_path / "15.spawn").write_bytes(left)
    assert records.read_all(tmp_path) == ([], ())
    assert list(tmp_path.iterdir()) == []
