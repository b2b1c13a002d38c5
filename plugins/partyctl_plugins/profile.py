"""What a provider can do, as data; and the two policies that come with it or with the caller."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from partyctl_plugins.checks import check_count, check_env, check_filled, check_instance, is_finite, shown, tuple_of
from partyctl_plugins.permissions import NativeMode


class TransportKind(StrEnum):
    """How a provider is reached."""

    ONE_SHOT = "one_shot"
    """One command per turn."""
    STREAM = "stream"
    """One live connection per conversation."""


class McpMechanism(StrEnum):
    """How a provider is told about tool servers."""

    NONE = "none"
    CONFIG_FILE = "config_file"
    CLI_FLAGS = "cli_flags"


class SchemaMechanism(StrEnum):
    """How a provider is told the shape of an answer."""

    NONE = "none"
    INLINE_JSON = "inline_json"
    FILE_PATH = "file_path"


class SchemaDialect(StrEnum):
    """Which JSON schemas a provider takes."""

    STRICT = "strict"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class RenewalBudget:
    """When a conversation has grown too old to keep. Each limit counts as reached at equality.

    Attributes:
        max_turns: successful turns in the conversation.
        max_turn_input_tokens: input tokens of one turn.
        max_turn_duration_ms: duration of one turn, in milliseconds.

    Raises:
        TypeError, ValueError: a limit is no whole number of at least 1.
    """

    max_turns: int | None = None
    max_turn_input_tokens: int | None = None
    max_turn_duration_ms: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_turns", "max_turn_input_tokens", "max_turn_duration_ms"):
            check_count(name, getattr(self, name), least=1)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a transient failure is tried again, and what else a session may do about a conversation that fails.

    Attributes:
        delays: seconds before each retry, one retry per entry; () for none.
        after_tool: a transient failure after a tool was used in the same attempt: "retry" tries again in the same
            conversation, "fail" lets the failure stand, because what the tool did may not bear doing twice.
        retire_after_stalled: a conversation is retired after so many resumed turns in a row without any progress;
            None for never.

    Raises:
        TypeError: an entry is no number, or `delays` is text.
        ValueError: an entry is negative or not finite, or another field is not as described.
    """

    delays: tuple[float, ...] = (30, 60, 120, 240, 480)
    after_tool: Literal["retry", "fail"] = "retry"
    retire_after_stalled: int | None = None

    def __post_init__(self) -> None:
        check_count("retire_after_stalled", self.retire_after_stalled, least=1)
        if self.after_tool not in ("retry", "fail"):
            raise ValueError(f'after_tool must be "retry" or "fail", not {self.after_tool!r}')
        if isinstance(self.delays, str | bytes):
            raise TypeError(f"delays must be a sequence of seconds, not {self.delays!r}")
        checked: list[float] = []
        for delay in self.delays:
            if isinstance(delay, bool) or not isinstance(delay, int | float):
                raise TypeError(f"a delay must be a number of seconds, not {delay!r}")
            if not is_finite(delay) or delay < 0:
                raise ValueError(f"a delay must be finite and not negative, not {shown(delay)}")
            checked.append(float(delay))
        object.__setattr__(self, "delays", tuple(checked))


@dataclass(frozen=True, slots=True)
class ProviderProfile:
    """What a provider can do.

    Attributes:
        name: its name, as in `Agent("name", ...)`.
        display_name: its name for people.
        binary: the command it runs, None if it runs none.
        transports: how it can be reached.
        native_permission_modes: the permission modes it can keep to.
        supports_resume: whether a conversation can be reopened by its id.
        supports_steer: whether a message can enter a running turn.
        supports_reasoning_effort: whether the effort can be chosen.
        mcp: how it is told about tool servers.
        output_schema: how it is told the shape of an answer.
        schema_dialect: which schemas it takes, None if it takes none.
        renewal: when its conversations have grown too old, None for never.
        state_dirs: directories under the home directory where it keeps its state.
        state_root_env: the environment variable that moves that state.
        auth_env_vars: environment variables that may carry its credentials.
        auth_files: files under the home directory that may carry them.
        resume_state_paths: what must survive under the home directory for a conversation to be resumed.
        models: models it is known to take, the default first.
        supports_mcp_timeouts: whether the limits of a tool server can be told to it.
        domains: hosts it must reach, for whoever grants it a network.
        env: variables that its command needs set, whoever starts it.
        login: the command by which a person logs in, as words.
        version: the command that prints its version, as words; the probe of whether it is there.

    Raises:
        TypeError, ValueError: a field is not as described, or a schema's dialect came without a mechanism.
    """

    name: str
    display_name: str = ""
    binary: str | None = None
    transports: frozenset[TransportKind] = frozenset({TransportKind.STREAM})
    native_permission_modes: frozenset[NativeMode] = frozenset({NativeMode.BYPASS})
    supports_resume: bool = True
    supports_steer: bool = False
    supports_reasoning_effort: bool = False
    mcp: McpMechanism = McpMechanism.NONE
    output_schema: SchemaMechanism = SchemaMechanism.NONE
    schema_dialect: SchemaDialect | None = None
    renewal: RenewalBudget | None = None
    state_dirs: tuple[str, ...] = ()
    state_root_env: str | None = None
    auth_env_vars: tuple[str, ...] = ()
    auth_files: tuple[str, ...] = ()
    resume_state_paths: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    supports_mcp_timeouts: bool = False
    domains: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    login: tuple[str, ...] = ()
    version: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_filled("name", self.name)
        check_env("env", self.env)
        for name, kind in (("transports", TransportKind), ("native_permission_modes", NativeMode)):
            object.__setattr__(self, name, frozenset(kind(value) for value in getattr(self, name)))
        for name in _TUPLES:
            object.__setattr__(self, name, tuple_of(name, getattr(self, name), str))
        if self.renewal is not None:
            check_instance("renewal", self.renewal, RenewalBudget)
        if self.schema_dialect is not None and self.output_schema is SchemaMechanism.NONE:
            raise ValueError("schema_dialect says which schemas are taken, and output_schema that none are")

    @property
    def default_model(self) -> str | None:
        """The model used when none is named, None if the provider decides."""
        return self.models[0] if self.models else None


_TUPLES = (
    "state_dirs",
    "auth_env_vars",
    "auth_files",
    "resume_state_paths",
    "models",
    "domains",
    "login",
    "version",
)
