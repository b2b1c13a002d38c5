"""What may stand in a `party.toml`, and the values it becomes. Pure: text in, values and complaints out.

An unknown key is an error: a mistyped limit must not be no limit.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from partyctl.config_reader import Document, Table
from partyctl.errors import ConfigError
from partyctl_base.errors import PartyError
from partyctl_plugins.contract import ApprovalPolicy, NativeMode, NativePermissions, RetryPolicy, TransportKind

DEFAULT_PARTY: Final = "default"
HUMANS: Final = ("desk",)
CONFINEMENTS: Final = ("light", "strict", "none")

Confinement: TypeAlias = str | Mapping[str, object]
"""One of `CONFINEMENTS`, or a table of grants and limits, which asks for more than "none"."""

Resolve: TypeAlias = Callable[[str], object]
"""Finds a provider by name among installed distributions; raises a `PartyError` if there is none."""

NODES_MAX: Final = 1024

NAME_RULE: Final = "Use at most 64 letters, digits and . _ -, with no dot first"

ROLE_KEYS: Final = (
    *("provider", "human", "transport", "model", "instructions", "cwd", "permissions", "approvals"),
    *("confinement", "env", "options", "retry", "idle_release_after"),
)

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
_ROLE = re.compile(r"(?! )[^/*\x00-\x1f\x7f-\x9f]{1,100}(?<! )")
_BYTES = re.compile(r"[0-9]+[KMGT]?")
_LISTEN = re.compile(r"tcp://[A-Za-z0-9.-]+:([0-9]{1,5})")
"""No IPv6: a peer's end of the bus does not speak it."""


