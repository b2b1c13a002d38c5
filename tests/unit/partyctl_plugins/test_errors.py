"""The error tree: what each error says and whose doing it is."""

import math

import pytest

from partyctl_base.errors import PartyError
from partyctl_plugins import errors
from partyctl_plugins.errors import (
    AgentSessionError,
    CliExitError,
    ContinuityError,
    FailureKind,
    SessionResumeError,
    TurnFailedError,
    TurnTimeoutError,
)

EVERY_ERROR = [cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, AgentSessionError)]


def test_every_error_is_a_party_error_and_says_whose_doing_it_is() -> None:
    assert EVERY_ERROR[0] is AgentSessionError
    for cls in EVERY_ERROR:
        assert issubclass(cls, PartyError)
        assert cls is AgentSessionError or cls.whose != "ours"


def test_the_tree_drawn_at_the_head_of_the_module_is_the_tree_there_is() -> None:
    drawn = [
        line for line in (errors.__doc__ or "").splitlines() if "──" in line or line.strip() == "AgentSessionError"
    ]
    names = [line.replace("│", " ").replace("├──", " ").replace("└──", " ").split()[0] for line in drawn]
    assert sorted(names) == sorted(cls.__name__ for cls in EVERY_ERROR)


def test_a_failed_turn_carries_kind_detail_and_reset_time() -> None:
    error = TurnFailedError("no", kind=FailureKind.USAGE_LIMIT, detail="429", resets_at=12.5)
    assert (error.kind, error.detail, error.resets_at) == (FailureKind.USAGE_LIMIT, "429", 12.5)


@pytest.mark.parametrize("at", [math.nan, math.inf, 10**400])
def test_a_reset_time_that_is_no_time_is_none_that_was_said(at: float) -> None:
    assert TurnFailedError("no", kind=FailureKind.USAGE_LIMIT, resets_at=at).resets_at is None


@pytest.mark.parametrize("at", ["soon", True])
def test_a_reset_time_that_is_no_number_is_refused(at: float) -> None:
    with pytest.raises(TypeError, match="resets_at"):
        TurnFailedError("no", resets_at=at)


def test_a_failed_turn_is_of_kind_other_unless_told() -> None:
    assert TurnFailedError("no").kind is FailureKind.OTHER


@pytest.mark.parametrize(
    ("returncode", "said"),
    [(3, "claude ended with status 3"), (-9, "claude was ended by signal 9"), (None, "claude ended")],
)
def test_a_cli_exit_says_how_the_command_ended(returncode: int | None, said: str) -> None:
    assert str(CliExitError(["claude", "-p"], returncode)).startswith(said)


def test_a_cli_exit_gives_the_last_line_of_standard_error_as_its_cause() -> None:
    assert "no space left" in str(CliExitError(["claude"], 1, stderr="starting\nno space left\n"))


def test_a_refused_resume_names_the_conversation_and_is_a_failed_turn_of_kind_other() -> None:
    error = SessionResumeError(["claude"], 1, "conv-1")
    assert error.session_id == "conv-1"
    assert "'conv-1'" in str(error)
    assert isinstance(error, TurnFailedError)
    assert error.kind is FailureKind.OTHER


def test_a_timeout_says_its_limit_in_seconds() -> None:
    assert str(TurnTimeoutError(1.5)) == "the turn did not end within 1.5 s"


@pytest.mark.parametrize(("actual", "said"), [(None, "and there is none"), ("b", "and it is 'b'")])
def test_a_continuity_error_names_what_was_demanded_and_what_is_held(actual: str | None, said: str) -> None:
    message = str(ContinuityError("a", actual))
    assert "'a'" in message
    assert said in message


def test_a_conversation_that_nobody_named_is_refused_without_a_name() -> None:
    assert str(SessionResumeError()).startswith("the provider refused to resume the conversation")
