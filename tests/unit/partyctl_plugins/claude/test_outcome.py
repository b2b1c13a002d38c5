"""What a finished turn comes to."""

import pytest

from partyctl_plugins.claude.outcome import reported, result_of
from partyctl_plugins.claude.turn import Turn
from partyctl_plugins.contract import (
    ApprovalPolicy,
    FailureKind,
    SessionResumeError,
    TokenUsage,
    TurnFailedError,
    TurnResult,
)

USAGE = {
    "input_tokens": 100,
    "cache_creation_input_tokens": 20,
    "cache_read_input_tokens": 30,
    "output_tokens": 10,
    "cache_creation": {"ephemeral_1h_input_tokens": 5},
    "output_tokens_details": {"thinking_tokens": 4},
}
DENIAL = {"tool_name": "Bash", "tool_use_id": "t-1", "tool_input": {}}


def finished(*, approvals: ApprovalPolicy = ApprovalPolicy.DENY, resumed: bool = False, **fields: object) -> TurnResult:
    turn = Turn("u-1", "s-1")
    turn.receive({"type": "assistant", "message": {"content": [{"type": "text", "text": "so far"}]}})
    frame = {"type": "result", "is_error": False, "usage": USAGE, "total_cost_usd": 0.5, "duration_ms": 7, **fields}
    turn.receive(frame)
    return result_of(turn, resumed=resumed, spent_before=0.2, elapsed=1.0, approvals=approvals)


def test_the_answer_is_the_result_of_the_frame() -> None:
    result = finished(result="done")
    assert (result.text, result.session_id, result.duration_ms) == ("done", "s-1", 7)
    assert not result.interrupted


def test_cost_is_what_the_process_spent_since_the_turn_before() -> None:
    assert finished(result="x").cost_usd == pytest.approx(0.3)
    assert finished(result="x", total_cost_usd=None).cost_usd is None


def test_usage_counts_the_cache_as_input() -> None:
    assert finished(result="x").usage.tokens == TokenUsage(150, 10, 30, 20, 5, 4, 1)


def test_an_error_result_raises_with_kind_and_words() -> None:
    with pytest.raises(TurnFailedError, match="API Error: 529") as caught:
        finished(is_error=True, subtype="success", result="API Error: 529 Overloaded", api_error_status=529)
    assert caught.value.kind is FailureKind.TRANSIENT
    assert not isinstance(caught.value, SessionResumeError)


def test_an_aborted_turn_returns_what_it_had() -> None:
    result = finished(is_error=True, subtype="error_during_execution", terminal_reason="aborted_streaming")
    assert (result.interrupted, result.text) == (True, "so far")


def test_a_turn_without_a_result_was_ended_by_force() -> None:
    turn = Turn("u-1", None)
    result = result_of(turn, resumed=False, spent_before=0, elapsed=1.5, approvals=ApprovalPolicy.DENY)
    assert (result.interrupted, result.duration_ms, result.usage.increment_known) == (True, 1500, False)


def test_a_refused_resume_in_mid_life_is_named_as_such() -> None:
    with pytest.raises(SessionResumeError) as caught:
        finished(is_error=True, num_turns=0, errors=["No conversation found with session ID: s-1"], resumed=True)
    assert caught.value.session_id == "s-1"


def test_a_denied_permission_fails_the_turn_only_if_the_caller_said_so() -> None:
    assert finished(result="x", permission_denials=[DENIAL]).text == "x"
    with pytest.raises(TurnFailedError, match="permissions"):
        finished(result="x", permission_denials=[DENIAL], approvals=ApprovalPolicy.FAIL_TURN)


def test_what_a_failed_turn_used_is_a_report_and_without_a_result_there_is_none() -> None:
    turn = Turn("u-1", "s-1")
    assert reported(turn, 0.0) is None
    turn.receive({"type": "result", "is_error": True, "usage": USAGE, "total_cost_usd": 0.5})
    report = reported(turn, 0.2)
    assert report is not None
    assert (report.usage.tokens.total_tokens, report.cost_usd) == (160, pytest.approx(0.3))
