"""What a finished turn comes to: a `TurnResult`, or the error that says how it failed."""

from partyctl_plugins.claude import classify
from partyctl_plugins.claude.frames import Frame, count_of, number_of, object_of, text_of
from partyctl_plugins.claude.turn import Turn
from partyctl_plugins.contract import (
    ApprovalPolicy,
    CostSource,
    FailureKind,
    ProviderUsage,
    SessionResumeError,
    TurnFailedError,
    TurnResult,
    normalized_usage,
)
from partyctl_plugins.events import UsageReport

FIXES = {
    FailureKind.AUTH: "Log in with `claude`, or give the worker an API key in its environment.",
    FailureKind.USAGE_LIMIT: "Wait for the limit to reset, or use another account.",
    FailureKind.CONTEXT_OVERFLOW: "Start a fresh conversation, or send less.",
}


def result_of(
    turn: Turn, *, resumed: bool, spent_before: float, elapsed: float, approvals: ApprovalPolicy
) -> TurnResult:
    """The result of a turn that was answered or ended by force.

    Args:
        turn: the turn.
        resumed: whether it continued an earlier conversation.
        spent_before: US dollars this process had reported before the turn; its figure is cumulative.
        elapsed: seconds since the turn began, used if the CLI does not say.
        approvals: with FAIL_TURN a denied permission is a failure.

    Raises:
        SessionResumeError: the conversation is gone.
        TurnFailedError: the result is an error, or a permission was denied under FAIL_TURN.
    """
    frame: Frame = turn.result or {}
    interrupted = turn.interrupted or turn.result is None
    if frame.get("is_error") is True and not interrupted:
        raise _failure(turn, frame, resumed)
    if turn.denied and approvals is ApprovalPolicy.FAIL_TURN and not interrupted:
        raise TurnFailedError(
            "the turn asked for permissions and was denied them",
            why=f"{turn.denied} of them, and approvals is fail_turn",
            fix="Grant what the task needs by the permission mode, or set approvals to deny.",
        )
    cost = cost_of(frame, spent_before)
    return TurnResult(
        text=text_of(frame, "result") or (turn.partial_text if interrupted else ""),
        structured_output=frame.get("structured_output"),
        session_id=turn.conversation_id,
        resumed=resumed,
        usage=_usage(frame, cost),
        cost_usd=cost,
        duration_ms=count_of(frame, "duration_ms") or round(elapsed * 1000),
        interrupted=interrupted,
        context_tokens=turn.context_tokens,
    )


def reported(turn: Turn, spent_before: float) -> UsageReport | None:
    """What a turn used that has failed, None if the CLI did not say; of one that was answered it is in the result."""
    if turn.result is None:
        return None
    cost = cost_of(turn.result, spent_before)
    return UsageReport(_usage(turn.result, cost), cost)


def total_cost(frame: Frame) -> float | None:
    """What the process has spent since its start, in US dollars."""
    return number_of(frame, "total_cost_usd")


def cost_of(frame: Frame, spent_before: float) -> float | None:
    """What the turn cost, in US dollars; None if the CLI does not say."""
    total = total_cost(frame)
    return None if total is None else max(0.0, total - spent_before)


def _failure(turn: Turn, frame: Frame, resumed: bool) -> TurnFailedError:
    words = classify.said(frame)
    if resumed and classify.refuses_resume(frame):
        return SessionResumeError(("claude",), session_id=turn.conversation_id or "", detail=words, why=words)
    kind = classify.kind_of(classify.symptoms(frame, turn.error))
    return TurnFailedError(
        "claude failed the turn",
        kind=kind,
        detail=words,
        resets_at=turn.resets_at if kind is FailureKind.USAGE_LIMIT else None,
        where=f"conversation {turn.conversation_id}" if turn.conversation_id else "",
        why=words or text_of(frame, "subtype"),
        fix=FIXES.get(kind, ""),
    )


def _usage(frame: Frame, cost: float | None) -> ProviderUsage:
    usage = object_of(frame, "usage")
    read, written = count_of(usage, "cache_read_input_tokens"), count_of(usage, "cache_creation_input_tokens")
    tokens = normalized_usage(
        input_tokens=count_of(usage, "input_tokens") + read + written,
        output_tokens=count_of(usage, "output_tokens"),
        cache_read_input_tokens=read,
        cache_write_input_tokens=written,
        cache_write_1h_input_tokens=count_of(object_of(usage, "cache_creation"), "ephemeral_1h_input_tokens"),
        reasoning_output_tokens=count_of(object_of(usage, "output_tokens_details"), "thinking_tokens"),
        turns=1,
    )
    return ProviderUsage(
        tokens=tokens,
        total_cost_usd=cost,
        provider="claude",
        raw={"usage": dict(usage), "total_cost_usd": total_cost(frame)} if frame else None,
        increment_known=bool(frame),
        cost_source=CostSource.PROVIDER_REPORTED if cost is not None else None,
    )
