"""Say something into the turn that runs in an agent session.

TEXT is read from stdin if it is `-`. What becomes of it is told to whoever follows the turn.

Exit codes: 0 it was passed on; 1 there is no such session, no turn runs, or the provider takes no message into one; 3
the party is not running; 4 its host does not answer; 7 party.toml or the state directory cannot be used; 130 or 143
ended by a signal.
"""

from pathlib import Path

import click

from partyctl.cli.asked import json_option, read_stdin, session_argument, show_done, tell
from partyctl.cli.options import party_options


@click.command(help=__doc__)
@session_argument
@click.argument("text")
@json_option
@party_options
def command(session: str, text: str, as_json: bool, file: Path | None, party: str | None) -> int:
    """Steer a turn; see the module's text, which is the manual page."""
    said = read_stdin() if text == "-" else text
    if not said.strip():
        raise click.UsageError("There is nothing to say: TEXT is empty.")
    last = tell(file, party, {"session": session, "do": "steer", "text": said})
    return show_done(last, f"turn {last.get('turn')} of session {session} has the message", as_json=as_json)
