"""What an agent may do on its own, and the tool servers it gets. Nothing here has a default: the caller decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

from partyctl_plugins.checks import check_absolute, check_env, check_filled, check_seconds, tuple_of


class NativeMode(StrEnum):
    """The provider's own permission mode."""

    BYPASS = "bypass"
    """Everything is allowed."""
    READ_ONLY = "read_only"
    """Nothing may be written."""
    WORKSPACE_WRITE = "workspace_write"
    """The working directory may be written, and what else is named."""


class ApprovalPolicy(StrEnum):
    """What happens when the provider asks for permission."""

    DENY = "deny"
    """Refuse and go on."""
    FAIL_TURN = "fail_turn"
    """Refuse and fail the turn with `TurnFailedError`."""


@dataclass(frozen=True, slots=True)
class NativePermissions:
    """What the provider itself allows its agent.

    Attributes:
        mode: the provider's permission mode.
        writable_roots: absolute directories that may be written besides the working directory.
        network: whether commands may use the network.

    Raises:
        TypeError: `writable_roots` is one string or no sequence of strings, or `network` is no bool.
        ValueError: a root is not absolute or holds NUL, or roots or network came with another mode.
    """

    mode: NativeMode
    writable_roots: tuple[str, ...] = ()
    network: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "mode", NativeMode(self.mode))
        if not isinstance(self.network, bool):
            raise TypeError(f"network must be True or False, not {self.network!r}")
        if isinstance(self.writable_roots, str) or not isinstance(self.writable_roots, Sequence):
            raise TypeError(f"writable_roots must be a sequence of paths, not {self.writable_roots!r}")
        for root in self.writable_roots:
            check_absolute("writable_roots", root)
        object.__setattr__(self, "writable_roots", tuple(self.writable_roots))
        if self.mode is not NativeMode.WORKSPACE_WRITE and (self.writable_roots or self.network):
            raise ValueError(f"writable_roots and network belong to mode workspace_write, not to {self.mode.value}")

    @classmethod
    def bypass(cls) -> "NativePermissions":
        """Everything is allowed; what bounds the agent is the confinement around it."""
        return cls(NativeMode.BYPASS)

    @classmethod
    def read_only(cls) -> "NativePermissions":
        """Nothing may be written."""
        return cls(NativeMode.READ_ONLY)

    @classmethod
    def workspace_write(cls, roots: Sequence[str] = (), *, network: bool = False) -> "NativePermissions":
        """The working directory and `roots` may be written.

        Args:
            roots: absolute directories.
            network: whether commands may use the network.

        Raises:
            TypeError, ValueError: as for `NativePermissions`.
        """
        if isinstance(roots, str):
            raise TypeError(f"roots must be a sequence of paths, not {roots!r}")
        return cls(NativeMode.WORKSPACE_WRITE, tuple(roots), network)


@dataclass(frozen=True, slots=True)
class StdioMcpServer:
    """A tool server that is a command.

    Attributes:
        name: what the agent calls it.
        command, args, env: how it is started.
        startup_timeout_s, tool_timeout_s: limits of its start and of each use of a tool, in seconds; None for the
            provider's own.

    Raises:
        TypeError, ValueError: a field is not as described.
    """

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    startup_timeout_s: float | None = None
    tool_timeout_s: float | None = None

    def __post_init__(self) -> None:
        check_filled("name", self.name)
        check_filled("command", self.command)
        check_seconds("startup_timeout_s", self.startup_timeout_s)
        check_seconds("tool_timeout_s", self.tool_timeout_s)
        check_env("env", self.env)
        object.__setattr__(self, "args", tuple_of("args", self.args, str))


@dataclass(frozen=True, slots=True)
class HttpMcpServer:
    """A tool server behind a URL.

    Attributes:
        name: what the agent calls it.
        url, headers, transport: how it is reached.
        startup_timeout_s, tool_timeout_s: as for `StdioMcpServer`.

    Raises:
        TypeError, ValueError: a field is not as described.
    """

    name: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    transport: Literal["http", "sse"] = "http"
    startup_timeout_s: float | None = None
    tool_timeout_s: float | None = None

    def __post_init__(self) -> None:
        check_filled("name", self.name)
        check_filled("url", self.url)
        if self.transport not in ("http", "sse"):
            raise ValueError(f'transport must be "http" or "sse", not {self.transport!r}')
        check_env("headers", self.headers)
        check_seconds("startup_timeout_s", self.startup_timeout_s)
        check_seconds("tool_timeout_s", self.tool_timeout_s)


McpServer: TypeAlias = StdioMcpServer | HttpMcpServer


def mcp_servers(servers: Sequence[McpServer]) -> tuple[McpServer, ...]:
    """Tool servers as a tuple.

    Raises:
        TypeError: one is no tool server.
        ValueError: two have the same name.
    """
    checked = tuple_of("mcp_servers", servers, (StdioMcpServer, HttpMcpServer))
    names = [server.name for server in checked]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"mcp_servers has two servers called {name!r}")
    return checked
