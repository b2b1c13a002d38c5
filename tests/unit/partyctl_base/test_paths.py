from pathlib import Path

import pytest

from partyctl_base.paths import PathError, runtime_directory, socket_path, state_directory


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


def test_a_socket_path_over_107_bytes_says_how_long_it_is_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(PathError, match=r"107.*PARTYCTL_RUNTIME_DIR"):
        socket_path(Path("/tmp") / ("é" * 60), "control.sock")
    assert socket_path(Path("/tmp/x"), "control.sock") == Path("/tmp/x/control.sock")
