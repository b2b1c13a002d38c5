"""One prompt, its reservation, and its result."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import NoneType

from partyctl_plugins.checks import (
    check_absolute,
    check_conversation,
    check_count,
    check_env,
    check_filled,
    check_instance,
    check_money,
    check_optional,
    check_seconds,
    tuple_of,
)
from partyctl_plugins.permissions import McpServer, mcp_servers
from partyctl_plugins.usage import ProviderUsage


class Continuity(StrEnum):
    """What became of the conversation that a turn was prepared for."""

    CONTINUED = "continued"
    """It ran there, and the conversation is kept."""
    RESET = "reset"
    """It ran there, and the conversation was retired afterwards."""
    REPLACED = "replaced"
    """It ran in a fresh conversation that took the place of the expected one."""


@dataclass(frozen=True, slots=True)
class OutputSchema:
    """The shape the answer must have.

    Attributes:
        schema: a JSON schema.
        host_dir: where a provider that reads schemas from files may write this one; None for a private directory of the
            conversation, which is removed with it.
        cli_dir: how the provider's command names that directory, if it sees another path there.

    Raises:
        TypeError, ValueError: the schema is no JSON object, or a directory is not absolute.
    """

    schema: Mapping[str, object]
    host_dir: str | None = None
    cli_dir: str | None = None

    def __post_init__(self) -> None:
        check_instance("schema", self.schema, Mapping)
        try:
            json.dumps(dict(self.schema), allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"schema must be JSON: {error}") from error
        for name in ("host_dir", "cli_dir"):
            if getattr(self, name) is not None:
                check_absolute(name, getattr(self, name))


@dataclass(frozen=True, slots=True)
class SkillSummary:
    """Skills found and used in a turn; None means unknown, empty means known to be none."""

    discovered: tuple[str, ...] | None = None
    invocations: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """One prompt.

    Attributes:
        prompt: what is said to the agent; not empty.
        cwd: absolute working directory, None for the conversation's.
        timeout: limit of the turn in seconds, None for none.
        output_schema: the shape the answer must have.
        reasoning_effort: how hard the model is to think, in the provider's own word; None for the conversation's.
        extra_args: further arguments for the command of a provider that starts one per turn.
        env: further environment variables for that command.
        mcp_servers: further tool servers for this turn.
        mcp_workspace: directory for providers that configure tool servers by file.
        idle_timeout: for how many seconds the provider may tell nothing while no tool is in use, None for no limit. The
            supervisor of its worker sees to that, not the transport.

    Raises:
        TypeError, ValueError: a field is not as described.
    """

    prompt: str
    cwd: str | None = None
    timeout: float | None = None
    output_schema: OutputSchema | None = None
    reasoning_effort: str | None = None
    extra_args: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None
    mcp_servers: tuple[McpServer, ...] = ()
    mcp_workspace: str | None = None
    idle_timeout: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.prompt, str):
            raise TypeError(f"prompt must be text, not {type(self.prompt).__name__}")
        if not self.prompt.strip():
            raise ValueError("prompt must not be empty: there is nothing to ask the agent")
        for name in ("cwd", "mcp_workspace"):
            if getattr(self, name) is not None:
                check_absolute(name, getattr(self, name))
        check_seconds("timeout", self.timeout)
        check_seconds("idle_timeout", self.idle_timeout)
        if self.output_schema is not None:
            check_instance("output_schema", self.output_schema, OutputSchema)
        check_optional("reasoning_effort", self.reasoning_effort)
        if self.env is not None:
            check_env("env", self.env)
        object.__setattr__(self, "extra_args", tuple_of("extra_args", self.extra_args, str))
        object.__setattr__(self, "mcp_servers", mcp_servers(self.mcp_servers))


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What came of a prompt.

    Attributes:
        text: the answer.
        structured_output: the answer as data, where a schema was given and the provider keeps to it.
        session_id: the provider's id of the conversation it ran in.
        resumed: whether the turn continued an earlier conversation.
        usage: what it used.
        cost_usd: its cost in US dollars, None if unknown.
        duration_ms: how long it took, in milliseconds.
        exit_code: exit status of the turn's command, if the provider starts one per turn and it is known.
        skills: skills found and used.
        interrupted: whether an interrupt ended it.
        context_tokens: size of the context at the last model call, None if unknown.

    Raises:
        TypeError, ValueError: a field is not as described: the answer is no text, a figure is negative or not finite.
    """

    text: str = ""
    structured_output: object = None
    session_id: str | None = None
    resumed: bool = False
    usage: ProviderUsage = field(default_factory=ProviderUsage)
    cost_usd: float | None = None
    duration_ms: int = 0
    exit_code: int | None = None
    skills: SkillSummary = field(default_factory=SkillSummary)
    interrupted: bool = False
    context_tokens: int | None = None

    def __post_init__(self) -> None:
        check_instance("text", self.text, str)
        check_conversation("session_id", self.session_id)
        check_instance("usage", self.usage, ProviderUsage)
        check_money("cost_usd", self.cost_usd)
        check_count("duration_ms", self.duration_ms)
        check_instance("exit_code", self.exit_code, (int, NoneType))
        check_instance("skills", self.skills, SkillSummary)
        for name in ("resumed", "interrupted"):
            check_instance(name, getattr(self, name), bool)
        check_count("context_tokens", self.context_tokens)


@dataclass(frozen=True, slots=True)
class TurnTicket:
    """The reservation of a turn: a plain value that may be written down. It runs once, and only the newest one runs.

    Attributes:
        turn_id: the name of the turn, there before anything runs.
        request: what will be asked.
        expected_conversation: the conversation that the session held when the turn was prepared, None for none.
        strict: whether exactly that conversation was demanded.
        pinned: whether the conversation must survive the turn.
    """

    turn_id: str
    request: TurnRequest
    expected_conversation: str | None = None
    strict: bool = False
    pinned: bool = False

    def __post_init__(self) -> None:
        check_filled("turn_id", self.turn_id)
        check_instance("request", self.request, TurnRequest)


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn that a session ran to its end.

    Attributes:
        result: what came of it.
        continuity: what became of the conversation it was prepared for.
        turn_id: its name, that of its ticket.
        conversation_id: where it ran; kept when that conversation was retired afterwards.
        forced: it was interrupted and the provider did not obey: its process was ended, and there is no answer.
    """

    result: TurnResult
    continuity: Continuity
    turn_id: str
    conversation_id: str | None = None
    forced: bool = False
