"""Show what a party is doing.

One table each for the processes, the workers, the runs and the agent sessions that a node has. Memory is proportional:
a page shared by n processes counts as one n-th in each. Workers show their confinement; `unconfined` means that a
worker can do whatever you can.

A party whose host was killed says so, with what of it still runs. One that gave up says so, with what it gave up, how
often that died and how it died last. Both until the next `up`.

--json gives one document with schema_version 1: times in RFC 3339 (UTC), durations in seconds, memory in bytes.

Exit codes: without --check 0 whether the party runs or not. With --check 3 if it is not running, 6 if it is not ready
or a part or worker of it is in trouble. With and without it 4 if its host does not answer, was started by another
version of partyctl, or cannot be looked for.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from partyctl.cli import session_rows
from partyctl.cli.options import chosen_party, party_options
from partyctl.cli.output import duration, emit, emit_json, emit_table, printable, size
from partyctl.control import connect, lost_owner, owner
from partyctl.errors import ExitCode, HostError, NotAnswering, NotRunning, Unknown, VersionSkew, exit_code
from partyctl.logbook import last_give_up
from partyctl.maps import Map, maps
from partyctl.masking import masked_value
from partyctl_base.errors import PartyError
from partyctl_base.paths import runtime_directory

SCHEMA_VERSION = 1

_HEALTHY_PARTS = ("ready", "running")
_TROUBLED_WORKERS = ("failed", "limited", "needs login", "not responding")
_LIMIT = 5.0
"""Seconds for the host to ask all its parts; it gives each of them less."""


@click.command(help=__doc__)
@party_options
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.option("--check", is_flag=True, help="Tell the party's health by the exit code.")
def command(file: Path | None, party: str | None, as_json: bool, check: bool) -> int:
    """Show a party's status; see the module's text, which is the manual page."""
    name = chosen_party(file, party)
    try:
        document = fetch(name)
    except NotRunning as error:
        gave_up, lost = given_up(name), lost_host(name)
        if as_json:
            emit_json(absent(name, "gave up" if gave_up else "not running", None, gave_up, lost))
        else:
            emit(f"party {name}: not running")
            if lost is not None:
                emit(lost_text(lost))
            for each in gave_up:
                emit(f"! it gave up at {_text(each, 'time')}: {_text(each, 'why')}")
        return exit_code(error) if check else 0
    except NotAnswering as error:
        if as_json:
            emit_json(absent(name, "not answering", error.pid))
        raise
    except (Unknown, VersionSkew):
        if as_json:
            emit_json(absent(name, "unknown", None))
        raise
    if as_json:
        emit_json(document)
    else:
        show(document)
    return ExitCode.DEGRADED if check and troubles(document) else 0


def fetch(party: str) -> Map:
    """The status document of the running host.

    Raises:
        NotRunning, NotAnswering: there is no host, or it is silent.
        HostError: its answer is no status.
    """
    with connect(party) as control:
        try:
            reply = control.request({"t": "status"}, _LIMIT)
        except NotAnswering as error:
            if error.condition == "gone" and owner(party) is None:
                raise NotRunning(party) from None
            raise
    # A cause may quote what a provider said; a name or a number never looks like a secret.
    document = masked_value(reply.get("status"))
    if not isinstance(document, dict):
        why = str(reply.get("error", reply.get("t")))
        raise HostError("the host gave no status", why=why, fix="Try again; if it stays so: partyctl down, partyctl up")
    return document


def given_up(party: str) -> list[Map]:
    """Why a party that is not running is not, if it gave up; empty if it did not, or nothing can be known of it."""
    try:
        event = last_give_up(party)
    except PartyError:
        return []
    if event is None:
        return []
    fields = _map(event.get("fields"))
    about: Map = {"time": event.get("time"), "part": fields.get("part", "party"), "why": event.get("cause")}
    return [about | {key: fields.get(key) for key in ("deaths", "period", "last_cause")}]


def lost_host(party: str) -> Map | None:
    """The host that ended without a farewell, and the workers of it that still run; None if it said one."""
    from partyctl_confinement import records

    found = lost_owner(party)
    if found is None:
        return None
    known, _ = records.read_all(runtime_directory(party) / "spawned")
    left = [each.pid for each in known if each.is_alive()]
    return {"pid": found.pid, "started": found.started, "swept": [], "left": left}


def lost_text(lost: Map) -> str:
    """The same for people."""
    left = _text(lost, "left")
    what = f"still running are its workers {left}, which partyctl up ends" if left else "nothing of it is left running"
    return (
        f"! its host (pid {lost['pid']}, since {_text(lost, 'started')}) ended without a farewell: it was killed, or "
        f"the machine went down; {what}. Start it again with: partyctl up"
    )


def absent(party: str, state: str, pid: int | None, gave_up: Sequence[Map] = (), lost: Map | None = None) -> Map:
    """The document of a party that says nothing itself, in the shape of one that does."""
    nothing: Map = {
        "lost": lost,
        "gave_up": list(gave_up),
        "books": {},
        "listen": None,
        "broker": None,
        "launcher": None,
        "nodes": [],
        "workers": [],
        "runs": [],
        "sessions": [],
    }
    about: Map = {"started": None, "uptime": None, "state": state, "confinement": None}
    return {"schema_version": SCHEMA_VERSION, "party": party, "pid": pid} | about | nothing


def troubles(document: Mapping[str, object]) -> list[str]:
    """What keeps the party from being well, a sentence each; empty if nothing does."""
    found = [] if document.get("state") == "ready" else [f"the party is {document.get('state')}"]
    parts = [("broker", document.get("broker")), ("launcher", document.get("launcher"))]
    parts += [(str(node.get("name")), node) for node in maps(document.get("nodes"))]
    for name, part in parts:
        state = part.get("state") if isinstance(part, dict) else "missing"
        if state not in _HEALTHY_PARTS:
            found.append(f"{name} is {state}")
    found += [f"{each.get('part')} is given up: {each.get('why')}" for each in maps(document.get("gave_up"))]
    books = _map(document.get("books"))
    found += [f"{name} are not kept: {trouble}" for name, trouble in books.items() if trouble]
    listen = _map(document.get("listen"))
    if listen and listen.get("state") != "listening":
        cause = listen.get("last_cause")
        found.append(f"the party is not listening at {listen.get('url')}" + (f": {cause}" if cause else ""))
    found.extend(
        f"worker {worker.get('name')} is {worker.get('state')}"
        for worker in maps(document.get("workers"))
        if worker.get("state") in _TROUBLED_WORKERS
    )
    return found


def show(document: Mapping[str, object]) -> None:
    """Print the document for people."""
    emit(
        f"party {_text(document, 'party')}: {_text(document, 'state')}, pid {_text(document, 'pid')}, "
        f"up {duration(document.get('uptime'))}, workers {_text(document, 'confinement')}"
    )
    if listen := _map(document.get("listen")):
        emit(f"{_text(listen, 'state')} at {_text(listen, 'url')}, keys {_text(listen, 'keys')}")
    emit("")
    parts = [(name, _map(document.get(name))) for name in ("broker", "launcher")]
    parts += [(_text(node, "name"), node) for node in maps(document.get("nodes"))]
    emit_table(
        ("PROCESS", "PID", "STATE", "MEMORY", "RESTARTS", "RUNS", "LAST CAUSE"),
        [
            (
                name,
                *_texts(part, "pid", "state"),
                size(part.get("memory")),
                *_texts(part, "restarts", "runs", "last_cause"),
            )
            for name, part in parts
        ],
    )
    _list(
        ("WORKER", "ROLE", "RUN", "SESSION", "PROVIDER", "PID", "STATE", "MEMORY", "CONFINEMENT", "NODE"),
        [
            (
                *_texts(worker, "name", "role", "run", "session", "provider", "pid", "state"),
                size(worker.get("memory")),
                *_texts(worker, "confinement", "node"),
            )
            for worker in maps(document.get("workers"))
        ],
    )
    _list(
        ("RUN", "NODE", "STATE", "WAITING FOR", "ROLES"),
        [_texts(run, "id", "node", "state", "waiting_for", "roles") for run in _runs(document)],
    )
    _list(session_rows.HEADINGS, [session_rows.row(each) for each in maps(document.get("sessions"))])
    for each in maps(_map(document.get("broker")).get("banned")):
        emit(f"! {_text(each, 'name')} was shown out, for {_text(each, 'seconds')} s more: {_text(each, 'why')}")
    for trouble in troubles(document):
        emit(f"! {printable(trouble)}")


def _runs(document: Mapping[str, object]) -> list[Map]:
    return maps(document.get("runs"))


def _list(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    if rows:
        emit("")
        emit_table(headings, rows)


def _map(value: object) -> Map:
    return value if isinstance(value, dict) else {}


def _text(values: Mapping[str, object], key: str) -> str:
    value = values.get(key)
    if isinstance(value, list | tuple):
        return " ".join(str(item) for item in value)
    return "" if value is None else printable(str(value))


def _texts(values: Mapping[str, object], *keys: str) -> tuple[str, ...]:
    return tuple(_text(values, key) for key in keys)
