"""What goes to people and what goes to programs: data on stdout, messages on stderr.

On a terminal a table is drawn; anywhere else it is plain columns, complete and without colours, so that nothing is
lost on the way to `grep`.
"""

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence

import click

from partyctl_base.errors import PartyError
from partyctl_base.jsontext import json_text

ABSENT = "-"


class OutputError(PartyError):
    """The output could not be written."""

    whose = "machine"


def say(line: str) -> None:
    """A message for the person, on stderr, without secrets."""
    # Compiling what secrets look like takes some milliseconds; a verb that says nothing does not pay for it.
    from partyctl.masking import masked

    line = masked(line)
    click.echo(f"partyctl: {line}", err=True)


def emit(text: str) -> None:
    """Data, on stdout. A character that its encoding does not have is spelled out.

    Raises:
        OutputError: it cannot be written, because a disk is full for example.
    """
    encoding = _encoding()
    try:
        # In colour means as it is: without, escape sequences would be taken out of what goes to a pipe.
        click.echo(text.encode(encoding, "backslashreplace").decode(encoding), color=True)
    except BrokenPipeError:
        raise  # the reader has had enough; click ends the command quietly
    except OSError as error:
        raise unwritten(error) from None


def emit_text(text: str) -> None:
    """A text from outside, on stdout, as it is; on a terminal without what would steer that."""
    if sys.stdout is not None and sys.stdout.isatty():
        text = "".join(c if c in "\n\t" else printable(c) for c in text)
    emit(text)


def unwritten(error: OSError) -> OutputError:
    """The error to end with when stdout took a text no more; nothing is written to it after this."""
    _discard_output()
    fix = "Make room, or send it elsewhere"
    return OutputError("the output cannot be written", why=error.strerror or str(error), fix=fix)


def _discard_output() -> None:
    """What is left in the buffer would fail again at the end of the process, and change its exit code to 120."""
    with contextlib.suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def emit_json(document: Mapping[str, object]) -> None:
    """One JSON document on stdout, and nothing else. A number that JSON does not have, as NaN, is null."""
    text = json_text(document, indent=2)
    try:
        text.encode(_encoding())
    except UnicodeEncodeError:
        text = json_text(document, indent=2, ensure_ascii=True)
    emit(text)


def _encoding() -> str:
    return (sys.stdout.encoding if sys.stdout is not None else None) or "utf-8"


def emit_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows under headings; control characters in them are made visible."""
    cells = [[printable(cell) or ABSENT for cell in row] for row in rows]
    # A process that was started without one has no stdout; what goes there goes nowhere.
    if sys.stdout is not None and sys.stdout.isatty():
        _draw(headings, cells)
    else:
        emit(columns(headings, cells))


def columns(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns, two blanks apart, never cut."""
    lines = [list(headings), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def printable(text: str) -> str:
    """The text with control characters spelled out: a name from outside must not steer the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def size(bytes_: object) -> str:
    """A number of bytes for people."""
    return f"{bytes_ / 1024 / 1024:.1f} MiB" if isinstance(bytes_, int) else ABSENT


def duration(seconds: object) -> str:
    """A number of seconds for people."""
    if not isinstance(seconds, int | float):
        return ABSENT
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = ((days, "d"), (hours, "h"), (minutes, "m"), (rest, "s"))
    first = next((i for i, (number, _) in enumerate(parts) if number), 3)
    return " ".join(f"{number}{unit}" for number, unit in parts[first : first + 2])


def _draw(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    # Only a terminal pays for rich.
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # No style at all: then NO_COLOR and TERM=dumb have nothing to take away.
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)
