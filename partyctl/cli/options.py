"""Options that several verbs share."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from partyctl.config import is_party_name, party_name
from partyctl.config_schema import NAME_RULE

F = TypeVar("F", bound=Callable[..., object])


def _checked(_context: click.Context, _option: click.Parameter, name: str | None) -> str | None:
    if name is not None and not is_party_name(name):
        raise click.BadParameter(f"{name!r} cannot name a party. {NAME_RULE}.")
    return name


def party_options(verb: F) -> F:
    """Give a verb the options --file and --party, as the arguments `file` and `party`."""
    named = click.option(
        "--party", metavar="NAME", callback=_checked, help="The party's name; wins over the one in the file."
    )
    found = click.option(
        "-f",
        "--file",
        type=click.Path(path_type=Path),
        help="The party.toml to use. Without it: PARTYCTL_FILE, ./party.toml, the user's configuration directory.",
    )
    return found(named(verb))


def chosen_party(file: Path | None, party: str | None) -> str:
    """The party that a verb speaks to: the one named, else the one of the configuration file that counts.

    Raises:
        ConfigError: the file gives no usable name.
    """
    return party if party is not None else party_name(file)
