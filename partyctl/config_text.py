"""A configuration as it is shown: every setting in the shape of `party.toml`, secrets masked.

There is no TOML writer among our dependencies, and what is written here is for people and for `config check`, not for
keeping: tables, arrays, strings, numbers, true and false, dates.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict
from datetime import date, datetime
from datetime import time as clock_time

from partyctl.config_schema import PartyConfig, RoleConfig
from partyctl.maps import Map

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def resolved(config: PartyConfig) -> Map:
    """Every setting with its value, defaults filled in; None for what has no value.

    Args:
        config: what was read.
    """
    return {
        "party": {"name": config.name, "nodes": _nodes(config)},
        "defaults": {"confinement": config.defaults.confinement or "none"},
        "roles": {name: _role(role) for name, role in config.roles.items()},
        "limits": {"runs": config.limits.runs, "workers": config.limits.workers},
        "restarts": asdict(config.restarts),
        "listen": {"url": config.listen.url if config.listen else None},
    }


def fingerprint(config: PartyConfig) -> str:
    """What a running party tells of its configuration: a digest of all but its name, and its number of nodes. No secret
    can be had from it."""
    settings = {name: value for name, value in resolved(config).items() if name != "party"}
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=repr).encode()).hexdigest()[:16]
    return f"{digest}/{_nodes(config)}"


def runs_as(told: str, config: PartyConfig) -> bool:
    """Whether a party that told the fingerprint `told` runs as `config` asks; if that names no number of nodes, any."""
    wanted = fingerprint(config)
    return wanted == told if config.nodes else wanted.partition("/")[0] == told.partition("/")[0]


def _nodes(config: PartyConfig) -> int:
    return config.nodes or os.cpu_count() or 1


def _role(role: RoleConfig) -> Map:
    if role.human is not None:
        return {"human": role.human}
    allowed = role.permissions
    return {
        "provider": role.provider,
        "transport": role.transport.value if role.transport else "stream",
        "model": role.model,
        "instructions": role.instructions,
        "cwd": str(role.cwd),
        "permissions": allowed
        and {"mode": allowed.mode.value, "writable_roots": list(allowed.writable_roots), "network": allowed.network},
        "approvals": role.approvals.value if role.approvals else None,
        "confinement": role.confinement or "none",
        "env": dict(role.env),
        "options": dict(role.options),
        "retry": role.retry and {**asdict(role.retry), "delays": list(role.retry.delays)},
        "idle_release_after": role.idle_release_after,
    }


def toml(values: Mapping[str, object]) -> str:
    """Values as TOML; None and empty tables are left out, tables of the third level and below stand in one line."""
    lines: list[str] = []
    for name, value in values.items():
        if not isinstance(value, Mapping):
            lines += [f"{_key(name)} = {_inline(value)}"] if value is not None else []
    for name, value in values.items():
        if isinstance(value, Mapping):
            _table(lines, _key(name), value, deep=name == "roles")
    return "\n".join(lines)


def _table(lines: list[str], header: str, table: Mapping[str, object], *, deep: bool) -> None:
    own = {key: value for key, value in table.items() if not (deep and isinstance(value, Mapping))}
    settings = [f"{_key(key)} = {_inline(value)}" for key, value in own.items() if value not in (None, {}, [])]
    if settings:
        lines += [*([""] if lines else []), f"[{header}]", *settings]
    for key, value in table.items():
        if deep and isinstance(value, Mapping):
            _table(lines, f"{header}.{_key(key)}", value, deep=False)


def _inline(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        pairs = [f"{_key(str(key))} = {_inline(item)}" for key, item in value.items() if item is not None]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_inline, value))}]"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, datetime | date | clock_time):
        return value.isoformat()
    return _string(str(value))


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _string(name)


def _string(text: str) -> str:
    # A JSON string is a TOML basic string, but for the one control character that JSON lets pass.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
