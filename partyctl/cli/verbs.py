"""The verbs of the command line, found by name and imported late.

`partyctl --help` must cost little and must work whatever a plugin or a library does, so the list of verbs with their
summaries is read from the first lines of their files, and a verb's module is imported only when it is called.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

VERBS = (
    *("up", "down", "status", "run", "runs", "send", "sessions", "interrupt", "steer", "release", "resume"),
    *("check", "logs", "events", "config", "key", "plugins"),
)
"""In the order in which people meet them. Each is a module of this package with an object `command`."""

_DIRECTORY = Path(__file__).parent


def summary(verb: str) -> str:
    """The first line of the verb's manual page; empty if its source is not at hand."""
    try:
        with (_DIRECTORY / f"{verb}.py").open(encoding="utf-8") as source:
            return source.readline().strip().strip('"').rstrip(".")
    except OSError:
        return ""


class Verbs(click.Group):
    """A group that knows its verbs by name alone."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs, in their order."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb; None if there is none of this name."""
        if cmd_name not in VERBS:
            return None
        from importlib import import_module

        command = import_module(f"partyctl.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing them."""
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, summary(verb)) for verb in VERBS])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """The verbs and options that begin so; no verb is imported for its summary."""
        from click.shell_completion import CompletionItem

        verbs = [CompletionItem(verb, help=summary(verb)) for verb in VERBS if verb.startswith(incomplete)]
        return [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb, or say which one is nearest to what was typed."""
        verb = args[0]
        if verb not in VERBS and not verb.startswith("-"):
            import difflib

            near = difflib.get_close_matches(verb, VERBS, n=1)
            advice = f"Did you mean {near[0]!r}?" if near else f"The verbs are {', '.join(VERBS)}."
            ctx.fail(f"There is no verb {verb!r}. {advice}")
        return super().resolve_command(ctx, args)
