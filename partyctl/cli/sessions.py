"""Show the agent sessions of a party, and what was asked in them.

`sessions list` shows them all, `sessions show NAME` one of them, `sessions turns NAME` its turns with their answers:
the last 64, and those without an outcome; `sessions delete NAME` deletes it. It makes no difference whether the party
is up.

States: idle; busy, at a turn; waiting, for the next attempt at one; limited, until when the provider said; degraded, a
turn was lost in flight or answered in a fresh conversation; failed, with the error of the last turn.

Exit codes: 0; 1 there is no such session, or it cannot be read; 7 party.toml or the state directory cannot be used.
"""

import time
from pathlib import Path

import click

from partyctl.cli.asked import SCHEMA_VERSION, given, session_name
from partyctl.cli.options import chosen_party, party_options
from partyctl.cli.output import emit, emit_json, emit_table, printable, say
from partyctl.cli.session_rows import HEADINGS, TURN_HEADINGS, row, turn_row
from partyctl.control import owner
from partyctl.errors import HostError, exit_code, told
from partyctl.maps import Map, maps
from partyctl.masking import masked, masked_value
from partyctl.sessions import About, Shelf, TurnView, document, read_state, standing, turn_view
from partyctl_actors.errors import JournalError


@click.group(help=__doc__)
def command() -> None:
    """Show sessions; see the module's text, which is the manual page."""


@command.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@party_options
def show_all(as_json: bool, file: Path | None, party: str | None) -> int:
    """List the agent sessions. One that cannot be read is named on stderr.

    Exit codes: 0; 1 one cannot be read, the others are listed; 7 party.toml or the state directory cannot be used.
    """
    chosen = chosen_party(file, party)
    looker = Looker(chosen)
    shown: list[Map] = []
    unread: list[JournalError] = []
    for name in looker.shelf.names():
        try:
            about = looker.shelf.load(name)
            shown += [] if about is None else [looker.document(about)]
        except JournalError as error:
            unread.append(error)
    if as_json:
        errors = [told(each) for each in unread]
        listed = {"party": chosen, "sessions": masked_value(shown), "unread": errors}
        emit_json({"schema_version": SCHEMA_VERSION, **listed})
    elif shown:
        emit_table(HEADINGS, [row(each) for each in shown])
    elif not unread:
        say(f'party "{chosen}" has no agent sessions')
    for each in unread:
        say(f"error: {told(each)}")
    return exit_code(unread[0]) if unread else 0


@command.command()
@click.argument("name", callback=session_name)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@party_options
def show(name: str, as_json: bool, file: Path | None, party: str | None) -> int:
    """Show where an agent session stands.

    Exit codes: 0; 1 there is no such session, or it cannot be read; 7 party.toml or the state directory cannot be used.
    """
    looker = Looker(chosen_party(file, party))
    shown = looker.document(looker.shelf.get(name))
    if as_json:
        emit_json({"schema_version": SCHEMA_VERSION, **shown})
        return 0
    counts, last = shown["counts"], shown["last_turn"]
    shown |= {
        "counts": ", ".join(f"{rule} {times}" for rule, times in counts.items()) if isinstance(counts, dict) else ""
    }
    shown |= {"last_turn": f"{last['turn']}, {last['state']}" if isinstance(last, dict) else None}
    width = max(map(len, shown))
    for key, value in shown.items():
        if value not in (None, ""):
            emit(printable(masked(f"{key.ljust(width)}  {value}")))
    return 0


@command.command()
@click.argument("name", callback=session_name)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@party_options
def turns(name: str, as_json: bool, file: Path | None, party: str | None) -> int:
    """Show the turns of an agent session, oldest first.

    Exit codes: 0; 1 there is no such session, or it cannot be read; 7 party.toml or the state directory cannot be used.
    """
    looker = Looker(chosen_party(file, party))
    found = looker.turns(looker.shelf.get(name))
    if as_json:
        emit_json({"schema_version": SCHEMA_VERSION, "session": name, "turns": [each.document() for each in found]})
    elif found:
        emit_table(TURN_HEADINGS, [turn_row(each) for each in found])
    else:
        say(f"session {name} was asked nothing yet")
    return 0


@command.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@party_options
def delete(names: tuple[str, ...], as_json: bool, file: Path | None, party: str | None) -> int:
    """Delete agent sessions with all that was asked and answered in them, and print their names.

    The provider keeps the conversations, as far as it does.

    Exit codes: 0; 1 a session is not there, in a turn or cannot be deleted, and the others are deleted; 4 the party's
    host does not answer; 7 party.toml or the state directory cannot be used; 130 or 143 ended by a signal.
    """
    from partyctl.cli.deleting import delete_each

    chosen = chosen_party(file, party)
    shelf = Shelf.of(chosen)

    def delete_one(name: str) -> None:
        shelf.check(name)
        # A node has it in its hands, or may take it there at any time.
        if owner(chosen) is None:
            shelf.delete(name)
        elif code := given(chosen, {"session": name, "do": "delete"})[0]:
            raise click.exceptions.Exit(code)

    return delete_each(chosen, names, delete_one, as_json=as_json)


class Looker:
    """Tells where sessions stand: what their node says of them, else what their files say.

    Args:
        party: whose.
    """

    def __init__(self, party: str) -> None:
        self.shelf = Shelf.of(party)
        self._is_up, self._live = _live(party)

    def turns(self, about: About) -> list[TurnView]:
        """The turns of a session, oldest first."""
        looked = self.shelf.look(about.name)
        state = read_state(looked)
        under_way = state.turn.turn_id if self._is_up and state is not None and state.turn is not None else None
        return [turn_view(row, under_way) for row in looked.turns]

    def document(self, about: About) -> Map:
        """Where a session stands, as `partyctl status` and --json tell it."""
        state, turns = read_state(self.shelf.look(about.name)), self.turns(about)
        over = [each for each in turns if each.state != "under way"]
        stands = standing(
            state, over[-1] if over else None, at=time.monotonic(), epoch=time.time(), is_held=self._is_up
        )
        said = document(about, state, stands, turns)
        live = self._live.get(about.name)
        return said if live is None else said | {key: live[key] for key in ("state", "why") if key in live}


def _live(party: str) -> tuple[bool, dict[str, Map]]:
    """Whether the party is up, and what its nodes say of the sessions they have; nothing if nobody answers."""
    from partyctl.cli.status import fetch

    try:
        if owner(party) is None:
            return False, {}
        found = maps(fetch(party).get("sessions"))
    except HostError:
        return True, {}
    return True, {str(each.get("session")): each for each in found}
