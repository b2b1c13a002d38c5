"""Agents as data: from `party.toml`, and across processes."""

import difflib
import os
from collections.abc import Mapping
from typing import Literal

from partyctl.config import PartyConfig, RoleConfig
from partyctl.errors import ConfigError
from partyctl.maps import Map, texts
from partyctl_actors.participants import Agent, Participant
from partyctl_actors.protocol import Protocol, Role
from partyctl_plugins.contract import ApprovalPolicy, NativeMode, NativePermissions, RetryPolicy, TransportKind


def cast_from(config: PartyConfig, protocol: Protocol) -> dict[Role, Participant]:
    """Who plays a protocol's roles by `party.toml`; roles that the file does not name are left out.

    Raises:
        ConfigError: a role is a person's, whom nobody can ask here; or a name is near to a role that nobody plays.
    """
    named = {role.name: role for role in protocol.roles}
    _check_names(config, named)
    return {named[name]: _participant(role, config) for name, role in config.roles.items() if name in named}


def _check_names(config: PartyConfig, named: Mapping[str, Role]) -> None:
    """Refuse a mistyped role. A file may cast several protocols, so a name like no free role is none."""
    free = {name.casefold(): name for name in named if name not in config.roles}
    for name, role in config.roles.items():
        near = difflib.get_close_matches(name.casefold(), free, n=1) if name not in named else []
        if near:
            raise ConfigError(
                f"the protocol has no role {name!r}",
                file=config.source,
                line=role.line,
                key=f"roles.{name}",
                fix=f"Did you mean {free[near[0]]!r}? Nobody plays it",
            )


def provider_roles(config: PartyConfig) -> list[str]:
    """The names of the roles that a provider's agent plays."""
    return [role.name for role in config.roles.values() if role.provider is not None]


def role_for_session(config: PartyConfig, name: str | None) -> RoleConfig:
    """The role whose settings an agent session begins with: the one named, else the only one with a provider.

    Raises:
        ConfigError: there is no such role, it is a person's, or several could be meant.
    """
    known = provider_roles(config)
    if name is None:
        if len(known) == 1:
            return config.roles[known[0]]
        raise ConfigError(
            "no role has a provider, so there is nobody to ask" if not known else "it is not clear whom to ask",
            file=config.source,
            why=f"several roles have a provider: {', '.join(known)}" if known else "",
            fix="Name one with --role" if known else "Add [roles.NAME] with a provider to party.toml",
        )
    role = config.roles.get(name)
    if role is None:
        near = difflib.get_close_matches(name, known, n=1)
        fix = f"Did you mean {near[0]!r}?" if near else f"Roles with a provider are {', '.join(known) or 'none'}"
        raise ConfigError(f"there is no role {name!r}", file=config.source, fix=fix)
    if role.provider is None:
        raise ConfigError(
            f"role {role.name} is a person's, and has no agent session",
            file=config.source,
            line=role.line,
            key=f"roles.{role.name}",
            fix=f"Name a role with a provider: {', '.join(known)}" if known else "Give a role a provider",
        )
    return role


def agent_of(role: RoleConfig, config: PartyConfig) -> Agent:
    """The agent of a role.

    Raises:
        ConfigError: it is a person's.
    """
    participant = _participant(role, config)
    assert isinstance(participant, Agent)
    return participant


def _participant(role: RoleConfig, config: PartyConfig) -> Participant:
    if role.provider is None or role.permissions is None or role.approvals is None:
        raise ConfigError(
            f"role {role.name} is a person's, and this command has no desk",
            file=config.source,
            key=f"roles.{role.name}",
            fix="Make the Session in Python with ap.Human(desk), or name a provider",
        )
    return Agent(
        role.provider,
        role.instructions,
        permissions=role.permissions,
        approvals=role.approvals,
        transport=role.transport,
        model=role.model,
        cwd=role.cwd,
        options=role.options,
        env=role.env,
        confinement=role.confinement if isinstance(role.confinement, str) else None,
        retry=role.retry,
    )


def describe_agent(participant: Participant) -> Map:
    """An agent behind an installed provider, as data; its working directory is relative to this process's."""
    assert isinstance(participant, Agent)
    assert participant.permissions is not None
    assert participant.approvals is not None
    return {
        "source": participant.provider,
        "instructions": participant.instructions,
        "mode": participant.permissions.mode.value,
        "writable_roots": list(participant.permissions.writable_roots),
        "network": participant.permissions.network,
        "approvals": participant.approvals.value,
        "transport": participant.transport.value if participant.transport else None,
        "model": participant.model,
        "cwd": os.path.abspath(participant.cwd or "."),
        "confinement": participant.confinement,
        "options": dict(participant.options or {}),
        "env": dict(participant.env or {}),
        "repair": participant.repair,
        "retry": _described_retry(participant.retry),
    }


def agent_from(described: Mapping[str, object]) -> Agent:
    """The agent that `describe_agent` described."""
    permissions = NativePermissions(
        NativeMode(str(described["mode"])), tuple(texts(described["writable_roots"])), bool(described["network"])
    )
    options, env = described["options"], described["env"]
    assert isinstance(options, dict)
    assert isinstance(env, dict)
    return Agent(
        str(described["source"]),
        str(described["instructions"]),
        permissions=permissions,
        approvals=ApprovalPolicy(str(described["approvals"])),
        transport=TransportKind(str(described["transport"])) if described["transport"] else None,
        model=str(described["model"]) if described["model"] else None,
        cwd=str(described["cwd"]),
        confinement=str(described["confinement"]) if described["confinement"] else None,
        options=options,
        env=env,
        repair=int(str(described["repair"])),
        retry=_retry_from(described.get("retry")),
    )


def _described_retry(retry: RetryPolicy | None) -> Map | None:
    if retry is None:
        return None
    stalled = retry.retire_after_stalled
    return {"delays": list(retry.delays), "after_tool": retry.after_tool, "retire_after_stalled": stalled}


def _retry_from(described: object) -> RetryPolicy | None:
    if not isinstance(described, dict):
        return None
    delays, stalled = described["delays"], described["retire_after_stalled"]
    after_tool: Literal["retry", "fail"] = "fail" if described["after_tool"] == "fail" else "retry"
    return RetryPolicy(tuple(delays), after_tool, stalled)
