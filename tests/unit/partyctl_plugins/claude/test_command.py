"""Options, binary, arguments, environment."""

from pathlib import Path

import pytest

from partyctl_plugins.claude import command
from partyctl_plugins.claude.command import StreamOptions
from partyctl_plugins.contract import (
    ApprovalPolicy,
    ConversationSpec,
    NativePermissions,
    OutputSchema,
    ProviderCapabilityError,
    ProviderOptionsError,
    TurnFailedError,
    TurnRequest,
)

SPEC = ConversationSpec("/work", NativePermissions.bypass(), ApprovalPolicy.DENY)


def test_options_have_defaults_and_take_what_is_given() -> None:
    options = StreamOptions.parse({"binary": "/x/claude", "startup_timeout_s": 20})
    assert (options.binary, options.startup_timeout_s, options.max_line_bytes) == ("/x/claude", 20, 32 * 1024 * 1024)
    assert StreamOptions().startup_timeout_s >= 10


def test_a_misspelt_option_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ProviderOptionsError, match="Did you mean 'binary'"):
        StreamOptions.parse({"binry": "x"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("binary", ""),
        ("binary", 7),
        ("startup_timeout_s", 0),
        ("startup_timeout_s", "10"),
        ("close_grace_s", float("nan")),
        ("interrupt_grace_s", True),
        ("max_line_bytes", 1.5),
        ("max_line_bytes", -1),
    ],
)
def test_an_option_without_a_usable_value_is_refused(name: str, value: object) -> None:
    with pytest.raises(ProviderOptionsError, match=name):
        StreamOptions.parse({name: value})


@pytest.mark.parametrize("path", ["/nowhere/at/all", ""])
def test_a_missing_command_is_reported_with_the_path_that_was_searched(path: str) -> None:
    with pytest.raises(TurnFailedError) as caught:
        command.find_binary("claude", {"PATH": path})
    assert f"PATH={path}" in str(caught.value)
    assert "binary" in str(caught.value)


def test_the_path_is_that_of_the_given_environment(tmp_path: Path) -> None:
    binary = tmp_path / "claude"
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    assert command.find_binary("claude", {"PATH": str(tmp_path)}) == str(binary)
    assert command.find_binary(str(binary), {}) == str(binary)


def test_the_arguments_speak_frames_both_ways_and_let_nobody_prompt() -> None:
    argv = command.arguments("claude", SPEC, None)
    assert argv[:6] == ("claude", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
    assert argv[6:] == ("--permission-prompts", "none", "--permission-mode", "bypassPermissions")


def test_model_effort_and_conversation_become_arguments() -> None:
    spec = ConversationSpec(
        "/work", NativePermissions.bypass(), ApprovalPolicy.DENY, model="opus", reasoning_effort="high"
    )
    assert command.arguments("claude", spec, "-odd")[-5:] == ("--model", "opus", "--effort", "high", "--resume=-odd")


def test_the_child_is_not_told_that_it_runs_in_another_claude() -> None:
    assert command.child_environment({"CLAUDECODE": "1", "HOME": "/h"}, root=False) == {"HOME": "/h"}


def test_root_needs_a_word_for_bypass_and_the_user_has_the_last() -> None:
    assert command.child_environment({}, root=True) == {"IS_SANDBOX": "1"}
    assert command.child_environment({"IS_SANDBOX": "0"}, root=True) == {"IS_SANDBOX": "0"}


def test_a_permission_mode_that_cannot_be_promised_is_refused() -> None:
    with pytest.raises(ProviderCapabilityError, match="read_only"):
        command.check_spec(ConversationSpec("/work", NativePermissions.read_only(), ApprovalPolicy.DENY))


@pytest.mark.parametrize(
    "request_",
    [
        TurnRequest("x", cwd="/elsewhere"),
        TurnRequest("x", output_schema=OutputSchema({"type": "object"})),
        TurnRequest("x", reasoning_effort="high"),
        TurnRequest("x", extra_args=("--debug",)),
        TurnRequest("x", env={"A": "1"}),
    ],
)
def test_a_turn_that_would_need_another_process_is_refused(request_: TurnRequest) -> None:
    with pytest.raises(ProviderCapabilityError):
        command.check_request(request_, SPEC)
    command.check_request(TurnRequest("x", cwd="/work", timeout=3), SPEC)
