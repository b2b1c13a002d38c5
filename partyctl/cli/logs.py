"""Show what the processes of a party wrote.

Every line is led by its time and by the role, or the process, that wrote it. A restarted process is marked where it
ended, and so are lines that are missing. It makes no difference whether the party runs: the lines are in its state
directory, at most 32 MiB of them, with secrets masked.

NAME is a role, or a process as `partyctl status` lists them; `node` is all nodes. --follow goes on until Ctrl-C, over
restarts of the party.

--json gives one object a line: schema_version, time (RFC 3339, UTC), process, stream and text, and where they are known
role, run and cut, the number of characters left out; of a mark instead of a stream: mark (restarted, dropped) and its
number.

Exit codes: 0; 2 nobody of that name; 7 party.toml or the state directory cannot be used; 130 ended by Ctrl-C.
"""

import difflib
from collections.abc import Mapping
from pathlib import Path

import click

from partyctl.cli.books import show_book
from partyctl.cli.options import book_options, chosen_party, long_party_options
from partyctl.cli.output import printable, say
from partyctl.config import load
from partyctl.logbook import logs_reader
from partyctl.logreader import Reader
from partyctl_base.errors import PartyError

PROCESSES = ("host", "broker", "launcher", "node")
"""Names that every party has."""


@click.command(help=__doc__)
@click.argument("name", required=False)
@book_options
@click.option("--lines", "-n", type=click.IntRange(min=0), metavar="N", help="Only the newest N lines to begin with.")
@long_party_options
def command(
    name: str | None, follow: bool, since: str, as_json: bool, lines: int | None, file: Path | None, party: str | None
) -> int:
    """Show logs; see the module's text, which is the manual page."""
    chosen = chosen_party(file, party)
    reader = logs_reader(chosen)
    records = reader.read(since=since, role=name, lines=lines)
    if not records and name is not None:
        _check(name, reader, file, wait=follow)
    if not records and not as_json:
        such = "such " if name is not None or since else ""
        say(f'party "{chosen}" has no {such}lines{" yet" if follow else ""}')
    show_book(records, reader, Lines() if not as_json else None, follow=follow, since=since, role=name)
    return 0


def _check(name: str, reader: Reader, file: Path | None, *, wait: bool) -> None:
    """Refuse a name that nobody has, with the nearest that somebody has."""
    known = reader.names() | set(PROCESSES)
    try:
        known |= set(load(file).roles)
    except PartyError as error:
        say(f"warning: the roles of the configuration are not known: {error}")
    if name in known:
        return
    folded = {each.casefold(): each for each in sorted(known)}
    near = difflib.get_close_matches(name.casefold(), folded, n=1)
    if near:
        raise click.UsageError(f"There is no role or process {name!r}. Did you mean {folded[near[0]]!r}?")
    if not wait:
        raise click.UsageError(f"There is no role or process {name!r}. Known are {', '.join(sorted(known))}.")


class Lines:
    """Lays out log lines for people; the column of names is as wide as the longest that came so far."""

    def __init__(self) -> None:
        self._width = 0

    def __call__(self, record: Mapping[str, object]) -> str:
        """One record as one line."""
        name = printable(str(record.get("role") or record.get("process", "")))
        self._width = max(self._width, len(name))
        text = printable(str(record.get("text", "")).expandtabs())
        match record.get("mark"):
            case None:
                told = text
            case "restarted":
                told = f"--- restarted ({record.get('restarts')}): {text} ---"
            case "dropped":
                told = f"--- {record.get('dropped')} lines are missing: {text} ---"
            case mark:
                told = f"--- {printable(str(mark))}: {text} ---"
        return f"{printable(str(record.get('time', '')))} {name.ljust(self._width)} | {told}"
