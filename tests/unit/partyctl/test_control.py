import fcntl
import json
import os
import time
from pathlib import Path

import pytest

from partyctl.control import Control, await_free, condition, connect, is_held, owner
from partyctl.errors import HostError, NotAnswering, NotRunning, Unknown, VersionSkew
from partyctl_base.channel import Channel
from tests.fakes.control_host import STATUS, FakeHost

DEAD_PID = 2**22 + 1  # above the largest pid the kernel gives


def test_a_host_is_greeted_and_answers(runtime: Path) -> None:
    with FakeHost(runtime / "p") as host, connect("p") as control:
        assert control.pid == host.pid
        reply = control.request({"t": "status"}, 5)
        assert reply["status"] == STATUS


def test_a_reply_carries_the_descriptors_that_came_with_it(runtime: Path) -> None:
    with FakeHost(runtime / "p"), connect("p") as control:
        (fd,) = control.request({"t": "status"}, 5).fds
        assert os.read(fd, 1) == b""
        os.close(fd)


def test_replies_end_when_the_host_hangs_up(runtime: Path) -> None:
    with FakeHost(runtime / "p"), connect("p") as control:
        control.send({"t": "down", "timeout": 1, "now": True}, 5)
        assert [reply["t"] for reply in control.replies(5)] == ["progress", "done"]


def test_nothing_there_is_not_running(runtime: Path) -> None:
    with pytest.raises(NotRunning, match='party "p" is not running'):
        connect("p")


def test_the_files_of_a_crash_are_not_running(runtime: Path) -> None:
    with FakeHost(runtime / "p") as host:
        host.kill()
        assert (runtime / "p" / "control.sock").exists()
        with pytest.raises(NotRunning):
            connect("p")


def test_a_stopped_host_is_not_answering_and_named_within_the_limit(runtime: Path) -> None:
    with FakeHost(runtime / "p") as host:
        host.stop()
        begun = time.monotonic()
        with pytest.raises(NotAnswering, match=rf"pid {host.pid}\): stopped.*kill -CONT {host.pid}") as caught:
            connect("p", timeout=0.3)
        assert time.monotonic() - begun < 2
        assert caught.value.condition == "stopped"


def test_a_silent_host_is_busy(runtime: Path) -> None:
    with FakeHost(runtime / "p", "silent"), pytest.raises(NotAnswering, match="busy"):
        connect("p", timeout=0.3)


def test_a_host_without_a_socket_is_waited_for_and_then_starting(runtime: Path) -> None:
    with FakeHost(runtime / "p", "doorless"), pytest.raises(NotAnswering) as caught:
        connect("p", timeout=0.2)
    assert caught.value.condition == "starting"


def test_a_host_of_another_protocol_version_is_refused_with_both_versions_and_what_to_do(runtime: Path) -> None:
    told = r'"p" speaks version 99 \(partyctl 9\.9\), this is version 1 \(partyctl 0\..*partyctl down.*partyctl up'
    with FakeHost(runtime / "p", "foreign"), pytest.raises(VersionSkew, match=told):
        connect("p")


def test_a_host_of_another_protocol_version_can_be_asked_what_every_version_knows(runtime: Path) -> None:
    with FakeHost(runtime / "p", "foreign"), connect("p", any_version=True) as control:
        assert (control.version, control.release) == (99, "9.9")
        control.send({"t": "down", "timeout": 1, "now": True}, 5)
        assert [reply["t"] for reply in control.replies(5)] == ["progress", "done"]


def test_a_first_answer_that_is_no_hello_is_an_error_in_any_version(runtime: Path) -> None:
    with FakeHost(runtime / "p", "mumbles"), pytest.raises(HostError, match="no message of the control protocol"):
        connect("p", any_version=True)


def test_a_host_that_hangs_up_instead_of_answering_is_told_from_an_answer(runtime: Path) -> None:
    with FakeHost(runtime / "p", "hangs up"), connect("p") as control, pytest.raises(NotAnswering):
        control.request({"t": "status"}, 5)


def test_an_answer_that_is_no_message_is_an_error(runtime: Path) -> None:
    with FakeHost(runtime / "p", "babbles"), connect("p") as control, pytest.raises(HostError, match="no message"):
        control.request({"t": "status"}, 5)


def test_a_request_has_its_limit(runtime: Path) -> None:
    near, far = Channel.pair()
    with Control("p", near) as control:
        control.pid = os.getpid()
        with pytest.raises(NotAnswering, match=r"within 0\.05 s"):
            control.request({"t": "status"}, 0.05)
    far.close()


def test_a_host_that_ends_during_a_request_is_gone_and_not_as_if_it_had_never_been(runtime: Path) -> None:
    with FakeHost(runtime / "p") as host, connect("p") as control:
        host.kill()
        with pytest.raises(NotAnswering) as caught:
            control.request({"t": "status"}, 5)
    assert caught.value.condition == "gone"


def test_the_owner_is_who_holds_the_lock(runtime: Path) -> None:
    with FakeHost(runtime / "p") as host:
        found = owner("p")
        assert found is not None
        assert (found.pid, found.party, found.started) == (host.pid, "p", "2026-01-01T00:00:00+00:00")
    assert owner("p") is None


def test_a_living_process_named_in_a_free_lock_owns_nothing(runtime: Path) -> None:
    (runtime / "p").mkdir(mode=0o700)
    (runtime / "p" / "lock").write_text(json.dumps({"pid": os.getpid(), "party": "p", "started": ""}))
    assert owner("p") is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x"}', '{"pid": 1}', "\x00" * 9])
def test_a_torn_lock_file_names_nobody(runtime: Path, text: str) -> None:
    (runtime / "p").mkdir(mode=0o700)
    (runtime / "p" / "lock").write_text(text)
    assert owner("p") is None


def test_a_held_lock_that_still_names_a_dead_process_has_no_owner_yet(runtime: Path) -> None:
    # A starter has just taken the lock over a stale file and not written its name.
    (runtime / "p").mkdir(mode=0o700)
    path = runtime / "p" / "lock"
    path.write_text(json.dumps({"pid": DEAD_PID, "party": "p", "started": ""}))
    with path.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert is_held(path)
        assert owner("p") is None
    assert not is_held(path)


def test_waiting_for_a_free_lock_ends_at_its_limit(runtime: Path) -> None:
    with FakeHost(runtime / "p", "doorless") as host:
        assert not await_free("p", host.pid, 0.1)
        host.kill()
        assert await_free("p", host.pid, 5)


def test_the_kernel_says_what_is_the_matter_with_a_process() -> None:
    assert condition(os.getpid()) == "busy"
    assert condition(DEAD_PID) == "gone"
    assert condition(None) == "gone"


def test_where_no_socket_can_be_there_is_no_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARTYCTL_RUNTIME_DIR", str(tmp_path / ("d" * 100)))
    with pytest.raises(NotRunning):
        connect("p")


def test_a_lock_that_cannot_be_read_says_nothing_about_a_host(runtime: Path) -> None:
    lock = runtime / "p" / "lock"
    lock.mkdir(parents=True)
    with pytest.raises(Unknown, match=rf'cannot be told whether party "p" is running \({lock}\): Is a directory'):
        owner("p")
    lock.rmdir()
    lock.symlink_to("lock")
    with pytest.raises(Unknown, match="symbolic links"):
        connect("p")
