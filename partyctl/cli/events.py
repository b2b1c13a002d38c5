"""Show what happened to a party.

One line an event: its time, its kind, whom it befell, the cause, and further values. It makes no difference whether the
party runs: the events are in its state directory, at most 32 MiB of them, with secrets masked.

--follow goes on until Ctrl-C, over restarts of the party. --json gives one object a line: schema_version, time (RFC
3339, UTC), kind, subject, cause and fields.

Exit codes: 0; 7 party.toml or the state directory cannot be used; 130 ended by Ctrl-C.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import click

from partyctl.cli.books import show_book
from partyctl.cli.options import book_options, chosen_party, long_party_options
from partyctl.cli.output import printable, say
from partyctl.logbook import events_reader


@click.command(help=__doc__)
@book_options
@long_party_options
def command(follow: bool, since: str, as_json: bool, file: Path | None, party: str | None) -> int:
    """Show events; see the module's text, which is the manual page."""
    chosen = chosen_party(file, party)
    reader = events_reader(chosen)
    records = reader.read(since=since)
    if not records and not as_json:
        say(f'party "{chosen}" has no {"such " if since else ""}events{" yet" if follow else ""}')
    show_book(records, reader, event_line if not as_json else None, follow=follow, since=since)
    return 0


def event_line(record: Mapping[str, object]) -> str:
    """One event for a person."""
    fields = record.get("fields")
    pairs = fields.items() if isinstance(fields, dict) else ()
    values = " ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in pairs)
    cause = record.get("cause")
    words = [str(record.get(key, "")) for key in ("time", "kind", "subject")]
    line = " ".join(words) + (f": {cause}" if cause else "") + (f" ({values})" if values else "")
    return printable(line)
