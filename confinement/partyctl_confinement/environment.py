"""What of its environment a process hands on: an allow-list, never a deny-list.

A worker starts from WORKER_ALLOW; whatever else its provider needs is sent to it by name.
"""

from collections.abc import Iterable, Mapping
from typing import Final

WORKER_ALLOW: Final = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR")
"""What every worker inherits: who and where it is, and in which language it speaks."""

LAUNCHER_ALLOW: Final = (*WORKER_ALLOW, "PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE", "LD_LIBRARY_PATH")
"""What the launcher's own interpreter may need besides, to find what it preloads."""

_NEVER: Final = frozenset(
    {
        "CLAUDECODE",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_SSE_PORT",
        "CODEX_SANDBOX",
        "CODEX_SANDBOX_NETWORK_DISABLED",
    }
)
"""Marks of a surrounding agent session. A CLI that inherits one behaves as the nested child of a stranger."""

_ONLY_BY_NAME: Final = ("LD_", "PYTHON", "NODE_OPTIONS", "BASH_ENV", "GIT_", "SSH_AUTH_SOCK", "DBUS_")
"""These change what runs, or as whom. A pattern with a star never lets them in."""


def scrubbed(environment: Mapping[str, str], allow: Iterable[str]) -> dict[str, str]:
    """The part of `environment` that may be handed on.

    Args:
        environment: names and values; not changed.
        allow: exact names, or prefixes that end in `*`.

    Returns:
        A new dict. Marks of a surrounding agent session are never in it, even if they are allowed by name.
    """
    names: set[str] = set()
    prefixes: list[str] = []
    for entry in allow:
        if entry.endswith("*"):
            prefixes.append(entry[:-1])
        else:
            names.add(entry)
    return {
        name: value
        for name, value in environment.items()
        if name not in _NEVER and (name in names or _matches(name, prefixes))
    }


def _matches(name: str, prefixes: list[str]) -> bool:
    if name.startswith(_ONLY_BY_NAME) or name.upper().endswith("_PROXY"):
        return False
    return any(name.startswith(prefix) for prefix in prefixes)
