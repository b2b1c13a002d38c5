"""Let the worker of an agent session go, and keep its conversation.

The next `partyctl send` opens the conversation again by its id.

Exit codes: 0; 1 there is no such session, a turn is under way in it, or its provider could not reopen its conversation;
3 the party is not running; 4 its host does not answer; 7 party.toml or the state directory cannot be used; 130 or 143
ended by a signal.
"""

from pathlib import Path

import click

from partyctl.cli.asked import json_option, session_argument, show_done, tell
from partyctl.cli.options import party_options


@click.command(help=__doc__)
@session_argument
@json_option
@party_options
def command(session: str, as_json: bool, file: Path | None, party: str | None) -> int:
    """Release a session; see the module's text, which is the manual page."""
    last = tell(file, party, {"session": session, "do": "release"})
    return show_done(last, f"session {session} has no worker now and keeps its conversation", as_json=as_json)
