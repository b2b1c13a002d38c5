"""What is run and with what: the options a user may give, the binary, the arguments, the environment."""

import difflib
import math
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, fields

from partyctl_plugins.claude.frames import MAX_LINE
from partyctl_plugins.contract import (
    ConversationSpec,
    NativeMode,
    ProviderCapabilityError,
    ProviderOptionsError,
    TurnFailedError,
    TurnRequest,
)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The options of the `claude` provider.

    Attributes:
        binary: the command; a name is looked up on the PATH of the worker's environment.
        startup_timeout_s: seconds from the start of the process to its reply to `initialize`. A quiet machine needs
            0.8 s, three at once on two cores 2.5 s.
        interrupt_grace_s: seconds an interrupted turn has to end before its process is killed.
        close_grace_s: seconds each step of closing has: end of input, terminate, kill.
        write_timeout_s: seconds a process may leave its input unread.
        max_line_bytes: ceiling of one line of its output.
    """

    binary: str = "claude"
    startup_timeout_s: float = 30.0
    interrupt_grace_s: float = 10.0
    close_grace_s: float = 5.0
    write_timeout_s: float = 10.0
    max_line_bytes: int = MAX_LINE

    @classmethod
    def parse(cls, options: Mapping[str, object]) -> "StreamOptions":
        """Check the options as the user wrote them.

        Raises:
            ProviderOptionsError: one is unknown, of the wrong type or not positive.
        """
        known = {entry.name: entry.default for entry in fields(cls)}
        for name, value in options.items():
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                hint = f"Did you mean {near[0]!r}?" if near else ""
                raise _wrong(name, "there is no such option", hint or f"The options are {', '.join(sorted(known))}.")
            _check(name, value, known[name])
        return cls(**options)  # type: ignore[arg-type]  # checked above, entry by entry


def _check(name: str, value: object, default: object) -> None:
    if isinstance(default, str):
        if not isinstance(value, str) or not value or "\0" in value:
            raise _wrong(name, f"{value!r} is no command", "Give a name on PATH or an absolute path.")
    elif isinstance(default, int):
        if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            raise _wrong(name, f"{value!r} is no positive whole number", "Give bytes.")
    elif isinstance(value, bool) or not isinstance(value, int | float) or not (math.isfinite(value) and value > 0):
        raise _wrong(name, f"{value!r} is no positive number", "Give seconds.")


def _wrong(name: str, why: str, fix: str) -> ProviderOptionsError:
    return ProviderOptionsError(f"claude does not take the option {name!r}", where="options", why=why, fix=fix)


def find_binary(name: str, environ: Mapping[str, str]) -> str:
    """The absolute path of the command.

    Raises:
        TurnFailedError: there is none.
    """
    path = environ.get("PATH", "")
    # An empty PATH would make `which` look in the directories of the system's default.
    found = shutil.which(name, path=path) if path or os.sep in name else None
    if found is None:
        where = "no such executable file" if os.sep in name else f"not on PATH={path}"
        raise TurnFailedError(
            f"the command {name!r} was not found",
            where=where,
            fix='Install Claude Code, or put its path into options = { binary = "..." }.',
        )
    return os.path.abspath(found)


def check_spec(spec: ConversationSpec) -> None:
    """Raise ProviderCapabilityError for what this transport cannot promise yet."""
    if spec.permissions.mode is not NativeMode.BYPASS:
        raise ProviderCapabilityError(
            f"claude over a stream does not offer the permission mode {spec.permissions.mode.value}",
            fix="Use NativePermissions.bypass() and let the confinement be the boundary.",
        )
    if spec.mcp_servers:
        raise ProviderCapabilityError("claude over a stream takes no tool servers yet", where="mcp_servers")


def check_request(request: TurnRequest, spec: ConversationSpec) -> None:
    """Raise ProviderCapabilityError for what would need another process than the one that runs."""
    if request.cwd is not None and request.cwd != spec.cwd:
        raise ProviderCapabilityError(
            "the working directory of a claude conversation is fixed when it is opened",
            where=f"cwd={request.cwd}, opened in {spec.cwd}",
            fix="Open another session for the other directory.",
        )
    if request.reasoning_effort not in (None, spec.reasoning_effort):
        raise ProviderCapabilityError("claude over a stream cannot change the effort of a running conversation yet")
    for name in ("output_schema", "extra_args", "env", "mcp_servers", "mcp_workspace"):
        if getattr(request, name):
            raise ProviderCapabilityError(f"claude over a stream does not take {name} per turn yet", where=name)


def arguments(binary: str, spec: ConversationSpec, resume_id: str | None) -> tuple[str, ...]:
    """The argv of a process for this conversation."""
    argv = [binary, "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
    # Nobody sits at a terminal: what would prompt is denied by the CLI and listed in the result.
    argv += ["--permission-prompts", "none", "--permission-mode", "bypassPermissions"]
    if spec.model is not None:
        argv += ["--model", spec.model]
    if spec.reasoning_effort is not None:
        argv += ["--effort", spec.reasoning_effort]
    if resume_id is not None:
        argv.append(f"--resume={resume_id}")  # one word, so that an id that starts with a hyphen stays an id
    return tuple(argv)


def child_environment(environ: Mapping[str, str], *, root: bool) -> dict[str, str]:
    """The environment of the CLI.

    Args:
        environ: the worker's.
        root: whether the CLI will run as root.
    """
    # CLAUDECODE marks a CLI started by another one, which then behaves as its child.
    child = {name: value for name, value in environ.items() if name != "CLAUDECODE"}
    if root:
        # As root the CLI refuses bypassPermissions unless it is told that something else bounds it. The caller asked
        # for bypass in so many words, and the confinement is that bound.
        child.setdefault("IS_SANDBOX", "1")
    return child
