import os
from pathlib import Path

import pytest

from partyctl.hostlog import open_log, rotate
from partyctl_base.paths import PathError


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "host.log"


def test_a_log_that_is_too_long_is_exchanged_under_the_descriptors_that_write_to_it(log: Path) -> None:
    fd = open_log(log)
    os.write(fd, b"x" * 101)
    assert rotate(log, longest=100, outputs=(fd,))
    os.write(fd, b"after")
    assert log.read_bytes() == b"after"
    assert (log.stat().st_mode & 0o777) == 0o600
    assert len(log.with_name("host.log.1").read_bytes()) == 101
    os.write(fd, b"y" * 101)
    assert rotate(log, longest=100, outputs=(fd,))
    assert log.with_name("host.log.1").read_bytes() == b"after" + b"y" * 101
    assert sorted(path.name for path in log.parent.iterdir()) == ["host.log", "host.log.1"]
    os.close(fd)


def test_a_log_of_its_length_stays(log: Path) -> None:
    fd = open_log(log)
    os.write(fd, b"x" * 100)
    assert not rotate(log, longest=100, outputs=(fd,))
    os.close(fd)


def test_a_log_that_others_write_to_is_left_to_them(log: Path, tmp_path: Path) -> None:
    log.write_bytes(b"x" * 101)
    other = os.open(tmp_path / "other", os.O_WRONLY | os.O_CREAT)
    assert not rotate(log, longest=100, outputs=(other, 10_000))
    os.close(other)
    assert len(log.read_bytes()) == 101


def test_no_log_is_no_trouble(log: Path) -> None:
    assert not rotate(log, outputs=(2,))


def test_opening_puts_a_long_one_aside_and_follows_no_link(log: Path, tmp_path: Path) -> None:
    log.write_bytes(b"x" * 101)
    os.close(open_log(log, longest=100))
    assert log.read_bytes() == b""
    log.unlink()
    log.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PathError, match="Too many levels of symbolic links"):
        open_log(log)
    assert not (tmp_path / "elsewhere").exists()
