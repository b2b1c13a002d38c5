import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from partyctl.config import PartyConfig
from partyctl.errors import ConfigError, ProgramError
from partyctl.program import digest, import_program, session_in, split_target

PROTOCOL = (
    "import partyctl as ap\nA, B = ap.roles('A', 'B')\nclass Hi(ap.Message):\n    pass\n"
    "protocol = ap.Protocol(ap.send(A, B, Hi))\n"
)
SESSION = PROTOCOL + "session = ap.Session(protocol, {A: ap.Script([Hi()]), B: ap.Script([])})\n"


@pytest.fixture(autouse=True)
def imports_undone() -> Iterator[None]:
    before, path = set(sys.modules), list(sys.path)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if name.startswith("partyctl_program_"):
            del sys.modules[name]


def written(directory: Path, source: str) -> Path:
    path = directory / "mine.py"
    path.write_text(source)
    return path


def session_of(path: Path, name: str | None = None) -> object:
    return session_in(import_program(path), path, name, PartyConfig())


@pytest.mark.parametrize(("target", "name"), [("mine.py", None), ("mine.py:talk", "talk")])
def test_a_target_is_a_file_and_perhaps_a_name(target: str, name: str | None, tmp_path: Path) -> None:
    written(tmp_path, "")
    assert split_target(str(tmp_path / target)) == (tmp_path / "mine.py", name)


def test_a_file_with_a_colon_in_its_name_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "a:b").write_text("")
    assert split_target(str(tmp_path / "a:b")) == (tmp_path / "a:b", None)


@pytest.mark.parametrize("target", ["nothing.py", "nothing.py:name", "", ":"])
def test_what_is_no_file_is_said(target: str) -> None:
    with pytest.raises(ProgramError, match="no such file"):
        split_target(target)


@pytest.mark.parametrize("target", [".", "/"])
def test_a_directory_is_told_from_what_is_not_there(target: str) -> None:
    with pytest.raises(ProgramError, match="It is a directory"):
        split_target(target)


def test_the_one_session_is_found_and_wins_over_protocols(tmp_path: Path) -> None:
    path = written(tmp_path, SESSION)
    assert type(session_of(path)).__name__ == "Session"
    assert session_of(path, "session") is not None


def test_two_names_of_one_session_are_no_choice(tmp_path: Path) -> None:
    assert session_of(written(tmp_path, SESSION + "again = session\n")) is not None


@pytest.mark.parametrize(
    ("source", "name", "told"),
    [
        ("", None, "no Session and no Protocol"),
        (SESSION + "other = ap.Session(protocol, session.cast)\n", None, "several of kind Session"),
        (SESSION, "nobody", "it has protocol, session"),
        (SESSION, "A", "not a Session or a Protocol"),
        ("x = 1", "y", "it has no Session"),
    ],
)
def test_what_a_file_lacks_is_said(source: str, name: str | None, told: str, tmp_path: Path) -> None:
    path = written(tmp_path, source)
    with pytest.raises(ProgramError, match=told):
        session_of(path, name)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("x = (", r"mine.py:1\): SyntaxError"),
        ("\nimport nowhere", r"mine.py:2\): ModuleNotFoundError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("import asyncio\nraise asyncio.CancelledError('odd')", "CancelledError: odd"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("\0", "SyntaxError|ValueError"),
        ("# coding: nonsense\n", "SyntaxError"),
    ],
)
def test_whatever_an_import_raises_is_told_with_file_and_line(source: str, told: str, tmp_path: Path) -> None:
    before = set(sys.modules)
    with pytest.raises(ProgramError, match=told):
        import_program(written(tmp_path, source))
    assert not [name for name in set(sys.modules) - before if name.startswith("partyctl_program_")]


def test_ctrl_c_during_an_import_is_not_an_error_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        import_program(written(tmp_path, "raise KeyboardInterrupt"))


def test_a_file_that_changed_since_it_was_submitted_is_not_run(tmp_path: Path) -> None:
    path = written(tmp_path, "x = 1")
    submitted = digest(path)
    assert import_program(path, expected=submitted).x == 1
    written(tmp_path, "x = 2")
    with pytest.raises(ProgramError, match="changed"):
        import_program(path, expected=submitted)


def test_a_change_that_keeps_size_and_time_is_seen(tmp_path: Path) -> None:
    path = written(tmp_path, "x = 1")
    import_program(path)
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    written(tmp_path, "x = 2")
    os.utime(path, ns=times)
    assert import_program(path).x == 2
    assert not (tmp_path / "__pycache__").exists()


def test_a_file_sees_its_own_name_and_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_mine.py").write_text("y = 5")
    source = "import neighbour_of_mine\nx = neighbour_of_mine.y\nhere = __file__\nmain = __name__ == '__main__'\n"
    module = import_program(written(tmp_path, source))
    assert (module.x, module.here, module.main) == (5, str(tmp_path / "mine.py"), False)
    del sys.modules["neighbour_of_mine"]


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="cannot be read"):
        digest(tmp_path)


def test_a_persons_role_in_party_toml_needs_a_desk(tmp_path: Path) -> None:
    from partyctl.config import load

    (tmp_path / "party.toml").write_text('[roles.A]\nhuman = "desk"\n')
    path = written(tmp_path, PROTOCOL)
    with pytest.raises(ConfigError, match="no desk"):
        session_in(import_program(path), path, None, load(tmp_path / "party.toml"))


def test_a_definition_is_no_program(tmp_path: Path) -> None:
    file = tmp_path / "order.json"
    file.write_text("{}")
    with pytest.raises(ProgramError, match="partyctl check"):
        import_program(file)
