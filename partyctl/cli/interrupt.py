"""End the turn that runs in an agent session.

The conversation is kept, no retry is spent. With TURN only that turn is ended: one that is over, and the turn after it,
are left alone.

Exit codes: 0; 1 there is no such session, or no such turn runs; 3 the party is not running; 4 its host does not answer;
7 party.toml or the state directory cannot be used; 130 or 143 ended by a signal.
"""

from pathlib import Path

import click

from partyctl.cli.asked import json_option, session_argument, show_done, tell
from partyctl.cli.options import party_options


@click.command(help=__doc__)
@session_argument
@click.argument("turn", required=False)
@json_option
@party_options
def command(session: str, turn: str | None, as_json: bool, file: Path | None, party: str | None) -> int:
    """Interrupt a turn; see the module's text, which is the manual page."""
    last = tell(file, party, {"session": session, "do": "interrupt", "turn": turn})
    return show_done(last, f"turn {last.get('turn')} of session {session} is told to end", as_json=as_json)
