"""Options that several verbs share."""

import math
import time
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


class Seconds(click.FloatRange):
    """A number of seconds from zero on, not nan and not inf: every wait has an end."""

    name = "seconds"

    def __init__(self, *, above_zero: bool = False) -> None:
        super().__init__(min=0, min_open=above_zero)

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """See `click.ParamType.convert`."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is no number of seconds.", param, ctx)
        return number


def party_options(verb: F) -> F:
    """Give a verb the options -f, --file and --party, as the arguments `file` and `party`."""
    return _file_option("-f", "--file")(_party_option(verb))


def long_party_options(verb: F) -> F:
    """The same for a verb whose -f means --follow."""
    return _file_option("--file")(_party_option(verb))


def book_options(verb: F) -> F:
    """Give a verb that shows a book the options --follow, --since and --json, as `follow`, `since` and `as_json`."""
    followed = click.option("-f", "--follow", is_flag=True, help="Go on with what is added.")
    begun = click.option(
        "--since",
        metavar="WHEN",
        callback=moment_before,
        help="Leave out what is older: 90s, 10m, 2h, 1d12h, or RFC 3339.",
    )
    json = click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
    return followed(begun(json(verb)))


def _party_option(verb: F) -> F:
    return click.option(
        "--party", metavar="NAME", callback=_checked, help="The party's name; wins over the one in the file."
    )(verb)


def _file_option(*names: str) -> Callable[[F], F]:
    return click.option(
        *names,
        type=click.Path(path_type=Path),
        help="The party.toml to use. Without it: PARTYCTL_FILE, ./party.toml, the user's configuration directory.",
    )


def moment_before(_context: click.Context, _option: click.Parameter, given: str | None) -> str:
    """When something was, in the form in which the books keep it; "" for always."""
    if given is None:
        return ""
    from partyctl.cli.moments import moment

    try:
        return moment(given, time.time())
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def chosen_party(file: Path | None, party: str | None) -> str:
    """The party that a verb speaks to: the one named, else the one of the configuration file that counts.

    Raises:
        ConfigError: the file gives no usable name.
    """
    return party if party is not None else party_name(file)
