"""The traceback of a run that failed is kept until the run goes on, and keeping it never fails the telling."""

from pathlib import Path

import pytest

from partyctl import tracebacks


def raised(text: str) -> Exception:
    try:
        raise ValueError(text)
    except ValueError as error:
        return error


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("run", ["run-1", "x" * 1000, "..", "\udc80"])
def test_what_is_kept_is_private_and_without_secrets_and_can_be_forgotten(run: str) -> None:
    path = tracebacks.keep("p", run, raised("token=abcdefghijklmnop \udc80"))
    assert path is not None
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    found = tracebacks.kept("p", run)
    assert found.startswith("Traceback (most recent call last):")
    assert "token=***" in found
    assert tracebacks.kept("p", "another") == ""
    tracebacks.forget("p", run)
    tracebacks.forget("p", run)
    assert tracebacks.kept("p", run) == ""


def test_a_long_one_keeps_its_end_and_many_keep_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracebacks, "KEPT", 2)
    monkeypatch.setattr(tracebacks, "LONGEST", 1000)
    for number in range(4):
        tracebacks.keep("p", f"run-{number}", raised("x " * 1000 + "the end"))
    lengths = [len(tracebacks.kept("p", f"run-{number}")) for number in range(4)]
    assert lengths == [0, 0, 1000, 1000]
    assert tracebacks.kept("p", "run-3").endswith("the end\n")


def test_where_nothing_can_be_kept_nothing_is_raised(state: Path) -> None:
    (state / "partyctl").write_text("no directory")
    assert tracebacks.keep("p", "run-1", raised("no")) is None
    assert tracebacks.kept("p", "run-1") == ""
    tracebacks.forget("p", "run-1")
