"""The command `partyctl`: parses, calls a verb, and turns what it raises into a message and an exit code."""

import contextlib
import os
import sys
import traceback
from collections.abc import Sequence

import click

from partyctl.cli.verbs import Verbs
from partyctl.errors import ExitCode, exit_code, told
from partyctl_base.errors import PartyError


def _version(context: click.Context, _option: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"partyctl {version('partyctl')} (Python {sys.version.split()[0]})")
        context.exit()


_CODES = "; ".join(f"{code:d} {code.meaning}" for code in ExitCode)
_HELP = f"""Run declared conversations between agents, people and programs.

Exit codes: {_CODES}.
"""


@click.group(
    cls=Verbs,
    help=_HELP,
    subcommand_metavar="VERB [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Every verb explains itself: partyctl VERB --help",
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
def partyctl() -> None:
    """The verbs hang here; the text is `_HELP`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; see `_main`. A process whose threads never end is ended here."""
    code = _main(arguments)
    looping = sys.modules.get("partyctl_base.looping")
    if looping is not None and looping.has_left_threads:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(code)
    return code


def _main(arguments: Sequence[str] | None) -> int:
    """Run the command line.

    An OSError that is no PartyError is one of two: of the help, which click prints itself, or of a current directory
    that was removed, which any verb may ask for.

    Args:
        arguments: the words after the program's name; None for those of this process.

    Returns:
        The exit code.
    """
    try:
        result = partyctl.main(
            None if arguments is None else list(arguments),
            prog_name="partyctl",
            standalone_mode=False,
            color=False if _colourless() else None,
        )
    except PartyError as error:
        return _refused(error)
    except OSError as error:
        known = _known(error)
        if known is None:
            raise
        return _refused(known)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("partyctl: interrupted", err=True)
        return ExitCode.INTERRUPTED
    return int(result) if isinstance(result, int) else ExitCode.OK


def _refused(error: PartyError) -> int:
    from partyctl.masking import masked

    click.echo(f"partyctl: error: {masked(told(error))}", err=True)
    return exit_code(error)


def _known(error: OSError) -> PartyError | None:
    """What an OSError means to a person, where that can be told."""
    if any(frame.f_code is click.echo.__code__ for frame, _ in traceback.walk_tb(error.__traceback__)):
        from partyctl.cli.output import unwritten

        return unwritten(error)
    try:
        os.getcwd()
    except FileNotFoundError:
        from partyctl_base.paths import PathError

        return PathError("the current directory was removed", fix="Change to one that is there")
    return None


def _colourless() -> bool:
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
