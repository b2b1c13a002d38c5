"""The command `partyctl`: parses, calls a verb, and turns what it raises into a message and an exit code."""

import os
import sys
from collections.abc import Sequence

import click

from partyctl.cli.verbs import Verbs
from partyctl.errors import exit_code, told
from partyctl_base.errors import PartyError

INTERRUPTED = 130


def _version(context: click.Context, _option: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"partyctl {version('partyctl')} (Python {sys.version.split()[0]})")
        context.exit()


@click.group(
    cls=Verbs,
    subcommand_metavar="VERB [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Every verb explains itself: partyctl VERB --help",
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
def partyctl() -> None:
    """Run declared conversations between agents, people and programs.

    Exit codes: 0 done; 1 a run or role failed; 2 wrong usage; 3 not running (status --check); 4 the host does not
    answer; 5 already running; 6 degraded (status --check); 7 configuration, protocol or confinement refused; 130 or
    143 ended by force.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

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
        click.echo(f"partyctl: error: {told(error)}", err=True)
        return exit_code(error)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("partyctl: interrupted", err=True)
        return INTERRUPTED
    return result if isinstance(result, int) else 0


def _colourless() -> bool:
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
