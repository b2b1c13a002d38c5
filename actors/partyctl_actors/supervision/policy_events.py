"""What can happen to an agent session: what a caller asks, and what becomes of it.

Times are `at`, in seconds on a clock that never goes back; `resets_at` and `epoch` are seconds since the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from partyctl_actors.supervision.spending import NOTHING, Used


class Phase(StrEnum):
    """Where a session stands with its turn."""

    IDLE = "idle"
    """It has none."""
    PREPARED = "prepared"
    """It is reserved, and has not been run."""
    OPENING = "opening"
    """A connection for it is being opened."""
    RUNNING = "running"
    """The provider was asked."""
    WAITING = "waiting"
    """It is between two attempts."""


class Outcome(StrEnum):
    """How an attempt failed: a `FailureKind`, or one of the errors beside `TurnFailedError`."""

    TRANSIENT = "transient"
    USAGE_LIMIT = "usage_limit"
    AUTH = "auth"
    SCHEMA = "schema"
    CONTEXT_OVERFLOW = "context_overflow"
    OTHER = "other"
    RESUME_REFUSED = "resume_refused"
    """`SessionResumeError`."""
    TIMEOUT = "timeout"
    """`TurnTimeoutError`."""
    INTERRUPTED = "interrupted"
    """`TurnCancelledError`."""
    INCAPABLE = "incapable"
    """`ProviderCapabilityError`, and whatever else of `AgentSessionError` is none of the above."""


class Found(StrEnum):
    """What a new supervisor finds of the worker of its predecessor."""

    GONE = "gone"
    """Nothing."""
    AT_REST = "at_rest"
    """It lives, and was never asked for the attempt under way."""
    BUSY = "busy"
    """It lives and was asked: it is at it, or holds the outcome."""


# --- what a caller asks ---


@dataclass(frozen=True, slots=True)
class PrepareAsked:
    """Reserve a turn. `expect` demands exactly that conversation, `pin` keeps the present one whatever happens."""

    at: float
    turn_id: str
    expect: str | None = None
    pin: bool = False


@dataclass(frozen=True, slots=True)
class RunAsked:
    """Run the turn of a ticket."""

    at: float
    turn_id: str


@dataclass(frozen=True, slots=True)
class InterruptAsked:
    """End the turn of this id; without one, whichever runs."""

    at: float
    turn_id: str | None = None


@dataclass(frozen=True, slots=True)
class SteerAsked:
    """Say something into the running turn."""

    at: float


@dataclass(frozen=True, slots=True)
class AdoptAsked:
    """Offer a conversation to go on with."""

    at: float
    conversation_id: str


@dataclass(frozen=True, slots=True)
class ReleaseAsked:
    """Close the connection and keep the conversation."""

    at: float


@dataclass(frozen=True, slots=True)
class ContinueAsked:
    """A person says: go on. What was spent on retries is forgiven, and a wait ends."""

    at: float


@dataclass(frozen=True, slots=True)
class CloseAsked:
    """End the session."""

    at: float


# --- what becomes of it ---


@dataclass(frozen=True, slots=True)
class Opened:
    """The conversation is open. `serial` is that of the `Open`; the id is None until the provider names it."""

    at: float
    serial: int
    conversation_id: str | None = None


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The attempt ended with a result.

    Attributes:
        at: when.
        serial: that of the `Execute`.
        conversation_id: where it ran, None if the provider did not say.
        input_tokens, duration_ms: what it took.
        interrupted: whether an interrupt ended it.
    """

    at: float
    serial: int
    conversation_id: str | None = None
    input_tokens: int = 0
    duration_ms: int = 0
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """The opening or the attempt failed.

    Attributes:
        at: when.
        serial: that of the `Open` or `Execute`.
        outcome: how.
        conversation_id: the id that the conversation had, None if it had none.
        tool_ran: whether a tool was used in this attempt; True if that is unknown.
        progressed: whether the provider reported anything in this attempt.
        died: whether the connection is gone with it.
        predecessor_dead: whether the end of the process that had this conversation before is confirmed.
        resets_at: when the provider says that it can be asked again.
        epoch: the wall clock's time of this event, where `resets_at` is given.
        cause: what happened, for a person.
        used: what the attempt used.
    """

    at: float
    serial: int
    outcome: Outcome
    conversation_id: str | None = None
    tool_ran: bool = False
    progressed: bool = False
    died: bool = False
    predecessor_dead: bool = True
    resets_at: float | None = None
    epoch: float = 0.0
    cause: str = ""
    used: Used = NOTHING


@dataclass(frozen=True, slots=True)
class Died:
    """A worker ended that was not told to. `connection` is the serial of the `Open` that it carried out."""

    at: float
    connection: int
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Lost:
    """The launcher or the host is gone, and every worker with it. No fault of this session or its provider."""

    at: float
    conversation_id: str | None = None
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Broke:
    """Something else than the provider raised: a caller's handler, a store, a clock, a person at the keyboard."""

    at: float
    conversation_id: str | None = None
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Waited:
    """A wait is over; `stopped` if not all of it was waited. `serial` is that of the `Wait`."""

    at: float
    serial: int
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class Restored:
    """Another supervisor goes on with this state. `cause` is what is known of the end of a worker that is gone."""

    at: float
    worker: Found
    cause: str = ""


Event: TypeAlias = (
    PrepareAsked
    | RunAsked
    | InterruptAsked
    | SteerAsked
    | AdoptAsked
    | ReleaseAsked
    | ContinueAsked
    | CloseAsked
    | Opened
    | Succeeded
    | Failed
    | Died
    | Lost
    | Broke
    | Waited
    | Restored
)
