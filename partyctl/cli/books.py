"""Showing a book: what `partyctl logs` and `partyctl events` have in common."""

import sys
import time
from collections.abc import Callable, Iterable, Mapping

from partyctl.cli.output import emit
from partyctl.logreader import Reader
from partyctl.maps import Map
from partyctl_base.jsontext import json_text

SCHEMA_VERSION = 1

POLL = 0.2
"""Seconds between two looks at a file that another process appends to; a look costs some 30 us."""

Layout = Callable[[Mapping[str, object]], str]


def show_book(
    records: Iterable[Map],
    reader: Reader,
    layout: Layout | None,
    *,
    follow: bool,
    since: str = "",
    role: str | None = None,
) -> None:
    """Print records, and those that are added after them.

    Args:
        records: what was read.
        reader: what read them.
        layout: makes a line for people; None for JSON.
        follow: go on until interrupted.
        since, role: which of the added ones.
    """
    shown = layout or json_line
    for record in records:
        emit(shown(record))
    if follow:
        if sys.stdout is not None:
            sys.stdout.flush()
        for record in reader.follow(_wait, since=since, role=role):
            emit(shown(record))


def json_line(record: Mapping[str, object]) -> str:
    """One record as one JSON object."""
    return json_text({"schema_version": SCHEMA_VERSION, **record})


def _wait() -> bool:
    time.sleep(POLL)
    return True
