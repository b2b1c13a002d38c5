"""Names that one process has; what another process sees of them is in functional/supervision/test_known_faults.py."""

import gc
import os
import resource
import signal
import threading
from pathlib import Path

import pytest

from partyctl_plugins.claims import Claim, ClaimedElsewhere


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "name"


def fails_in_a_fork(path: Path) -> str:
    """What a forked process is told when it claims the name; nothing if it gets it."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            held = Claim(path)
            held.path.stat()
        except ClaimedElsewhere as error:
            os.write(writing, error.owner.encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(pid, 0)
    with open(reading, encoding="utf-8") as told:
        return told.read()


def test_others_are_told_who_has_it_and_get_it_when_it_is_let_go(path: Path) -> None:
    claim = Claim(path)
    assert f"process {os.getpid()} has had it since " in fails_in_a_fork(path)
    claim.let_go()
    claim.let_go()
    assert not path.exists()
    assert fails_in_a_fork(path) == ""


def test_a_later_claim_of_the_same_process_takes_it_over_without_a_gap(path: Path) -> None:
    first, second = Claim(path), Claim(path)
    first.let_go()
    assert fails_in_a_fork(path)
    second.let_go()
    assert fails_in_a_fork(path) == ""


def test_one_that_nobody_has_any_more_is_let_go(path: Path) -> None:
    claim = Claim(path)
    del claim
    gc.collect()
    assert fails_in_a_fork(path) == ""


def test_what_a_dead_process_left_stands_in_nobodys_way(path: Path) -> None:
    assert fails_in_a_fork(path) == ""
    assert path.exists()
    Claim(path).let_go()


@pytest.mark.parametrize("record", [b"", b"{", b"[]", b'{"pid": 1, "since": "x"}', b'{"pid": 1, "since": 1e300}'])
def test_an_owner_that_has_not_said_who_it_is_has_it_all_the_same(path: Path, record: bytes) -> None:
    claim = Claim(path)
    # Not opened: a process that closes a descriptor of the file loses its locks.
    os.pwrite(os_fd_of(path), record.ljust(200), 0)
    assert fails_in_a_fork(path) == "another process has it"
    claim.let_go()


def test_a_full_disk_takes_no_claim(path: Path) -> None:
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
            held = Claim(path)
            status = len(path.read_bytes())
            held.let_go()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_fork_that_ends_takes_nothing_from_its_parent(path: Path) -> None:
    claim = Claim(path)
    pid = os.fork()
    if pid == 0:
        claim.let_go()
        os._exit(0)
    os.waitpid(pid, 0)
    assert fails_in_a_fork(path)
    claim.let_go()


def test_threads_that_claim_and_let_go_at_once_leave_it_to_the_last(path: Path) -> None:
    def work() -> None:
        for _ in range(50):
            Claim(path).let_go()

    last = Claim(path)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    last.let_go()
    assert fails_in_a_fork(path) == ""
    assert not [fd for fd in os.listdir("/proc/self/fd") if points_to(fd, path)]


def os_fd_of(path: Path) -> int:
    """The descriptor of this process that points to the file."""
    return next(int(fd) for fd in os.listdir("/proc/self/fd") if points_to(fd, path))


def points_to(fd: str, path: Path) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{fd}").startswith(str(path))
    except FileNotFoundError:
        return False