@dataclass(frozen=True, slots=True)
class RoleConfig:
    """Who plays one role: a provider's agent, or a person.

    Attributes:
        name: the role's name.
        where, line: file and line of its table, for messages.
        provider, transport, model, instructions, options: which agent, and how it is reached.
        cwd: the agent's working directory, absolute; relative ones start at the file's directory.
        permissions, approvals: what the provider allows its agent; set whenever `provider` is.
        confinement: the role's own setting, else that of [defaults], else None.
        env: variables for the worker.
        retry: when a transient failure of its agent sessions is tried again.
        idle_release_after: seconds after which an idle one of them has its connection closed; None for never.
        human: where a person plays it. Exactly one of `provider` and `human` is set.
    """

    name: str
    where: str
    cwd: Path
    provider: str | None = None
    transport: TransportKind | None = None
    model: str | None = None
    instructions: str = ""
    permissions: NativePermissions | None = None
    approvals: ApprovalPolicy | None = None
    confinement: Confinement | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    retry: RetryPolicy | None = None
    idle_release_after: float | None = None
    human: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds for every role that does not say otherwise."""

    confinement: str | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """How many runs and how many workers a party has at once."""

    runs: int = 200
    workers: int = 64


@dataclass(frozen=True, slots=True)
class Restarts:
    """How often a part of the party that dies is started again before it is given up.

    Attributes:
        intensity: restarts within the period; 0 gives up at the first death.
        period: seconds.
        same_deaths: deaths in a row before it was ready, of one cause, after which it is given up.
    """

    intensity: int = 5
    period: float = 60.0
    same_deaths: int = 3


@dataclass(frozen=True, slots=True)
class Listen:
    """Where peers beyond this machine come in, by a key: `tcp://ADDRESS:PORT`, port 0 for any."""

    url: str


@dataclass(frozen=True, slots=True)
class PartyConfig:
    """One party. `nodes` None means one per core; `source` is the file it came from, None for defaults."""

    name: str = DEFAULT_PARTY
    nodes: int | None = None
    defaults: Defaults = Defaults()
    roles: Mapping[str, RoleConfig] = field(default_factory=dict)
    limits: Limits = Limits()
    restarts: Restarts = Restarts()
    listen: Listen | None = None
    source: Path | None = None


def is_party_name(name: str) -> bool:
    """Whether `name` can name a party: letters, digits and . _ -, at most 64 bytes, not starting with a dot."""
    return _NAME.fullmatch(name) is not None


def parse(text: str, source: Path, resolve: Resolve) -> PartyConfig:
    """The configuration in `text`, which came from `source`.

    Raises:
        ConfigError: it is not TOML, or says what it may not; the first of all complaints.
    """
    config, complaints = examine(text, source, resolve)
    if complaints:
        raise complaints[0]
    return config


def examine(text: str, source: Path, resolve: Resolve) -> tuple[PartyConfig, list[ConfigError]]:
    """What is usable of `text`, and all that is wrong with it.

    Raises:
        ConfigError: it is not TOML.
    """
    read = document(text, source)
    root = read.root
    root.only("party", "defaults", "roles", "limits", "restarts", "listen")
    name, nodes = DEFAULT_PARTY, None
    if party := root.table("party"):
        party.only("name", "nodes")
        name, nodes = _name(party), party.count("nodes", most=NODES_MAX)
    defaults = Defaults()
    if table := root.table("defaults"):
        table.only("confinement")
        defaults = Defaults(table.word("confinement", CONFINEMENTS))
    roles = root.table("roles")
    cast = [_role(table, defaults, source.parent, resolve) for table in roles.tables()] if roles else []
    config = PartyConfig(
        name=name,
        nodes=nodes,
        defaults=defaults,
        roles={role.name: role for role in cast if role is not None},
        limits=_limits(root.table("limits")),
        restarts=_restarts(root.table("restarts")),
        listen=_listen(root.table("listen")),
        source=source,
    )
    return config, read.complaints


def document(text: str, source: Path) -> Document:
    """The parsed document.

    Raises:
        ConfigError: it is not TOML.
    """
    try:
        return Document(text, tomllib.loads(text), source)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        place = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", message)
        line, column = (int(place[1]), int(place[2])) if place and place[1] else (text.count("\n") + 1, None)
        why = message[: place.start()] if place else message
        raise ConfigError("not valid TOML", file=source, line=line, column=column, why=why) from None
    except ValueError as error:
        # An integer of thousands of digits: Python refuses to read it, and tomllib passes that on as it is.
        raise ConfigError("not usable TOML", file=source, why=str(error)) from None
    except RecursionError:
        raise ConfigError("not usable TOML", file=source, why="arrays or tables are nested too deeply") from None


def name_of(read: Document) -> str:
    """The party's name as a document gives it.

    Raises:
        ConfigError: it is no usable name.
    """
    party = read.root.table("party")
    name = _name(party) if party else DEFAULT_PARTY
    if read.complaints:
        raise read.complaints[0]
    return name


def _name(party: Table) -> str:
    name = party.text("name")
    if name is not None and not is_party_name(name):
        party.complain("name", f"{name!r} cannot name a party", fix=NAME_RULE)
    return DEFAULT_PARTY if name is None else name


def _role(table: Table, defaults: Defaults, directory: Path, resolve: Resolve) -> RoleConfig | None:
    if not _ROLE.fullmatch(table.name):
        table.complain("", f"{table.name!r} cannot name a role", fix="Use 1 to 100 characters without / and *")
    if "human" in table and "provider" in table:
        table.complain("human", "a provider and a person cannot both play a role", fix="Remove one of them")
        return None
    if "human" in table:
        table.only("human")
        return RoleConfig(table.name, table.where, directory, human=table.word("human", HUMANS), line=table.line)
    table.only(*ROLE_KEYS)
    transport = table.word("transport", [kind.value for kind in TransportKind])
    provider = _provider(table, resolve)
    allowed = table.required_table("permissions", '{ mode = "bypass" }')
    permissions = _permissions(allowed, directory) if allowed else None
    approvals = table.required_word("approvals", [policy.value for policy in ApprovalPolicy])
    return RoleConfig(
        table.name,
        table.where,
        cwd=directory / (table.text("cwd") or "."),
        provider=provider,
        transport=TransportKind(transport) if transport else None,
        model=table.text("model"),
        instructions=table.text("instructions") or "",
        permissions=permissions,
        approvals=ApprovalPolicy(approvals) if approvals else None,
        confinement=_confinement(table) or defaults.confinement,
        env=_env(table.table("env")),
        options=dict(options.values) if (options := table.table("options")) else {},
        retry=_retry(table.table("retry")),
        idle_release_after=table.seconds("idle_release_after"),
        line=table.line,
    )


def _provider(table: Table, resolve: Resolve) -> str | None:
    if "provider" not in table:
        table.complain("", "nobody plays this role", fix='Say who: provider = "claude", or human = "desk"')
    provider = table.text("provider")
    if provider is None:
        return None
    try:
        resolve(provider)
    except PartyError as error:
        table.complain("provider", error.what, why=error.why, fix=error.fix)
    return provider


def _permissions(table: Table, directory: Path) -> NativePermissions | None:
    table.only("mode", "writable_roots", "network")
    mode = table.required_word("mode", [mode.value for mode in NativeMode])
    roots = tuple(str(directory / root) for root in table.texts("writable_roots") or ())
    network = table.flag("network") or False
    if mode is None:
        return None
    try:
        return NativePermissions(NativeMode(mode), roots, network)
    except (TypeError, ValueError) as error:
        table.complain("", str(error))
        return None


def _confinement(role: Table) -> Confinement | None:
    table = role.table("confinement") if role.is_table("confinement") else None
    if table is None:
        return role.word("confinement", CONFINEMENTS)
    table.only("read", "write", "deny_read", "network", "allowed_domains", "memory_max", "pids_max", "env")
    for key in ("read", "write", "deny_read", "allowed_domains", "env"):
        table.texts(key)
    table.flag("network")
    table.count("pids_max")
    if table.is_integer("memory_max"):
        table.count("memory_max")
    elif (size := table.text("memory_max")) is not None and not _BYTES.fullmatch(size):
        table.complain("memory_max", f"{size!r} is no size", fix='Give bytes, as 1073741824 or "1G"')
    return dict(table.values)


def _env(table: Table | None) -> dict[str, str]:
    if table is None:
        return {}
    for name in table.values:
        if not name or "=" in name or "\0" in name:
            table.complain(name, f"{name!r} cannot name a variable", fix="Use letters, digits and _")
    return {name: table.text(name) or "" for name in table.values}


def _retry(table: Table | None) -> RetryPolicy | None:
    if table is None:
        return None
    table.only("delays", "after_tool", "retire_after_stalled")
    usual = RetryPolicy()
    delays, after_tool = table.numbers("delays"), table.word("after_tool", ("retry", "fail"))
    return RetryPolicy(
        usual.delays if delays is None else delays,
        "fail" if after_tool == "fail" else "retry",
        table.count("retire_after_stalled"),
    )


def _limits(table: Table | None) -> Limits:
    if table is None:
        return Limits()
    table.only("runs", "workers")
    return Limits(table.count("runs") or Limits().runs, table.count("workers") or Limits().workers)


def _restarts(table: Table | None) -> Restarts:
    usual = Restarts()
    if table is None:
        return usual
    table.only("intensity", "period", "same_deaths")
    intensity, period = table.count("intensity", least=0), table.seconds("period")
    return Restarts(
        usual.intensity if intensity is None else intensity,
        usual.period if period is None else period,
        table.count("same_deaths") or usual.same_deaths,
    )


def _listen(table: Table | None) -> Listen | None:
    if table is None:
        return None
    table.only("url")
    url = table.text("url")
    if url is not None and (match := _LISTEN.fullmatch(url)) and int(match[1]) < 65536:
        return Listen(url)
    if url is not None or "url" not in table:
        fix = 'Give one like url = "tcp://127.0.0.1:7333"; the address 0.0.0.0 stands for all, port 0 for any'
        table.complain("url", "no address to listen on", fix=fix)
    return None
