import pytest

from partyctl_actors.supervision import worker_ends
from partyctl_confinement.client import ExitNotice
from partyctl_plugins.contract import CliExitError, PluginLoadError, TurnTimeoutError
from partyctl_plugins.manager import ProviderEntry

ENTRY = ProviderEntry("fake", "fake_plugin", "fakes", "1.0")


def notice(status: int | None = 3, signal: int | None = None, stderr: bytes = b"") -> ExitNotice:
    return ExitNotice(7, status, signal, stderr, "exit")


@pytest.mark.parametrize("state", ["starting", "loading", "loaded"])
def test_until_the_plugin_is_loaded_the_end_is_the_plugins(state: str) -> None:
    error = worker_ends.ended(ENTRY, state, notice(stderr=b"no module\n"))
    assert isinstance(error, PluginLoadError)
    assert (error.where, error.why) == ("provider 'fake' of fakes 1.0, worker pid 7", "exited with status 3\nno module")


@pytest.mark.parametrize("state", ["opening", "idle", "busy"])
def test_afterwards_it_is_that_of_a_cli(state: str) -> None:
    error = worker_ends.ended(ENTRY, state, notice(None, 9))
    assert isinstance(error, CliExitError)
    assert (error.returncode, error.why) == (-9, "killed by SIGKILL")
    assert state in str(error)


def test_only_the_last_lines_are_shown() -> None:
    lines = [f"line {number}" for number in range(worker_ends.STDERR_LINES + 1)]
    error = worker_ends.ended(ENTRY, "busy", notice(stderr="\n".join(lines).encode() + b"\xff"))
    assert "line 0" not in error.why
    assert "line 1\n" in error.why


@pytest.mark.parametrize("doing", ["start", "load"])
def test_a_late_plugin_is_named(doing: str) -> None:
    error = worker_ends.late(ENTRY, doing, 2.5)
    assert isinstance(error, PluginLoadError)
    assert f"did not {doing} within 2.5 s" in str(error)


@pytest.mark.parametrize("doing", ["open", "turn", "attach"])
def test_anything_else_that_is_late_says_what_it_was(doing: str) -> None:
    error = worker_ends.late(ENTRY, doing, 2.5)
    assert isinstance(error, TurnTimeoutError)
    assert error.where == f"provider 'fake' of fakes 1.0, {doing}"
