from importlib import import_module
from pathlib import Path

import pytest

from partyctl.cli.root import partyctl
from partyctl.errors import (
    EXIT_CODES,
    AlreadyRunning,
    ConfigError,
    ExitCode,
    HostError,
    NotAnswering,
    NotRunning,
    Owner,
    StartFailed,
    Unknown,
    VersionSkew,
    exit_code,
)
from partyctl_base.errors import PartyError


@pytest.mark.parametrize("name", EXIT_CODES)
def test_every_class_in_the_table_exists_and_is_ours(name: str) -> None:
    module, _, kind = name.rpartition(".")
    assert issubclass(getattr(import_module(module), kind), PartyError)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PartyError("x"), 1),
        (HostError("x"), 1),
        (NotRunning("p"), 3),
        (NotAnswering("p", 1, "busy", 2), 4),
        (VersionSkew("p", "version 2", "version 1"), 4),
        (Unknown("p", Path("/lock"), "Permission denied"), 4),
        (AlreadyRunning("p", None), 5),
        (ConfigError("x"), 7),
        (StartFailed("x", 6), 6),
        (RuntimeError("ours"), 1),
    ],
)
def test_each_error_has_its_exit_code(error: Exception, code: int) -> None:
    assert exit_code(error) == code


def test_every_exit_code_has_its_meaning_and_the_help_tells_them_all() -> None:
    assert [int(code) for code in ExitCode] == [0, 1, 2, 3, 4, 5, 6, 7, 130, 143]
    told = " ".join((partyctl.help or "").split())
    assert all(f"{code:d} {code.meaning}" in told for code in ExitCode)


def test_a_subclass_goes_by_its_nearest_class_in_the_table() -> None:
    class Mistyped(ConfigError):
        """A finer kind of configuration error."""

    assert exit_code(Mistyped("x")) == 7


def test_a_config_error_reads_as_file_line_key_cause_and_remedy() -> None:
    error = ConfigError("unknown key 'nods'", file=Path("/x/party.toml"), line=3, key="party.nods", fix="Did you mean?")
    assert str(error) == "unknown key 'nods' (/x/party.toml:3, party.nods). Did you mean?"


def test_already_running_names_pid_and_party() -> None:
    error = AlreadyRunning("review", Owner(77, "review", ""))
    assert error.pid == 77
    assert 'party "review" is already running (pid 77)' in str(error)


@pytest.mark.parametrize("condition", ["busy", "stopped", "starting", "gone"])
def test_a_silent_host_is_described_with_what_to_do(condition: str) -> None:
    error = NotAnswering("p", 77, condition, 2)  # type: ignore[arg-type]
    assert f"{condition}: " in str(error)
    assert error.fix
    assert "{" not in str(error)
