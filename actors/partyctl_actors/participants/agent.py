"""A role played by an agent: a coding agent behind its provider, or a language model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, ClassVar, TypeAlias, overload

from partyctl_actors.participants.conformity import Checked
from partyctl_actors.participants.interface import Player, Seat
from partyctl_actors.participants.model_player import ModelPlayer
from partyctl_actors.participants.models import LanguageModel, Memory
from partyctl_plugins.checks import check_env, check_instance, shown

if TYPE_CHECKING:
    from partyctl_actors.protocol.protocol import Protocol
    from partyctl_actors.protocol.role import Role
    from partyctl_actors.supervision.agent_session import AgentSession
    from partyctl_actors.supervision.hired import Grounds
    from partyctl_base.clock import Clock
    from partyctl_base.ids import IdAllocator
    from partyctl_plugins.contract import (
        ApprovalPolicy,
        CheckpointStore,
        EventHandler,
        McpServer,
        NativePermissions,
        ProviderUsage,
        RetryPolicy,
        Transport,
        TransportKind,
    )

StrPath: TypeAlias = str | PathLike[str]

_PROVIDER_ONLY = (
    "permissions", "approvals", "transport", "model", "cwd", "options", "confinement", "env", "executor", "clock",
    "ids", "retry", "event_handlers",
)  # fmt: skip

_ABLE = {"clock": ("monotonic", "wait"), "ids": ("new_id",)}
"""What those arguments must be able to do."""


class Agent:
    """An agent that can play a role.

    `Agent("claude", "Write.", permissions=..., approvals=...)`, or `Agent(model, "Write.")`.

    Args:
        source: a provider's name, a `Transport`, or a `LanguageModel`.
        instructions: what it is to do in its role.
        permissions, approvals: what the provider's agent may do on its own; no default, the caller decides.
        transport: how the provider is reached; omitted, as a stream.
        model: which of the provider's models; omitted, the provider's own choice.
        cwd: its working directory; omitted, the caller's.
        options: the provider's own options.
        confinement: the confinement of its worker, by name; omitted, the default.
        env: environment variables for it.
        executor, clock, ids: where its commands run, its time and its ids. With any of them, or a `Transport`, its
            sessions stay in the caller's process: no worker, no confinement.
        retry: how long to wait before a transient failure is tried again.
        event_handlers: told every event of its sessions' turns, in order, on the thread that runs the turn.
        repair: how many more times it is asked after an answer that could not be used.
        memory: what a model is shown of the past; omitted, everything.

    Raises:
        TypeError: the source is none of these, or an argument belongs to the other kind of source.
        ValueError: `repair` is negative, or a `Transport` is given what belongs to a provider's name.
    """

    grounds: ClassVar[Grounds | None] = None
    """Where sessions of its class have their workers; None where there are none."""

    @overload
    def __init__(
        self,
        source: str | Transport,
        instructions: str = "",
        *,
        permissions: NativePermissions,
        approvals: ApprovalPolicy,
        transport: TransportKind | None = None,
        model: str | None = None,
        cwd: StrPath | None = None,
        options: Mapping[str, object] | None = None,
        confinement: str | None = None,
        env: Mapping[str, str] | None = None,
        executor: object | None = None,
        clock: Clock | None = None,
        ids: IdAllocator | None = None,
        retry: RetryPolicy | None = None,
        event_handlers: Sequence[EventHandler] = (),
        repair: int = 1,
    ) -> None: ...
    @overload
    def __init__(
        self, source: LanguageModel, instructions: str = "", *, repair: int = 1, memory: Memory | None = None
    ) -> None: ...
    def __init__(
        self,
        source: str | Transport | LanguageModel,
        instructions: str = "",
        *,
        permissions: NativePermissions | None = None,
        approvals: ApprovalPolicy | None = None,
        transport: TransportKind | None = None,
        model: str | None = None,
        cwd: StrPath | None = None,
        options: Mapping[str, object] | None = None,
        confinement: str | None = None,
        env: Mapping[str, str] | None = None,
        executor: object | None = None,
        clock: Clock | None = None,
        ids: IdAllocator | None = None,
        retry: RetryPolicy | None = None,
        event_handlers: Sequence[EventHandler] = (),
        repair: int = 1,
        memory: Memory | None = None,
    ) -> None:
        self.source = source
        self.instructions = instructions
        self.permissions = permissions
        self.approvals = approvals
        self.transport = transport
        self.model = model
        self.cwd = cwd
        self.options: Mapping[str, object] = dict(options) if isinstance(options, Mapping) else {}
        self.confinement = confinement
        if env is not None:
            check_env("Agent(env=...)", env)
        self.env = None if env is None else dict(env)
        self.executor = executor
        self.clock = clock
        self.ids = ids
        self.retry = retry
        self.event_handlers = _handlers(event_handlers)
        self.repair = repair
        self.memory = memory
        self._check(options)

    @property
    def provider(self) -> str | None:
        """The name of the installed provider behind it; None if a model or a `Transport` object is."""
        return self.source if isinstance(self.source, str) else None

    def check(self, protocol: Protocol, role: Role) -> None:
        """See `Checked.check`: asks the model, if it can tell."""
        if isinstance(self.source, Checked):
            self.source.check(protocol, role)

    def bind(self, seat: Seat) -> Player:
        """See `Participant.bind`."""
        if _is_model(self.source):
            assert isinstance(self.source, LanguageModel)
            return ModelPlayer(self.source, self.instructions, self.repair, self.memory, seat)
        # Not at the top: whoever casts only models and people loads nothing of what runs providers.
        from partyctl_actors.participants.provider import ProviderPlayer

        return ProviderPlayer(self, seat)

    def session(
        self,
        cwd: StrPath | None = None,
        *,
        mcp_servers: Sequence[McpServer] = (),
        reasoning_effort: str | None = None,
        checkpoints: CheckpointStore | None = None,
        checkpoint_key: str | None = None,
        idle_release_after: float | None = None,
        resume_id: str | None = None,
        previous_usage: ProviderUsage | None = None,
    ) -> AgentSession:
        """A conversation with the agent that goes on across failures. Close it, or use it as a context manager.

        Args:
            cwd: the agent's working directory; omitted, that of the agent, else the caller's.
            mcp_servers: tool servers of its conversations.
            reasoning_effort: how hard the model is to think, in the provider's own word; omitted, its own choice.
            checkpoints, checkpoint_key: where, and under which name, its conversation is kept across processes.
            idle_release_after: seconds after which an idle connection is closed when the next turn is prepared.
            resume_id: the conversation to begin with; wins over a checkpoint.
            previous_usage: the last usage reported in that conversation.

        Raises:
            TypeError: a language model is behind the agent; it has no conversations.
            ValueError: a store without a key, or a key without a store.
            PluginError: the provider is not installed, or its plugin could not be loaded.
            CheckpointError: the checkpoint cannot be read.
            SessionStateError: a session of another process goes on under the checkpoint key.
            ConfinementRefused: the confinement asked for cannot be enforced here.
        """
        # Not at the top, as in `bind`.
        from partyctl_actors.participants.sessions import begin

        return begin(
            self, cwd, mcp_servers=tuple(mcp_servers), reasoning_effort=reasoning_effort, checkpoints=checkpoints,
            checkpoint_key=checkpoint_key, idle_release_after=idle_release_after, resume_id=resume_id,
            previous_usage=previous_usage,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"Agent({self.source!r})"

    def _check(self, options: object) -> None:
        if not isinstance(self.instructions, str):
            raise TypeError(f"Agent(instructions=...) is text, not {self.instructions!r}")
        if isinstance(self.repair, bool) or not isinstance(self.repair, int):
            raise TypeError(f"Agent(repair=...) is a number of attempts, not {self.repair!r}")
        if self.repair < 0:
            raise ValueError(f"Agent(repair={self.repair}) cannot be negative")
        if _is_model(self.source):
            given = [name for name in _PROVIDER_ONLY if getattr(self, name) not in (None, (), {})]
            if given:
                raise TypeError(f"Agent({given[0]}=...) belongs to a provider, and the source here is a language model")
            return
        if not isinstance(self.source, str) and not _is_transport(self.source):
            raise TypeError(f"Agent(source) is a provider's name, a Transport or a LanguageModel, not {self.source!r}")
        if not isinstance(self.source, str):
            belong = ("executor", "confinement", "env", "transport", "options")
            for name in (name for name in belong if getattr(self, name) not in (None, {})):
                raise ValueError(f"Agent({name}=...) belongs to a provider's name; a Transport brings its own")
        if self.source == "":
            raise ValueError("Agent(source) names a provider; it is empty")
        missing = [name for name in ("permissions", "approvals") if getattr(self, name) is None]
        if missing:
            raise TypeError(
                f"Agent({missing[0]}=...) is missing: with a provider there is no default, the caller decides"
            )
        if self.memory is not None:
            raise TypeError("Agent(memory=...) belongs to a language model; a provider keeps its own conversation")
        self._check_settings(options)

    def _check_settings(self, options: object) -> None:
        for name, kinds in (("model", str), ("confinement", str), ("cwd", (str, PathLike))):
            if getattr(self, name) is not None:
                check_instance(f"Agent({name}=...)", getattr(self, name), kinds)
        if options is not None:
            check_instance("Agent(options=...)", options, Mapping)
        for name, able in _ABLE.items():
            given = getattr(self, name)
            missing = [each for each in able if given is not None and not callable(getattr(given, each, None))]
            if missing:
                raise TypeError(f"Agent({name}=...) has no {missing[0]}(): {shown(given)}")
        # Not at the top: whoever casts only models and people loads nothing of what runs providers.
        from partyctl_plugins.permissions import ApprovalPolicy, NativePermissions
        from partyctl_plugins.profile import RetryPolicy, TransportKind

        values = (
            ("permissions", NativePermissions), ("approvals", ApprovalPolicy), ("retry", RetryPolicy),
            ("transport", TransportKind),
        )  # fmt: skip
        for name, kind in values:
            if getattr(self, name) is not None:
                check_instance(f"Agent({name}=...)", getattr(self, name), kind)


def _handlers(handlers: Sequence[EventHandler]) -> tuple[EventHandler, ...]:
    if isinstance(handlers, str | bytes):
        raise TypeError(f"Agent(event_handlers=...) is a sequence of handlers, not {shown(handlers)}")
    for handler in (given := tuple(handlers)):
        if not callable(getattr(handler, "on_event", None)):
            raise TypeError(f"Agent(event_handlers=...) holds what has no on_event(): {shown(handler)}")
    return given


def _is_model(source: object) -> bool:
    return not isinstance(source, (str, type)) and callable(getattr(source, "complete", None))


def _is_transport(source: object) -> bool:
    return not isinstance(source, type) and callable(getattr(source, "open", None)) and hasattr(source, "profile")
