"""What `partyctl status` shows: asked of the parts, each with a limit, and measured from outside."""

import asyncio
import os
import re
import time
from datetime import UTC, datetime
from pathlib import Path

from partyctl.host.children import Child
from partyctl.host.tree import Tree
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


async def nodes(tree: Tree) -> list[Map]:
    """The answers of all nodes; a node that does not answer is left out."""
    names = [name for name in tree.living if name.startswith("node/")]
    answers = await asyncio.gather(*(tree.ask(name, "status", limit=ASK_LIMIT) for name in names))
    return [answer | {"name": name} for name, answer in zip(names, answers, strict=True) if answer is not None]


async def document(tree: Tree, party: str, state: str, started: float) -> Map:
    """The status document, schema version 1. Times are RFC 3339 in UTC, durations seconds, memory bytes."""
    answers, hired, broker = await asyncio.gather(
        nodes(tree), tree.ask("launcher", "workers", limit=ASK_LIMIT), tree.ask("broker", "stats", limit=ASK_LIMIT)
    )
    by_name = {str(answer["name"]): answer for answer in answers}
    workers = maps((hired or {}).get("workers"))
    states = {str(w["id"]): w for answer in answers for w in maps(answer.get("workers"))}
    return {
        "schema_version": 1,
        "party": party,
        "pid": os.getpid(),
        "started": datetime.fromtimestamp(started, UTC).isoformat(),
        "uptime": round(time.time() - started, 3),
        "state": state,
        "confinement": "unconfined",
        "broker": _part(tree, "broker", answered=broker is not None),
        "launcher": _part(tree, "launcher", answered=hired is not None),
        "nodes": [
            _part(tree, name, answered=name in by_name) | {"runs": len(maps(by_name.get(name, {}).get("runs")))}
            for name in sorted(tree.living)
            if name.startswith("node/")
        ],
        "workers": [_worker(worker, states.get(str(worker["id"]), {})) for worker in workers],
        "runs": [run | {"node": answer["name"]} for answer in answers for run in maps(answer.get("runs"))],
    }


def _part(tree: Tree, name: str, *, answered: bool) -> Map:
    child: Child | None = tree.living.get(name)
    cause = tree.last_cause.get(name)
    if child is None:
        return {"name": name, "pid": None, "state": "restarting", "memory": None, "restarts": 0, "last_cause": cause}
    state = "starting" if not child.ready.is_set() else "ready" if answered else "not responding"
    return {
        "name": name,
        "pid": child.pid,
        "state": state,
        "memory": memory(child.pid),
        "restarts": child.restarts,
        "last_cause": cause,
    }


def _worker(worker: Map, seen: Map) -> Map:
    labels = worker.get("labels")
    labels = labels if isinstance(labels, dict) else {}
    return {
        "id": worker["id"],
        "name": worker["name"],
        "role": labels.get("role"),
        "run": labels.get("run"),
        "provider": labels.get("provider"),
        "pid": worker["pid"],
        "state": seen.get("state", "starting"),
        "memory": memory(int(str(worker["pid"]))),
        "confinement": worker.get("confinement", "unconfined"),
        "node": worker["client"],
    }
