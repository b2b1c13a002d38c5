"""What the verbs that speak to an agent session have in common."""

import json
import sys
from pathlib import Path

import click

from partyctl.cli.options import chosen_party
from partyctl.cli.output import emit, emit_json, emit_text, printable, say
from partyctl.cli.stopping import until_signalled
from partyctl.control import connect
from partyctl.errors import ExitCode, RunFailed
from partyctl.maps import Map
from partyctl.sessions import NAME_RULE, Shelf, is_session_name, turn_view

SCHEMA_VERSION = 1


def session_name(_context: click.Context, _parameter: click.Parameter, name: str) -> str:
    """A name that a session can have."""
    if not is_session_name(name):
        raise click.BadParameter(f"{name!r} cannot name an agent session. {NAME_RULE}.")
    return name


session_argument = click.argument("session", callback=session_name)
"""The argument SESSION, of a verb that begins none as of one that does."""


def tell(file: Path | None, party: str | None, order: Map) -> Map:
    """Give an order about a session that there is, and return the last word.

    Raises:
        click.exceptions.Exit: a signal ended it first; with its code.
        NoSuchSession: there is none of this name; says which is nearest.
        NotRunning: the party is not up.
    """
    chosen = chosen_party(file, party)
    Shelf.of(chosen).get(str(order["session"]))
    code, last = given(chosen, order)
    if code:
        raise click.exceptions.Exit(code)
    return last


def show_done(last: Map, sentence: str, *, as_json: bool) -> int:
    """What became of an order that has no answer: a sentence for a person, or the document; the exit code."""
    if as_json:
        told = {key: value for key, value in last.items() if key not in ("event", "do")}
        emit_json({"schema_version": SCHEMA_VERSION, **told})
    else:
        say(sentence)
    return 0


json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
"""The option --json, as the argument `as_json`."""


def read_stdin() -> str:
    """What stdin has; nothing in a process that was started without one."""
    return "" if sys.stdin is None else sys.stdin.read()


def given(party: str, order: Map) -> tuple[int, Map]:
    """Give an order; the exit code and the last word. A code other than 0 means that it was ended by a signal."""
    from partyctl.asking import ask

    last: Map = {}

    async def asked() -> int:
        last.update(await ask(control, order, show_meanwhile))
        return 0

    with connect(party) as control:
        code = until_signalled(asked())
    return code, _whole(party, last)


def _whole(party: str, last: Map) -> Map:
    """The last word with what no letter could carry: a turn that is over has it in its log.

    Raises:
        RunFailed: it is not recorded, or deleted meanwhile.
    """
    if not last.get("shortened") or last.get("event") != "ended":
        return last
    session, turn = str(last["session"]), str(last["turn"])
    view = next((each for each in Shelf.of(party).look(session).turns if each.turn_id == turn), None)
    if view is None or view.outcome is None:
        what = f"the answer of turn {turn} is too long for a letter, and is not recorded"
        raise RunFailed(f"{what}. See partyctl sessions turns {session}, and ask for a shorter one", ExitCode.FAILED)
    kept = {key: value for key, value in last.items() if key != "shortened"}
    return {**kept, **turn_view(view, None).document()}


def show_meanwhile(event: Map) -> None:
    """What happens while a turn runs, on stderr."""
    kind = event.get("event")
    if kind == "turn":
        where = event.get("conversation")
        say(f"turn {event['turn']} began" + (f" in conversation {where}" if where else ""))
    elif kind == "decided":
        say(decided_line(event))
    elif kind == "gone":
        say(f"the {event['node']} is gone ({printable(str(event['why']))}); the turn is looked for at the next")
    elif kind == "unrecorded":
        say(f"what comes of turn {event['turn']} is not recorded, and would be lost with its node: "
            f"{printable(str(event['why']))}")  # fmt: skip
    elif kind == "said" and isinstance(said := event.get("said"), dict):
        line = said_line(said)
        if line:
            say(printable(line))


def decided_line(event: Map) -> str:
    """A decision of the recovery rules, for a person."""
    cause = printable((str(event.get("cause") or "").splitlines() or [""])[0])
    wait = event.get("wait")
    then = f"; next attempt in {wait:g} s" if isinstance(wait, int | float) else ""
    return f"{event.get('rule')}" + (f": {cause}" if cause else "") + then


def said_line(said: Map) -> str:
    """An event of a provider, for a person; empty for what the answer says as well, and for what says nothing."""
    kind = said.get("type")
    if kind == "ToolCall":
        return f"uses {said.get('tool')} {json.dumps(said.get('args') or {}, ensure_ascii=False)}"
    if kind == "ToolResult":
        code = said.get("exit_code")
        return f"{said.get('tool')} came back" + (f" with status {code}" if code else "")
    if kind in ("ProviderError", "Stderr"):
        return str(said.get("message") or said.get("text") or "")
    if kind == "ApprovalDenied":
        return f"was denied {said.get('kind')} {said.get('detail') or ''}".rstrip()
    if kind == "EventsDropped":
        return f"{said.get('count')} things that happened meanwhile are not known"
    if kind in ("SteerDelivered", "SteerConsumed", "SteerRejected"):
        return f"message {str(kind).removeprefix('Steer').lower()}: {said.get('text')}"
    return ""


def show_answer(last: Map, *, as_json: bool) -> int:
    """The last word of a turn: the answer on stdout; the exit code."""
    if as_json:
        told = {key: value for key, value in last.items() if key not in ("event", "prompt")}
        emit_json({"schema_version": SCHEMA_VERSION, **told})
    elif last.get("state") == "under way":
        emit(str(last["turn"]))
    elif last.get("answer"):
        emit_text(str(last["answer"]))
    if last.get("state") == "interrupted":
        say("the turn was interrupted")
        return 1
    return 0
