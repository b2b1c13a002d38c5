"""Let the worker of an agent session go, and keep its conversation.

The next `partyctl send` opens the conversation again by its id.

Exit codes: 0; 1 there is no such session, or a turn is under way in it; 3 the party is not running; 4 its host does not
answer; 7 party.toml or the state directory cannot be used.
"""

from pathlib import Path

import click

from partyctl.cli.asked import session_argument, tell
from partyctl.cli.options import party_options
from partyctl.cli.output import say


@click.command(help=__doc__)
@session_argument
@party_options
def command(session: str, file: Path | None, party: str | None) -> int:
    """Release a session; see the module's text, which is the manual page."""
    tell(file, party, {"session": session, "do": "release"})
    say(f"session {session} has no worker now and keeps its conversation")
    return 0
