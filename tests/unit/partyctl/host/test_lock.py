import json
import os
from pathlib import Path

import pytest

from partyctl.errors import AlreadyRunning, HostError, StateTaken
from partyctl.host.lock import PartyLock, StateLock


def directory(runtime: Path) -> Path:
    (runtime / "p").mkdir(mode=0o700)
    return runtime / "p"


def test_the_lock_names_its_holder_and_refuses_a_second(runtime: Path) -> None:
    place = directory(runtime)
    with PartyLock("p", place):
        assert json.loads((place / "lock").read_text())["pid"] == os.getpid()
        with pytest.raises(AlreadyRunning) as caught:
            PartyLock("p", place)
        assert caught.value.pid == os.getpid()


def test_a_released_lock_can_be_taken_again_and_names_nobody(runtime: Path) -> None:
    place = directory(runtime)
    with PartyLock("p", place):
        pass
    assert (place / "lock").read_text() == ""
    with PartyLock("p", place):
        pass


def test_a_refused_starter_keeps_no_descriptor(runtime: Path) -> None:
    place = directory(runtime)
    with PartyLock("p", place):
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            with pytest.raises(AlreadyRunning):
                PartyLock("p", place)
        assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("obstacle", ["directory", "link"])
def test_a_lock_that_cannot_be_opened_is_an_error_with_a_way_out(runtime: Path, obstacle: str) -> None:
    place = directory(runtime)
    if obstacle == "directory":
        (place / "lock").mkdir()
    else:
        (place / "lock").symlink_to(place / "elsewhere")
    with pytest.raises(HostError, match="cannot be opened") as caught:
        PartyLock("p", place)
    assert caught.value.where == str(place / "lock")
    assert "PARTYCTL_RUNTIME_DIR" in caught.value.fix
    assert not (place / "elsewhere").exists()


def test_a_lock_that_cannot_be_written_is_an_error_and_is_let_go(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = directory(runtime)

    def full(fd: int, data: bytes, offset: int) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        with pytest.raises(HostError, match="No space left"):
            PartyLock("p", place)
    with PartyLock("p", place):
        pass


def test_a_state_directory_is_one_hosts_whatever_its_runtime_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with StateLock("p"), StateLock("q"):
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(2):
            with pytest.raises(StateTaken, match=f"another runtime directory.*{tmp_path}/partyctl/p"):
                StateLock("p")
        assert len(os.listdir("/proc/self/fd")) == before
    with StateLock("p"):
        pass


def test_a_state_directory_that_cannot_be_had_holds_no_host_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "partyctl").write_text("no directory")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with StateLock("p"), StateLock("p"):
        pass
