"""Check or show the configuration that counts.

`config check` reads the file as `partyctl up` would, and lists everything that is wrong with it. `config show` tells
which file won, and what it says.

Exit codes: 0; 7 the file cannot be used.
"""

from pathlib import Path

import click

from partyctl.cli.output import emit, emit_json, say
from partyctl.config import candidates, faults, find, load, values
from partyctl.errors import ConfigError, ExitCode
from partyctl.maps import Map
from partyctl_base.errors import PartyError

SCHEMA_VERSION = 1


@click.group(help=__doc__)
def command() -> None:
    """Check or show the configuration; see the module's text, which is the manual page."""


@command.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def check(file: Path | None, as_json: bool) -> int:
    """Check a party.toml: every mistake with its file, its line and the nearest right name.

    FILE is the file to check; without it, the one that `partyctl up` would use here. Nothing is started. --json gives
    one document: schema_version, file, ok, and of each error message, file, line, column, key and fix.

    Exit codes: 0 `partyctl up` would take it; 7 it would not.
    """
    source = find(file)
    found = faults(file)
    if as_json:
        errors = [_error(error) for error in found]
        emit_json({"schema_version": SCHEMA_VERSION, "file": _absolute(source), "ok": not found, "errors": errors})
    elif found:
        for error in found:
            say(f"error: {error}")
    else:
        emit(f"ok: {_absolute(source)}" if source else "ok: there is no file, everything has its default")
    return ExitCode.REFUSED if found else ExitCode.OK


@command.command()
@click.option("-f", "--file", type=click.Path(path_type=Path), help="The party.toml to use.")
@click.option("--resolved", is_flag=True, help="Every setting, with the defaults filled in.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def show(file: Path | None, resolved: bool, as_json: bool) -> int:
    """Show which file counts, and what it says.

    The text is TOML, and what cannot be said in it stands in comments. Secrets are masked. --json gives one document:
    schema_version, file, chosen_by, searched, resolved and config.

    Exit codes: 0; 7 the file cannot be read, or, with --resolved, says what it may not.
    """
    from partyctl import config_text
    from partyctl.masking import masked_value

    source = find(file)
    if resolved:
        config: object = masked_value(config_text.resolved(load(file)))
    else:
        config = masked_value(values(source)) if source else {}
    assert isinstance(config, dict)
    searched = [{"by": who, "file": str(path.absolute()), "found": path.exists()} for who, path in candidates(file)]
    chosen = next((place["by"] for place in searched if place["file"] == _absolute(source)), None)
    if as_json:
        document: Map = {"schema_version": SCHEMA_VERSION, "file": _absolute(source), "chosen_by": chosen}
        emit_json(document | {"searched": searched, "resolved": resolved, "config": config})
        return ExitCode.OK
    emit(f"# {_absolute(source)}, by {chosen}" if source else "# no file, everything has its default")
    for place in searched:
        if place["by"] != chosen:
            emit(f"# {'not used' if place['found'] else 'not there'}: {place['file']}, by {place['by']}")
    if text := config_text.toml(config):
        emit(text)
    return ExitCode.OK


def _absolute(source: Path | None) -> str | None:
    return str(source.absolute()) if source else None


def _error(error: PartyError) -> Map:
    told: Map = {
        "message": str(error),
        "file": None,
        "line": None,
        "column": None,
        "key": None,
        "fix": error.fix or None,
    }
    if isinstance(error, ConfigError):
        file = str(error.file) if error.file else None
        told |= {"file": file, "line": error.line, "column": error.column, "key": error.key or None}
    return told
