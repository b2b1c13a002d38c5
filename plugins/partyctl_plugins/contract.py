"""The contract between a session and a provider: everything a transport is written against, under one name.

A transport is the one place that knows how to reach a provider. Its rules, as `docs/writing-a-transport.md` has them:

- It never retries, restarts, waits or decides. It raises `TurnFailedError` with the right `FailureKind`,
  `SessionResumeError` for a conversation that is gone (at open or at the first turn), `TurnTimeoutError` for a turn
  that took longer than asked. The session decides what happens next.
- `open` raises `ProviderCapabilityError` for a permission mode outside `profile.native_permission_modes`.
- `resume_id` and `previous_usage` start from an existing conversation; `mcp_servers` and `reasoning_effort` are fixed
  for the conversation's life.
- Interrupt means "end this turn": the running turn emits `TurnInterrupted`, returns a result with `interrupted=True`
  and keeps the conversation. With no turn running it does nothing.

The standard library alone: this module is imported where neither pydantic nor asyncio nor zmq may be.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from partyctl_base.clock import Clock, StopSignal, SystemClock
from partyctl_base.ids import IdAllocator, RandomIds
from partyctl_plugins.checkpoints import Checkpoint, CheckpointStore, FileCheckpointStore, InMemoryCheckpointStore
from partyctl_plugins.checks import check_absolute, check_conversation, check_instance, check_optional
from partyctl_plugins.emitting import GuardedEmit
from partyctl_plugins.enclosure import Confinement
from partyctl_plugins.errors import (
    AgentSessionError,
    CheckpointError,
    CliExitError,
    ContinuityError,
    FailureKind,
    NoRunningTurnError,
    PluginError,
    PluginLoadError,
    ProcessClosedError,
    ProviderCapabilityError,
    ProviderConflict,
    ProviderNotFound,
    ProviderOptionsError,
    RecordError,
    SessionResumeError,
    SessionStateError,
    TurnCancelledError,
    TurnFailedError,
    TurnLostError,
    TurnTimeoutError,
)
from partyctl_plugins.events import AgentEvent, EventHandler
from partyctl_plugins.permissions import (
    ApprovalPolicy,
    HttpMcpServer,
    McpServer,
    NativeMode,
    NativePermissions,
    StdioMcpServer,
    mcp_servers,
)
from partyctl_plugins.processes import (
    Executor,
    HostExecutor,
    Process,
    ProcessExited,
    StderrText,
    StdoutText,
    confine,
)
from partyctl_plugins.profile import (
    McpMechanism,
    ProviderProfile,
    RenewalBudget,
    RetryPolicy,
    SchemaDialect,
    SchemaMechanism,
    TransportKind,
)
from partyctl_plugins.turns import (
    Continuity,
    OutputSchema,
    SkillSummary,
    Turn,
    TurnRequest,
    TurnResult,
    TurnTicket,
)
from partyctl_plugins.usage import CostSource, ProviderUsage, TokenUsage, TokenWeights, normalized_usage

__all__ = [
    "AgentEvent",
    "AgentSessionError",
    "ApprovalPolicy",
    "Checkpoint",
    "CheckpointError",
    "CheckpointStore",
    "CliExitError",
    "Clock",
    "Confinement",
    "Continuity",
    "ContinuityError",
    "Conversation",
    "ConversationSpec",
    "CostSource",
    "Emit",
    "EventHandler",
    "Executor",
    "FailureKind",
    "FileCheckpointStore",
    "GuardedEmit",
    "HostExecutor",
    "HttpMcpServer",
    "IdAllocator",
    "InMemoryCheckpointStore",
    "McpMechanism",
    "McpServer",
    "NativeMode",
    "NativePermissions",
    "NoRunningTurnError",
    "OutputSchema",
    "PluginError",
    "PluginLoadError",
    "Process",
    "ProcessClosedError",
    "ProcessExited",
    "ProviderCapabilityError",
    "ProviderConflict",
    "ProviderNotFound",
    "ProviderOptionsError",
    "ProviderProfile",
    "ProviderUsage",
    "RandomIds",
    "RecordError",
    "RenewalBudget",
    "RetryPolicy",
    "SchemaDialect",
    "SchemaMechanism",
    "SessionResumeError",
    "SessionStateError",
    "SkillSummary",
    "StderrText",
    "StdioMcpServer",
    "StdoutText",
    "SteerableConversation",
    "StopSignal",
    "SystemClock",
    "TokenUsage",
    "TokenWeights",
    "Transport",
    "TransportKind",
    "Turn",
    "TurnCancelledError",
    "TurnFailedError",
    "TurnLostError",
    "TurnRequest",
    "TurnResult",
    "TurnTicket",
    "TurnTimeoutError",
    "confine",
    "normalized_usage",
]


@dataclass(frozen=True, slots=True)
class ConversationSpec:
    """What a conversation is opened with; fixed for its life.

    Attributes:
        cwd: absolute working directory, as the provider sees it.
        permissions: what the provider itself allows its agent.
        approvals: what happens when it asks for permission.
        model: the model, None for the provider's own choice.
        mcp_servers: tool servers of the conversation.
        reasoning_effort: how hard the model is to think, in the provider's own word; None for its own choice.
        resume_id: the conversation to go on with, None for a fresh one.
        previous_usage: the last usage reported by that conversation; None if it is not known.

    Raises:
        TypeError, ValueError: a field is not as described.
    """

    cwd: str
    permissions: NativePermissions
    approvals: ApprovalPolicy
    model: str | None = None
    mcp_servers: tuple[McpServer, ...] = ()
    reasoning_effort: str | None = None
    resume_id: str | None = None
    previous_usage: ProviderUsage | None = None

    def __post_init__(self) -> None:
        check_absolute("cwd", self.cwd)
        check_instance("permissions", self.permissions, NativePermissions)
        object.__setattr__(self, "approvals", ApprovalPolicy(self.approvals))
        object.__setattr__(self, "mcp_servers", mcp_servers(self.mcp_servers))
        for name in ("model", "reasoning_effort"):
            check_optional(name, getattr(self, name))
        check_conversation("resume_id", self.resume_id)
        if self.previous_usage is not None:
            check_instance("previous_usage", self.previous_usage, ProviderUsage)


Emit: TypeAlias = Callable[[AgentEvent], None]
"""Takes one event of the running turn, on the thread that runs it. It may raise: see `GuardedEmit`."""


class Conversation(Protocol):
    """One provider conversation over one live connection."""

    @property
    def conversation_id(self) -> str | None:
        """The provider's id of this conversation, None until the provider named it."""

    def turn(self, request: TurnRequest, emit: Emit) -> TurnResult:
        """Run one turn, on the calling thread.

        Args:
            request: what is asked.
            emit: to be called with each event, on the same thread.

        Returns:
            The answer; with `interrupted=True` if an interrupt ended the turn.

        Raises:
            TurnFailedError: the provider failed it.
            TurnTimeoutError: it took longer than `request.timeout`.
            SessionResumeError: the conversation to go on with is gone; at the first turn only.
            ProviderCapabilityError: the provider cannot do what the request asks. The conversation is kept.
            SessionStateError: the conversation is closed, or another turn runs.
        """

    def interrupt(self) -> None:
        """End the running turn. Called from any thread; may come twice; does nothing with no turn running."""

    def close(self) -> None:
        """End the connection. May come twice."""


@runtime_checkable
class SteerableConversation(Conversation, Protocol):
    """A conversation that takes a message while its turn runs."""

    def steer(self, text: str) -> None:
        """Send `text` into the running turn, from any thread.

        Raises:
            NoRunningTurnError: no turn is running.
        """


class Transport(Protocol):
    """The way to open a conversation with one provider."""

    @property
    def profile(self) -> ProviderProfile:
        """What this provider can do by this transport."""

    def open(self, spec: ConversationSpec) -> Conversation:
        """Open a conversation.

        Raises:
            ProviderCapabilityError: the provider cannot do what the specification asks.
            SessionResumeError: `resume_id` is gone.
            TurnFailedError: the provider did not come up.
        """
