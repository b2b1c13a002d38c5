"""How what the policy decides about a call or a turn becomes what Python raises, and the other way round."""

from __future__ import annotations

import time

from partyctl_actors.supervision.policy_commands import Command, Fail, Reason, Refusal, Refuse, Rule
from partyctl_actors.supervision.policy_events import Failed, Lost, Outcome
from partyctl_actors.supervision.spending import Used
from partyctl_base.errors import PartyError
from partyctl_confinement.errors import LauncherLost
from partyctl_plugins import failures
from partyctl_plugins.contract import (
    AgentEvent,
    AgentSessionError,
    ContinuityError,
    NoRunningTurnError,
    ProviderCapabilityError,
    SessionResumeError,
    SessionStateError,
    TurnCancelledError,
    TurnFailedError,
    TurnLostError,
    TurnTimeoutError,
)
from partyctl_plugins.events import (
    AssistantText,
    Reasoning,
    SkillInvoked,
    SteerConsumed,
    ToolCall,
    ToolResult,
    UsageReport,
)

NOTES = {
    Rule.RETRY_UNSAFE: "Not tried again, because a tool was used and RetryPolicy(after_tool='fail') is set",
    Rule.FRESH_REFUSED: "Not tried again in a fresh conversation, because a tool was used, or the turn keeps its own",
}
"""What is added to a provider's error where the session would have gone on but for a rule."""

_REFUSALS = {
    Refusal.CLOSED: ("the session is closed", "Open another one; with a checkpoint it goes on in its conversation"),
    Refusal.BUSY: ("a turn is running", "Wait for its end, or interrupt it"),
    Refusal.STALE: (
        "the ticket is not one that can run: it has run, or another turn was prepared after it",
        "Prepare the turn again",
    ),
}

_PROGRESS = (AssistantText, Reasoning, ToolCall, ToolResult, SkillInvoked, SteerConsumed)


class Watch:
    """What the events of one attempt say of it.

    Attributes:
        tool_ran: whether a tool was used.
        progressed: whether the provider did anything for the turn.
        report: the last one of what the attempt used.
    """

    def __init__(self) -> None:
        self.tool_ran = False
        self.progressed = False
        self.report: UsageReport | None = None

    def note(self, event: AgentEvent) -> None:
        self.tool_ran = self.tool_ran or isinstance(event, ToolCall | ToolResult)
        self.progressed = self.progressed or isinstance(event, _PROGRESS)
        if isinstance(event, UsageReport):
            self.report = event


def raise_refused(commands: list[Command]) -> None:
    """Raise what a refused call raises; nothing if it was not refused."""
    for command in commands:
        if isinstance(command, Refuse):
            raise _refused(command)


def _refused(refuse: Refuse) -> AgentSessionError:
    if refuse.refusal is Refusal.CONTINUITY:
        return ContinuityError(refuse.expected or "", refuse.actual)
    if refuse.refusal is Refusal.NO_RUNNING_TURN:
        return NoRunningTurnError(
            "there is no running turn to steer",
            why="none was begun, or it is between attempts, or about to end",
            fix="Say it in the prompt of the next turn",
        )
    if refuse.refusal is Refusal.CANNOT_STEER:
        return ProviderCapabilityError(
            "the provider takes no message while a turn runs", fix="Say it in the prompt of the next turn"
        )
    what, fix = _REFUSALS[refuse.refusal]
    return SessionStateError(what, fix=fix)


def raised(fail: Fail, last: Exception | None, why: str) -> Exception:
    """What a failed turn raises.

    Args:
        fail: what the policy says of it.
        last: what its last attempt raised; None if that was another supervisor's.
        why: the cause of a loss.
    """
    if fail.reason is Reason.CANCELLED:
        return TurnCancelledError("the turn was interrupted before the provider was asked", where=fail.turn_id)
    if fail.reason is Reason.CONTINUITY:
        return ContinuityError(
            fail.expected or "", fail.actual, where=fail.turn_id, fix="The session keeps the conversation it had"
        )
    if fail.reason is Reason.LOST:
        return TurnLostError(fail.turn_id, fail.in_flight, why=why)
    if last is None:  # the supervisor that knew is gone
        return TurnCancelledError("the turn was ended between two attempts", where=fail.turn_id)
    note = NOTES.get(fail.rule)
    if note is not None and note not in getattr(last, "__notes__", ()):
        last.add_note(note)
    return last


def own(error: Exception, doing: str) -> PartyError:
    """`error`, or a `TurnFailedError` that blames the transport for what is none of ours."""
    if isinstance(error, PartyError):
        return error
    blamed = failures.rebuild(failures.describe(error, None, doing))
    blamed.__cause__ = error
    return blamed


def words(error: BaseException) -> str:
    """What broke a turn, for a line: a message where there is one of ours, else what kind of exception it was."""
    return str(error) if isinstance(error, PartyError) else repr(error)


def happened(
    error: PartyError, at: float, serial: int, conversation_id: str | None, watch: Watch | None, died: bool,
    predecessor_dead: bool, used: Used,
) -> Failed | Lost:  # fmt: skip
    """The event of an attempt that raised `error`.

    Args:
        error: what it raised.
        at, serial, conversation_id, predecessor_dead, used: as for `Failed`.
        watch: what was seen of the turn, None if it was an opening.
        died: whether the connection is gone with it.
    """
    if isinstance(error, LauncherLost):
        return Lost(at, conversation_id, str(error))
    # A worker that died may have begun what it could not tell any more.
    tool_ran = watch is not None and (watch.tool_ran or died)
    return Failed(
        at, serial, outcome_of(error), conversation_id, tool_ran, watch is not None and watch.progressed, died,
        predecessor_dead, getattr(error, "resets_at", None), time.time(), str(error), used,
    )  # fmt: skip


def outcome_of(error: PartyError) -> Outcome:
    """How the policy calls it."""
    if isinstance(error, SessionResumeError):
        return Outcome.RESUME_REFUSED
    if isinstance(error, TurnFailedError):
        return Outcome(error.kind.value)
    if isinstance(error, TurnTimeoutError):
        return Outcome.TIMEOUT
    return Outcome.INTERRUPTED if isinstance(error, TurnCancelledError) else Outcome.INCAPABLE
