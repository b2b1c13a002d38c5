import os
from pathlib import Path

import pytest

from partyctl_base.paths import (
    PathError,
    config_directory,
    open_regular,
    runtime_directory,
    socket_path,
    state_directory,
)


def test_the_runtime_directory_is_made_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARTYCTL_RUNTIME_DIR", str(tmp_path / "run"))
    directory = runtime_directory("review")
    assert directory == tmp_path / "run" / "review"
    assert directory.stat().st_mode & 0o777 == 0o700


def test_xdg_names_the_places_when_nothing_else_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PARTYCTL_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert runtime_directory("p") == tmp_path / "run" / "partyctl" / "p"
    assert state_directory("p") == tmp_path / "state" / "partyctl" / "p"


def test_an_xdg_variable_that_would_name_another_place_in_each_directory_names_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.setenv("XDG_CONFIG_HOME", "./config")
    assert state_directory("p") == tmp_path / ".local" / "state" / "partyctl" / "p"
    assert config_directory() == tmp_path / ".config" / "partyctl"


def test_a_link_in_place_of_the_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setenv("PARTYCTL_RUNTIME_DIR", str(tmp_path / "run"))
    with pytest.raises(PathError, match="not a real directory"):
        runtime_directory("p")


def test_a_directory_open_to_others_is_closed_to_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir(mode=0o755)
    monkeypatch.setenv("PARTYCTL_RUNTIME_DIR", str(tmp_path / "run"))
    runtime_directory("p")
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_directory_that_others_can_write_is_refused_and_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    run.chmod(mode)
    monkeypatch.setenv("PARTYCTL_RUNTIME_DIR", str(run))
    with pytest.raises(PathError, match=rf"can be written by others \({run}\): its mode is 0{mode:o}"):
        runtime_directory("p")
    assert run.stat().st_mode & 0o777 == mode


def test_a_link_in_place_of_a_partys_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARTYCTL_RUNTIME_DIR", str(tmp_path / "run"))
    runtime_directory("other")
    (tmp_path / "run" / "p").symlink_to(tmp_path)
    with pytest.raises(PathError, match="not a real directory"):
        runtime_directory("p")


def test_only_a_regular_file_is_opened_and_nothing_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").write_text("x")
    with open_regular(tmp_path / "file") as file:
        assert file.read() == b"x"
    for name, why in {"fifo": "a FIFO", ".": "a directory", "loop": "symbolic links", "none": "No such file"}.items():
        with pytest.raises(OSError, match=why):
            open_regular(tmp_path / name)
    with pytest.raises(OSError, match="a device"):
        open_regular(Path("/dev/null"))


def test_a_socket_path_over_107_bytes_says_how_long_it_is_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(PathError, match=r"107.*PARTYCTL_RUNTIME_DIR"):
        socket_path(Path("/tmp") / ("é" * 60), "control.sock")
    assert socket_path(Path("/tmp/x"), "control.sock") == Path("/tmp/x/control.sock")
