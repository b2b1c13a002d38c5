"""End the turn that runs in an agent session.

The conversation is kept, no retry is spent. With TURN only that turn is ended: one that is over, and the turn after it,
are left alone.

Exit codes: 0; 1 there is no such session, or no such turn runs; 3 the party is not running; 4 its host does not answer;
7 party.toml or the state directory cannot be used.
"""

from pathlib import Path

import click

from partyctl.cli.asked import session_argument, tell
from partyctl.cli.options import party_options
from partyctl.cli.output import say


@click.command(help=__doc__)
@session_argument
@click.argument("turn", required=False)
@party_options
def command(session: str, turn: str | None, file: Path | None, party: str | None) -> int:
    """Interrupt a turn; see the module's text, which is the manual page."""
    last = tell(file, party, {"session": session, "do": "interrupt", "turn": turn})
    say(f"turn {last.get('turn')} of session {session} is told to end")
    return 0
