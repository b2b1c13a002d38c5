"""Which `party.toml` counts, and what `up` refuses of it.

Search order: the file asked for, PARTYCTL_FILE, ./party.toml, party.toml in the XDG configuration directory. The first
that exists counts alone; without any, defaults.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from partyctl.config_schema import (
    DEFAULT_PARTY,
    Confinement,
    Defaults,
    Limits,
    Listen,
    PartyConfig,
    Resolve,
    Restarts,
    RoleConfig,
    document,
    examine,
    is_party_name,
    name_of,
    parse,
)
from partyctl.errors import ConfigError
from partyctl_base.errors import PartyError
from partyctl_base.paths import config_directory, open_regular

__all__ = [
    "DEFAULT_PARTY",
    "Confinement",
    "Defaults",
    "Limits",
    "Listen",
    "PartyConfig",
    "Restarts",
    "RoleConfig",
    "candidates",
    "check_enforceable",
    "faults",
    "find",
    "is_party_name",
    "load",
    "parse",
    "party_name",
    "values",
]

FILE_NAME: Final = "party.toml"
FILE_VARIABLE: Final = "PARTYCTL_FILE"
FILE_MAX: Final = 1024 * 1024
"""Bytes; a larger file is no configuration but a mistake (`--file /dev/zero` must end)."""


def candidates(file: Path | None = None, *, environ: Mapping[str, str] = os.environ) -> list[tuple[str, Path]]:
    """Where a configuration may come from, best first: who names the file, and the file.

    Args:
        file: the file asked for.
        environ: the environment.
    """
    named = environ.get(FILE_VARIABLE)
    found = [("--file", file)] if file is not None else []
    found += [(FILE_VARIABLE, Path(named))] if named else []
    home = config_directory() / FILE_NAME
    return [*found, ("the current directory", Path(FILE_NAME)), ("the user's configuration directory", home)]


def find(file: Path | None = None, *, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The configuration file that counts, None if there is none.

    Args:
        file: the file asked for; it wins, whether it exists or not.
        environ: the environment.
    """
    asked = ("--file", FILE_VARIABLE)
    return next(
        (path for who, path in candidates(file, environ=environ) if who in asked or os.path.lexists(path)), None
    )


def load(file: Path | None = None, *, resolve: Resolve | None = None) -> PartyConfig:
    """Read the configuration that counts.

    Args:
        file: the file asked for; None searches.
        resolve: how providers are found; by default among the installed distributions' metadata.

    Raises:
        ConfigError: the file cannot be read, is not TOML, or says what it may not.
    """
    source = find(file)
    return PartyConfig() if source is None else parse(_read(source), source.absolute(), resolve or _installed)


def party_name(file: Path | None = None) -> str:
    """The party's name alone, so that a mistake elsewhere in the file keeps nobody from stopping the party.

    Raises:
        ConfigError: the file cannot be read, is not TOML, or gives no usable name.
    """
    source = find(file)
    if source is None:
        return DEFAULT_PARTY
    return name_of(document(_read(source), source.absolute()))


def faults(file: Path | None = None, *, resolve: Resolve | None = None) -> list[PartyError]:
    """All that is wrong with the configuration that counts, in the order of its lines; empty if `up` would take it.

    Arguments as for `load`.
    """
    source = find(file)
    if source is None:
        return []
    try:
        config, complaints = examine(_read(source), source.absolute(), resolve or _installed)
    except ConfigError as error:
        return [error]
    return [*sorted(complaints, key=lambda complaint: complaint.line or 0), *_unenforceable(config)]


def values(source: Path) -> Mapping[str, object]:
    """What stands in a configuration file, whether it may stand there or not.

    Raises:
        ConfigError: the file cannot be read, or is not TOML.
    """
    return document(_read(source), source.absolute()).root.values


def check_enforceable(config: PartyConfig) -> None:
    """Refuse what the file asks for and this version cannot keep.

    Raises:
        ConfinementRefused: the defaults or a role ask for a confinement that cannot be enforced here.
    """
    for error in _unenforceable(config):
        raise error


def _unenforceable(config: PartyConfig) -> list[PartyError]:
    found = [_confinement_fault(config.defaults.confinement, f"[defaults], {config.source or 'defaults'}")]
    for role in config.roles.values():
        # A table lists guarantees, so it asks for confinement, whatever the default is.
        setting = role.confinement if isinstance(role.confinement, str | None) else "strict"
        found.append(_confinement_fault(setting, f"role {role.name}, {role.where}"))
    return [fault for fault in found if fault is not None]


def _confinement_fault(setting: str | None, where: str) -> PartyError | None:
    from partyctl_confinement.errors import ConfinementRefused
    from partyctl_confinement.policy import resolve

    try:
        resolve(setting)
    except ConfinementRefused as refused:
        return ConfinementRefused(refused.what, where=where, why=refused.why, fix=refused.fix)
    return None


def _read(source: Path) -> str:
    try:
        with open_regular(source) as stream:
            data = stream.read(FILE_MAX + 1)
    except OSError as error:
        fix = f"Name another file with --file or {FILE_VARIABLE}"
        raise ConfigError("the configuration cannot be read", file=source, why=error.strerror or "", fix=fix) from None
    if len(data) > FILE_MAX:
        raise ConfigError("the configuration is too large", file=source, why=f"more than {FILE_MAX} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
        why = f"the byte 0x{data[error.start]:02x} is not UTF-8"
        line = before.count(b"\n") + 1
        raise ConfigError("not valid TOML", file=source, line=line, column=column, why=why) from None


def _installed(provider: str) -> object:
    # Scanning the metadata of all distributions is paid only by a file that names a provider.
    from partyctl_plugins.manager import resolve

    return resolve(provider)
