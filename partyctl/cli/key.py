"""Let peers beyond this machine in, or out.

A peer beyond this machine proves itself by a CURVE key, comes in where party.toml says to listen ([listen], off by
default), and may claim only the addresses that its key allows. `key add` lets one in, `key list` shows who is, `key
revoke` ends it. A party that is up follows at once.

Exit codes: 0; 4 the host of the party does not answer; 7 the key, the file or a directory cannot be used.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path

import click

from partyctl.cli.options import chosen_party, party_options
from partyctl.cli.output import OutputError, emit, emit_json, emit_table, printable, say
from partyctl.config import load
from partyctl.control import Reply, connect, owner
from partyctl.errors import HostError, NotAnswering, NotRunning
from partyctl.keys import Keys, default_claims, principal
from partyctl.maps import Map, texts
from partyctl_base.errors import PartyError
from partyctl_broker.endpoint import Target
from partyctl_broker.keys import KeyPair, decode_z85

SCHEMA_VERSION = 1

_LIMIT = 15.0
"""Seconds for the host to have the broker confirm; it gives the broker less."""

_SHOWN = ("name", "principal", "claims", "public", "secret", "broker", "url", "endpoint")


@click.group(help=__doc__)
def command() -> None:
    """Keep the keys; see the module's text, which is the manual page."""


@command.command()
@click.argument("name")
@click.option(
    "--claim", "claims", metavar="PATTERN", multiple=True, help="An address, or a prefix ending in /*. May be repeated."
)
@click.option("--public", metavar="KEY", default="", help="The peer's own public key, 40 characters of Z85.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@party_options
def add(name: str, claims: tuple[str, ...], public: str, as_json: bool, file: Path | None, party: str | None) -> int:
    """Let a peer in, and print what it needs to connect.

    The secret key is printed this once and kept nowhere. With --public the peer has made its pair itself, and no secret
    is printed. Without --claim the peer may claim desk/NAME and session/NAME, and nothing else; addresses begin with
    desk/, session/ or run/.

    Exit codes: 0; 4 the key is kept, and the host does not answer; 7 the key, a claim or the file is refused.
    """
    config = load(file)
    chosen = party or config.name
    keys = Keys(chosen)
    broker = keys.broker().public
    pair = keys.add(name, claims or default_claims(name), public)
    told, failure = None, None
    try:
        told = _tell(chosen, keys, name, known=True)
    except PartyError as error:
        failure = error
    url = config.listen.url if config.listen and not config.listen.url.endswith(":0") else None
    if told is not None:
        url = str(told["url"]) if told.get("is_open") else None
    try:
        _show(_document(chosen, name, pair, claims or default_claims(name), broker, url), as_json)
    except (OutputError, BrokenPipeError):
        # Nobody has the secret, so nobody can use the key.
        if pair.secret:
            keys.revoke(name)
            with contextlib.suppress(PartyError):
                _tell(chosen, keys, name, known=False)
        raise
    if failure is not None:
        raise failure
    if pair.secret:
        say("the secret is shown this once and kept nowhere")
    if url is None:
        say(_advice(chosen, told, wanted=config.listen is not None))
    elif url.startswith("tcp://0.0.0.0:"):
        say("in the endpoint, put an address of this machine in the place of the one that stands for all")
    return 0


@command.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@party_options
def show(as_json: bool, file: Path | None, party: str | None) -> int:
    """Show who is let in: names, public keys and claims.

    Exit codes: 0; 7 the file or the directory of the keys cannot be used.
    """
    chosen = chosen_party(file, party)
    known = Keys(chosen).known().values()
    if as_json:
        rows = [{"name": key.name, "public": key.public, "claims": list(key.claims)} for key in known]
        emit_json({"schema_version": SCHEMA_VERSION, "party": chosen, "keys": rows})
    elif known:
        emit_table(("NAME", "PUBLIC KEY", "CLAIMS"), [(key.name, key.public, " ".join(key.claims)) for key in known])
    else:
        say(f'party "{chosen}" has no keys')
    return 0


@command.command()
@click.argument("name")
@party_options
def revoke(name: str, file: Path | None, party: str | None) -> int:
    """Let a peer in no more, and end its connection.

    Exit codes: 0 revoked, and a party that is up has forgotten it; 4 the key is removed, and the host does not answer;
    7 there is no such key.
    """
    chosen = chosen_party(file, party)
    keys = Keys(chosen)
    missing = None
    try:
        keys.revoke(name)
    except PartyError as error:
        # Somebody may have removed its file by hand; a party that is up still knows it then.
        missing = error
    told = _tell(chosen, keys, name, known=False)
    if missing is not None:
        raise missing
    say(f'key "{printable(name)}" is revoked' + ("" if told is None else ", and the running party has forgotten it"))
    return 0


def _tell(party: str, keys: Keys, name: str, *, known: bool) -> Reply | None:
    """Have the running host follow; what it says. None if there is no host.

    Raises:
        NotAnswering: it is silent.
        HostError: it does not follow.
    """
    what = f'the running party has not {"taken" if known else "forgotten"} the key "{printable(name)}"'
    try:
        with connect(party) as control:
            told = control.request({"t": "keys", "revoked": "" if known else name}, _LIMIT)
    except NotRunning:
        return None
    except NotAnswering as error:
        if error.condition == "gone" and owner(party) is None:
            return None
        raise
    if told.get("t") != "keys":
        raise HostError(what, why=str(told.get("error", told.get("t"))))
    if told.get("names") is not None and (name in texts(told["names"])) is not known:
        why = f"its keys are in {told.get('directory')}, these in {keys.directory}"
        raise HostError(what, why=why, fix="Set XDG_STATE_HOME as it was when the party was started")
    return told


def _document(party: str, name: str, pair: KeyPair, claims: tuple[str, ...], broker: str, url: str | None) -> Map:
    return {
        "schema_version": SCHEMA_VERSION,
        "party": party,
        "name": name,
        "principal": principal(name),
        "claims": list(claims),
        "public": pair.public,
        "secret": pair.secret or None,
        "broker": broker,
        "url": url,
        "endpoint": Target.write(url, decode_z85(broker)) if url else None,
    }


def _show(document: Mapping[str, object], as_json: bool) -> None:
    if as_json:
        emit_json(document)
        return
    lines = []
    for key in _SHOWN:
        value = document[key]
        if value is not None:
            lines.append(f"{key:11}{' '.join(value) if isinstance(value, list) else value}")
    emit("\n".join(lines))


def _advice(party: str, told: Reply | None, *, wanted: bool) -> str:
    """Where the peer is to come in, when that is nowhere."""
    if not wanted:
        return f'party "{party}" does not listen: give party.toml a table [listen] with a url, and start the party'
    if told is None:
        return f'party "{party}" gets its port when it starts; partyctl status shows it then'
    if told.get("url") is None:
        return f'party "{party}" does not listen: it was started without [listen]. Start it again'
    return f'party "{party}" does not listen at the moment; partyctl status shows why'
