"""Run the session in a Python file and print its transcript as it happens."""

import json
from collections.abc import Callable
from pathlib import Path

import click

from partyctl.cli.options import chosen_party, party_options
from partyctl.cli.output import emit, printable, say
from partyctl.cli.stopping import until_signalled as until_signalled
from partyctl.config import PartyConfig, check_enforceable, load
from partyctl.control import connect
from partyctl.errors import NotRunning
from partyctl.maps import Map
from partyctl_base.jsontext import json_text

# What some readers take for the end of a line; in JSON it stands in texts alone.
_ONE_LINE = str.maketrans({char: f"\\u{ord(char):04x}" for char in "\x85\u2028\u2029"})

Show = Callable[[Map], None]


@click.command("run")
@click.argument("target", metavar="FILE[:NAME]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line instead of text.")
@party_options
def command(target: str, as_json: bool, file: Path | None, party: str | None) -> int:
    """Run the session in a Python file and print its transcript as it happens.

    FILE holds a Session at its top level, or a Protocol, whose roles party.toml casts by name. With several of them,
    say which: FILE:NAME. If the party is up, its nodes run the session; otherwise this process does, with a private
    host for the workers it needs. Every decision is recorded before it is delivered: a run that ended early goes on
    with partyctl runs resume.

    Ctrl-C, or SIGTERM, cancels the run; a second one ends it at once, and so do some seconds in which code of the run
    lets nothing end: then it is named. Exit codes: 0 it ran to its end; 1 it failed; 4 the party's host does not
    answer, or is of another version; 7 the file, party.toml, the protocol or the confinement is refused; 130 or 143 it
    was cancelled.
    """
    from partyctl.program import split_target

    path, name = split_target(target)
    config = load(file)
    check_enforceable(config)
    return run_or_resume(path, name, config, show_json if as_json else show_text, chosen_party(file, party))


def run_or_resume(path: Path, name: str | None, config: PartyConfig, show: Show, party: str, resumed: str = "") -> int:
    """Run the file's session by the nodes of the party, if it is up, or else in this process; the exit code.

    Args:
        path, name, config, show, party, resumed: as for `partyctl.running.run_here`.
    """
    from partyctl.tracebacks import forget

    def shown(event: Map) -> None:
        if event["event"] == "started":
            forget(party, str(event["run"]))
        show(event)

    # Only this call may tell that there is no host: an error of the run itself must never start it a second time.
    try:
        control = connect(party)
    except NotRunning:
        control = None
    # Outside of the except, or whatever goes wrong in the run would be told as a consequence of that.
    if control is None:
        from partyctl.running import run_here

        return until_signalled(run_here(path, name, config, shown, party, resumed))
    from partyctl.running import run_there

    with control:
        return until_signalled(run_there(control, path, name, config, shown, resumed))


def show_json(event: Map) -> None:
    """One event as one line of JSON."""
    emit(json_text({"schema_version": 1, **event}).translate(_ONE_LINE))


def show_text(event: Map) -> None:
    """One event for a person: what was said on stdout, everything else on stderr."""
    kind = event["event"]
    if kind == "delivered":
        payload = event["payload"]
        assert isinstance(payload, dict)
        fields = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in payload.items())
        emit(printable(f"{event['sender']} -> {event['receiver']}: {event['label']}({fields})"))
    elif kind == "started":
        say(f"run {event['run']} began {event['place']}")
    elif kind == "worker":
        say(f"{event['role']} is played by {event['provider']} in worker {event['pid']}, {event['confinement']}")
    elif kind == "decided":
        from partyctl.cli.asked import decided_line

        say(f"{event['role']}: {decided_line(event)}")
    elif kind == "asked":
        say(
            f"{event['role']} is asked at a {event['at']}, and the run waits for it: answer from the program in the "
            "file, or cast Human(Terminal()) to be asked here"
        )
    elif kind == "gone":
        say(f"the {event['node']} is gone ({printable(str(event['why']))}); the run goes on at the next")
    elif kind == "ended":
        say(f"run {event['run']} ended after {event['messages']} messages")
