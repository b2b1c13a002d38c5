"""Have an agent session go on, because a person says so.

What was spent on retries is forgiven, and a wait for the next attempt ends. A turn that was lost in flight is named and
not run again: nobody knows what it has done. --again TURN asks it anew, as a turn of its own, and prints the answer as
`partyctl send` does.

Exit codes: 0; 1 there is no such session or turn, or the turn failed; 3 the party is not running; 4 its host does not
answer; 7 party.toml or the state directory cannot be used; 130 or 143 ended by a signal.
"""

from pathlib import Path

import click

from partyctl.cli.asked import SCHEMA_VERSION, given, session_argument, show_answer
from partyctl.cli.options import chosen_party, party_options
from partyctl.cli.output import emit_json, say
from partyctl.maps import Map, texts
from partyctl.sessions import Shelf


@click.command(help=__doc__)
@session_argument
@click.option("--again", metavar="TURN", help="Ask this turn anew, whose answer nobody knows.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@party_options
def command(session: str, again: str | None, as_json: bool, file: Path | None, party: str | None) -> int:
    """Resume a session; see the module's text, which is the manual page."""
    chosen = chosen_party(file, party)
    Shelf.of(chosen).get(session)
    order: Map = {"session": session, "do": "resume"}
    if again is not None:
        order |= {"do": "again", "turn": again}
    code, last = given(chosen, order)
    if code or again is not None:
        return code or show_answer(last, as_json=as_json)
    lost = texts(last.get("lost"))
    if as_json:
        emit_json({"schema_version": SCHEMA_VERSION, "session": session, "state": last.get("state"), "lost": lost})
    else:
        say(f"session {session} goes on, with nothing spent: {last.get('state')}")
        for turn in lost:
            say(f"turn {turn} was lost in flight, its outcome is unknown; ask it anew with: "
                f"partyctl resume {session} --again {turn}")  # fmt: skip
    return 0
