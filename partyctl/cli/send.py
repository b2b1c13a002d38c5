"""Ask an agent in a conversation that goes on, and print its answer.

SESSION names the conversation. The first `send` begins it with the settings of a role in party.toml, the only one
with a provider unless --role names one; every other one continues it, whatever became of its worker, its node or the
party in between, with the settings it began with. PROMPT is read from stdin if it is `-` or left out.

The answer goes to stdout, what happens meanwhile to stderr. --detach prints the turn's id once the turn is durable,
and returns; its answer is shown by `partyctl sessions turns`. Without it Ctrl-C and SIGTERM interrupt the turn; a
`send` that ends otherwise leaves it alone.

Exit codes: 0; 1 the turn failed or was interrupted, or another one is under way; 2 there is no prompt; 3 the party is
not running; 4 its host does not answer; 7 party.toml or the role is refused; 130 or 143 ended by a signal.
"""

from pathlib import Path

import click

from partyctl.cli.asked import given, read_stdin, session_argument, show_answer
from partyctl.cli.options import Seconds, chosen_party, party_options
from partyctl.cli.output import say
from partyctl.config import check_enforceable, load
from partyctl.errors import ConfigError
from partyctl.maps import Map
from partyctl.sessions import About, Shelf


@click.command(help=__doc__)
@session_argument
@click.argument("prompt", required=False)
@click.option("--role", metavar="ROLE", help="The role of party.toml with whose settings the session begins.")
@click.option(
    "--timeout",
    type=Seconds(above_zero=True),
    help="Seconds within which the turn must be over, with all its retries.",
)
@click.option(
    "--idle-timeout",
    type=Seconds(above_zero=True),
    help="Seconds for which the agent may tell nothing while it uses no tool.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.option("--detach", is_flag=True, help="Print the turn's id and return.")
@party_options
def command(
    session: str,
    prompt: str | None,
    role: str | None,
    timeout: float | None,
    idle_timeout: float | None,
    as_json: bool,
    detach: bool,
    file: Path | None,
    party: str | None,
) -> int:
    """Ask an agent; see the module's text, which is the manual page."""
    chosen = chosen_party(file, party)
    order: Map = {"session": session, "do": "send", "timeout": timeout, "idle_timeout": idle_timeout, "detach": detach}
    order |= begins_with(chosen, session, role, file)
    order["prompt"] = _prompt(prompt)
    code, last = given(chosen, order)
    return code or show_answer(last, as_json=as_json)


def begins_with(party: str, session: str, role: str | None, file: Path | None) -> Map:
    """With which settings a session begins; nothing for one that has begun.

    Raises:
        ConfigError: the role is a person's, there is none of this name, or it is not clear which.
    """
    shelf = Shelf.of(party)
    about = shelf.load(session)
    if about is not None:
        if role not in (None, about.role):
            raise ConfigError(
                f"session {session!r} began with role {about.role}, not with {role}",
                fix="Leave --role out, or give the session another name",
            )
        state = shelf.look(session).state
        if state is not None and (state.get("conversation_id") or state.get("last_turn_conversation_id")):
            _note_changes(party, about, file)
            return {}
        role = about.role
    from partyctl.casting import agent_of, describe_agent, role_for_session

    config = load(file)
    check_enforceable(config)
    chosen = role_for_session(config, role)
    described = describe_agent(agent_of(chosen, config))
    return {"role": chosen.name, "agent": described, "idle_release_after": chosen.idle_release_after}


def _note_changes(party: str, about: About, file: Path | None) -> None:
    """Say it if the role of a session has other settings now than when the session began."""
    from partyctl.casting import agent_of, describe_agent

    try:
        config = load(file)
        role = config.roles.get(about.role)
        changed = role is None or role.provider is None or describe_agent(agent_of(role, config)) != about.agent
    except ConfigError:
        return  # a session that has begun needs no configuration
    if config.name == party and changed:
        say(
            f"session {about.name} keeps the settings that it began with, and role {about.role} has others now. "
            f"Another name begins a session with them, and so does this one after partyctl sessions delete {about.name}"
        )


def _prompt(given: str | None) -> str:
    text = read_stdin() if given is None or given == "-" else given
    if not text.strip():
        raise click.UsageError("There is nothing to ask: PROMPT is empty.")
    return text
