"""One prompt and its result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from partyctl_plugins.permissions import McpServer, check_absolute, check_seconds
from partyctl_plugins.usage import ProviderUsage


class Continuity(StrEnum):
    """What became of the conversation a turn was prepared for (Sessions and transports, Continuity)."""

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
        host_dir: where a provider that reads schemas from files may write this one.
        cli_dir: how the provider's command names that directory.
    """

    schema: Mapping[str, object]
    host_dir: str | None = None
    cli_dir: str | None = None


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
        reasoning_effort: the provider's word for it, None for the conversation's.
        extra_args: further arguments for providers that start a command per turn.
        env: further environment variables for those.
        mcp_servers: further tool servers for this turn.
        mcp_workspace: directory for providers that configure tool servers by file.

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

    def __post_init__(self) -> None:
        if not isinstance(self.prompt, str):
            raise TypeError(f"prompt must be text, not {type(self.prompt).__name__}")
        if not self.prompt.strip():
            raise ValueError("prompt must not be empty: there is nothing to ask the agent")
        if self.cwd is not None:
            check_absolute("cwd", self.cwd)
        check_seconds("timeout", self.timeout)
        if isinstance(self.extra_args, str) or not isinstance(self.extra_args, Sequence):
            raise TypeError(f"extra_args must be a sequence of arguments, not {self.extra_args!r}")
        object.__setattr__(self, "extra_args", tuple(self.extra_args))
        object.__setattr__(self, "mcp_servers", tuple(self.mcp_servers))


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
        exit_code: status of the turn's command, for providers that start one per turn.
        skills: skills found and used.
        interrupted: whether an interrupt ended it.
        context_tokens: size of the context at the last model call, None if unknown.
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
