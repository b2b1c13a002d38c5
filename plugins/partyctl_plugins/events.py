"""What a transport reports while a turn runs.

A conversation calls `emit(event)` on the thread that runs the turn. These classes are all there is: what a provider
says that fits none of them is `RawOutput`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from partyctl_plugins.usage import ProviderUsage

__all__ = [
    "AgentEvent",
    "ApprovalDenied",
    "AssistantText",
    "EventHandler",
    "EventsDropped",
    "Lifecycle",
    "ProviderError",
    "RateLimitStatus",
    "RawOutput",
    "Reasoning",
    "RunFinished",
    "RunStarted",
    "SessionStarted",
    "SkillInvoked",
    "SkillsDiscovered",
    "Stderr",
    "SteerConsumed",
    "SteerDelivered",
    "SteerRejected",
    "ToolCall",
    "ToolResult",
    "TurnInterrupted",
    "UsageReport",
]


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A command of the provider was started for this turn."""

    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The command of this turn ended; None if its status is unknown."""

    exit_code: int | None


@dataclass(frozen=True, slots=True)
class SessionStarted:
    """The provider named its conversation."""

    session_id: str


@dataclass(frozen=True, slots=True)
class AssistantText:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A piece of the reasoning, where the provider shows it."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model uses a tool. `tool_id` names this use; `args` is what the tool is given, as the provider told it."""

    tool_id: str
    tool: str
    args: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool has returned. A failed one has its output in `stderr`, and an `exit_code` other than 0.

    `duration_s` is in seconds, None if the provider does not say.
    """

    tool_id: str
    tool: str
    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None
    duration_s: float | None = None


@dataclass(frozen=True, slots=True)
class SkillsDiscovered:
    """The skills the provider found."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SkillInvoked:
    """The model used a skill: the file it comes from and the tool use that it was, where the provider tells them."""

    name: str
    source_path: str | None = None
    tool_id: str | None = None


@dataclass(frozen=True, slots=True)
class UsageReport:
    """What was used so far in this turn; the cost in US dollars, None if unknown."""

    usage: ProviderUsage
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """A step in the life of the connection; `kind` is the provider's word for it, as "started"."""

    kind: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Stderr:
    """A line the provider's command wrote to its standard error."""

    text: str


@dataclass(frozen=True, slots=True)
class RawOutput:
    """What the provider said that no other event describes."""

    text: str


@dataclass(frozen=True, slots=True)
class ProviderError:
    """The provider complained and went on."""

    message: str


@dataclass(frozen=True, slots=True)
class TurnInterrupted:
    """The turn was ended by an interrupt."""


@dataclass(frozen=True, slots=True)
class ApprovalDenied:
    """Something that the model wanted to do was refused: what kind of thing, and which."""

    kind: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RateLimitStatus:
    """How much of a usage window is gone.

    Attributes:
        window: the provider's name of the window.
        used_fraction: 0.0 to 1.0 and beyond, None if the provider does not say.
        resets_at: when the window begins anew, in seconds since the epoch; None if the provider does not say.
        limit: the provider's name of the limit.
        window_minutes: the length of the window, in minutes.
        exhausted: whether nothing more may be used, None if the provider does not say.
        raw: the provider's own report.
    """

    window: str
    used_fraction: float | None = None
    resets_at: float | None = None
    limit: str | None = None
    window_minutes: float | None = None
    exhausted: bool | None = None
    raw: Mapping[str, object] = field(default_factory=dict)

    @property
    def remaining_fraction(self) -> float | None:
        """What is left of the window, never below 0."""
        return None if self.used_fraction is None else max(0.0, 1.0 - self.used_fraction)


@dataclass(frozen=True, slots=True)
class SteerDelivered:
    """The provider accepted a message into the running turn."""

    text: str


@dataclass(frozen=True, slots=True)
class SteerConsumed:
    """The message entered the turn's context."""

    text: str


@dataclass(frozen=True, slots=True)
class SteerRejected:
    """The provider refused the message; the turn is unaffected."""

    text: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class EventsDropped:
    """So many events of the turn were told while nobody listened, because a node had died, and are not known."""

    count: int


AgentEvent: TypeAlias = (
    RunStarted
    | RunFinished
    | SessionStarted
    | AssistantText
    | Reasoning
    | ToolCall
    | ToolResult
    | SkillsDiscovered
    | SkillInvoked
    | UsageReport
    | Lifecycle
    | Stderr
    | RawOutput
    | ProviderError
    | TurnInterrupted
    | ApprovalDenied
    | RateLimitStatus
    | SteerDelivered
    | SteerConsumed
    | SteerRejected
    | EventsDropped
)


class EventHandler(Protocol):
    """Is told what happens in a turn."""

    def on_event(self, event: AgentEvent) -> None:
        """Take one event. Called on the thread that runs the turn, or on the loop that awaits it."""
