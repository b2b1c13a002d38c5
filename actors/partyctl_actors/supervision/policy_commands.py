"""What is to be done about what happened to an agent session, in the order in which it is told."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from partyctl_actors.supervision.policy_events import Outcome
from partyctl_plugins.contract import Continuity


class Rule(StrEnum):
    """Why a session does what it does, where that is more than carrying out what was asked."""

    RETRY = "retry"
    RETRY_AFTER_TOOL = "retry_after_tool"
    RETRY_UNSAFE = "retry_unsafe"
    EXHAUSTED = "exhausted"
    SAME_ID = "same_id"
    REPLACE = "replace"
    FRESH_REFUSED = "fresh_refused"
    REFUSED = "refused"
    BACKSTOP = "backstop"
    OVERFLOW = "overflow"
    STALLED = "stalled"
    PROPAGATE = "propagate"
    RENEWAL = "renewal"
    IDLE_RELEASE = "idle_release"
    CONTINUITY = "continuity"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"
    LOST = "lost"
    BROKE = "broke"
    CONTINUE = "continue"


class Reason(StrEnum):
    """What a turn that failed raises."""

    FAILED = "failed"
    """The error of its last attempt."""
    CANCELLED = "cancelled"
    """`TurnCancelledError`."""
    CONTINUITY = "continuity"
    """`ContinuityError`, with both ids."""
    LOST = "lost"
    """An error that says whether the turn was in flight, so that its outcome is unknown, or not started."""
    BROKE = "broke"
    """The caller's own exception, as it is."""


class Refusal(StrEnum):
    """Why a call was refused."""

    CLOSED = "closed"
    BUSY = "busy"
    STALE = "stale"
    CONTINUITY = "continuity"
    NO_RUNNING_TURN = "no_running_turn"
    CANNOT_STEER = "cannot_steer"


@dataclass(frozen=True, slots=True)
class Decided:
    """A rule was applied: one line of `partyctl events`.

    Attributes:
        rule: which.
        turn_id: the turn that it was about, None if about none.
        outcome: how the attempt had failed, None if it had not.
        conversation_id: where the next attempt would have continued before.
        retries, same_id, replaced, stalled: the counters afterwards, each of its own kind.
        times: how often this rule has been applied in this session.
        wait: seconds until the next attempt, None if there is none or at once.
        cause: what happened, for a person.
    """

    rule: Rule
    turn_id: str | None
    outcome: Outcome | None
    conversation_id: str | None
    retries: int
    same_id: int
    replaced: bool
    stalled: int
    times: int
    wait: float | None
    cause: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """The turn is reserved: make its ticket."""

    turn_id: str
    expected_conversation: str | None
    strict: bool
    pinned: bool


@dataclass(frozen=True, slots=True)
class AdoptVerdict:
    """The answer to an `AdoptAsked`."""

    accepted: bool


@dataclass(frozen=True, slots=True)
class Steer:
    """Pass the message on to the attempt of this serial."""

    serial: int


@dataclass(frozen=True, slots=True)
class Open:
    """Open a connection, to the conversation of this id or to a fresh one. Answered by Opened or Failed."""

    serial: int
    conversation_id: str | None


@dataclass(frozen=True, slots=True)
class Execute:
    """Run the turn in the open conversation. Answered by Succeeded or Failed."""

    serial: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait. Answered by Waited."""

    serial: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Interrupt:
    """End the opening, the attempt or the wait of this serial, which is answered all the same."""

    serial: int


@dataclass(frozen=True, slots=True)
class CloseConversation:
    """Close the connection that the `Open` of this serial made. Not answered."""

    connection: int


@dataclass(frozen=True, slots=True)
class SaveCheckpoint:
    """Keep this id, and the last usage reported by its conversation."""

    conversation_id: str


@dataclass(frozen=True, slots=True)
class ClearCheckpoint:
    """Keep no id."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The turn has its result.

    Attributes:
        turn_id: which.
        continuity: what became of the conversation that it was prepared for.
        conversation_id: where it ran.
        forced: it was interrupted and did not come to a result of its own; it has an empty one.
    """

    turn_id: str
    continuity: Continuity
    conversation_id: str | None
    forced: bool = False


@dataclass(frozen=True, slots=True)
class Fail:
    """The turn has failed.

    Attributes:
        turn_id: which.
        reason: what it raises.
        rule: why; `retry_unsafe` and `fresh_refused` are worth a note on the error.
        attempts: how often the provider was asked; 0 is not started.
        in_flight: whether an attempt may have been carried out all the same.
        expected, actual: the conversation that was demanded, and the one there was, for `Reason.CONTINUITY`.
    """

    turn_id: str
    reason: Reason
    rule: Rule
    attempts: int
    in_flight: bool = False
    expected: str | None = None
    actual: str | None = None


@dataclass(frozen=True, slots=True)
class Refuse:
    """The call does not fit; nothing has changed. `expected` and `actual` for `Refusal.CONTINUITY`."""

    refusal: Refusal
    expected: str | None = None
    actual: str | None = None


Command: TypeAlias = (
    Decided
    | Prepared
    | AdoptVerdict
    | Steer
    | Open
    | Execute
    | Wait
    | Interrupt
    | CloseConversation
    | SaveCheckpoint
    | ClearCheckpoint
    | Finish
    | Fail
    | Refuse
)
