"""What `partyctl status` shows: asked of the parts, each with a limit, and measured from outside."""

import asyncio
import os
import re
import time
import types
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from partyctl.host import listening
from partyctl.host.drain import Survey
from partyctl.host.tree import Tree, counted
from partyctl.logbook import timestamp
from partyctl.maps import Map, maps

ASK_LIMIT = 1.0
"""Seconds a part gets to answer before it is shown as not responding."""

_PSS = re.compile(rb"^Pss:\s+(\d+) kB$", re.MULTILINE)


def memory(pid: int) -> int | None:
    """Proportional memory of a process in bytes (shared pages count by share); None if it cannot be read."""
    try:
        found = _PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_bytes())
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None


def _ready_nodes(tree: Tree) -> list[str]:
    return [name for name in tree.node_names if name in tree.living and tree.living[name].ready.is_set()]


async def _answers(tree: Tree) -> dict[str, Map]:
    """What the nodes that are ready answer, by name; a node that does not answer is left out."""
    names = _ready_nodes(tree)
    answers = await asyncio.gather(*(tree.ask(name, "status", limit=ASK_LIMIT) for name in names))
    return {name: answer for name, answer in zip(names, answers, strict=True) if answer is not None}


async def survey(tree: Tree) -> Survey:
    """The runs that go on, and the nodes that do not say."""
    answers = await _answers(tree)
    runs = [_named(run) for answer in answers.values() for run in maps(answer.get("runs"))]
    sessions = [each for answer in answers.values() for each in maps(answer.get("sessions"))]
    silent = tuple(name for name in _ready_nodes(tree) if name not in answers)
    return Survey(
        tuple(runs), silent, tuple(str(each.get("session")) for each in sessions if each.get("state") == "busy")
    )


def _named(run: Map) -> str:
    role = run.get("waiting_for")
    return f"{run.get('id')}, whose turn {role} has" if role else str(run.get("id"))


async def document(
    tree: Tree,
    party: str,
    state: str,
    started: float,
    books: Mapping[str, str] = types.MappingProxyType({}),
    lost: Map | None = None,
) -> Map:
    """The status document, schema version 1. Times are RFC 3339 in UTC, durations seconds, memory bytes.

    Args:
        tree: the parts.
        party, state: the party's name, and what it does.
        started: when, in seconds of the epoch.
        books: of each book why it cannot be written; "" if it can.
        lost: what is told of the host before, if it ended without a farewell.
    """
    answers, hired, broker = await asyncio.gather(
        _answers(tree), tree.ask("launcher", "workers", limit=ASK_LIMIT), tree.ask("broker", "stats", limit=ASK_LIMIT)
    )
    runs = {name: maps(answer.get("runs")) for name, answer in answers.items()}
    states = {str(w.get("id")): w for answer in answers.values() for w in maps(answer.get("workers"))}
    return {
        "schema_version": 1,
        "party": party,
        "pid": os.getpid(),
        "started": datetime.fromtimestamp(started, UTC).isoformat(),
        "uptime": round(time.time() - started, 3),
        "state": state,
        "confinement": "unconfined",
        "lost": lost,
        "gave_up": [_given_up(tree, name) for name in tree.given_up],
        "books": {name: trouble or None for name, trouble in books.items()},
        "listen": listening.document(tree.listening),
        "broker": _part(tree, "broker", answered=broker is not None) | {"banned": maps((broker or {}).get("banned"))},
        "launcher": _part(tree, "launcher", answered=hired is not None),
        "nodes": [
            _part(tree, name, answered=name in answers) | {"runs": len(runs.get(name, ()))} for name in tree.node_names
        ],
        "workers": [
            _worker(worker, states.get(str(worker["id"]), {})) for worker in maps((hired or {}).get("workers"))
        ],
        "runs": [run | {"node": name} for name, found in runs.items() for run in found],
        "sessions": [
            session | {"node": name} for name, answer in answers.items() for session in maps(answer.get("sessions"))
        ],
    }


def _given_up(tree: Tree, name: str) -> Map:
    verdict = tree.given_up[name]
    told: Map = {"time": timestamp(tree.given_up_at[name]), "part": name, "why": verdict.why}
    return told | counted(verdict)


def _part(tree: Tree, name: str, *, answered: bool) -> Map:
    child = tree.living.get(name)
    if name in tree.given_up:
        state = "failed"
    elif child is None:
        state = "restarting"
    elif not child.ready.is_set():
        state = "starting"
    else:
        state = "ready" if answered else "not responding"
    return {
        "name": name,
        "pid": child.pid if child else None,
        "state": state,
        "memory": memory(child.pid) if child else None,
        "restarts": tree.restarts.get(name, 0),
        "last_cause": tree.given_up[name].why if name in tree.given_up else tree.last_cause.get(name),
    }


def _worker(worker: Map, seen: Map) -> Map:
    labels = worker.get("labels")
    labels = labels if isinstance(labels, dict) else {}
    return {
        "id": worker["id"],
        "name": worker["name"],
        "role": labels.get("role"),
        "run": labels.get("run"),
        "session": None if labels.get("run") else labels.get("session"),  # in a run it is what its role is found by
        "provider": labels.get("provider"),
        "pid": worker["pid"],
        "state": seen.get("state", "starting"),
        "memory": memory(int(str(worker["pid"]))),
        "confinement": worker.get("confinement", "unconfined"),
        "node": worker["client"],
    }
