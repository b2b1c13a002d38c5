"""What the launcher answers and tells, as msgpack maps with the kind under "t". Pure; see `requests` for the rest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgpack

from partyctl_confinement.endings import NOTHING_HIT, Hit
from partyctl_confinement.policy import UNCONFINED
from partyctl_confinement.requests import BadRequest


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One living worker, as the host sees it.

    Attributes:
        started: seconds since the epoch.
        client: the name of the client it works for.
    """

    id: str
    name: str
    pid: int
    client: str
    started: float
    labels: Mapping[str, str]


def ready(pid: int) -> bytes:
    """The launcher is up."""
    return _pack({"t": "ready", "pid": pid})


def failed(why: str) -> bytes:
    """The launcher cannot come up."""
    return _pack({"t": "failed", "why": why})


def workers(rows: Sequence[WorkerRow]) -> bytes:
    """The answer to `ListWorkers`."""
    listed = [
        {
            "id": row.id,
            "name": row.name,
            "pid": row.pid,
            "client": row.client,
            "started": row.started,
            "labels": dict(row.labels),
        }
        for row in rows
    ]
    return _pack({"t": "workers", "workers": listed})


def spawned(worker_id: str, pid: int) -> bytes:
    """The worker runs; the client's end of its pair rides on this message."""
    return _pack({"t": "spawned", "id": worker_id, "pid": pid, "confinement": UNCONFINED})


def attached(request_id: str, worker_id: str, pid: int) -> bytes:
    """The worker is the client's; its end of the pair rides on this message."""
    about = {"t": "attached", "request": request_id, "id": worker_id, "pid": pid}
    return _pack({**about, "confinement": UNCONFINED})


def unknown(request_id: str) -> bytes:
    """There is no worker of the session that was asked for."""
    return _pack({"t": "unknown", "id": request_id})


def taken(worker_id: str) -> bytes:
    """The worker is another client's now."""
    return _pack({"t": "taken", "id": worker_id})


def refused(bad: BadRequest) -> bytes:
    """Nothing was done."""
    return _pack({"t": "refused", "id": bad.id, "request": bad.request, "why": bad.why})


def exited(worker_id: str, pid: int, wait_status: int, stderr: bytes, cause: str, hit: Hit = NOTHING_HIT) -> bytes:
    """The worker and its whole tree are gone.

    Args:
        worker_id: whose death it is.
        pid: the worker's.
        wait_status: as `os.waitpid` gives it.
        stderr: the last of what it printed.
        cause: why it died; see `client.ExitNotice`.
        hit: the limit that ended it.
    """
    about = {"t": "exited", "id": worker_id, "pid": pid}
    return _pack({**about, **_ending(wait_status, hit), "stderr": stderr, "cause": cause})


def died(
    worker_id: str, name: str, labels: Mapping[str, str], pid: int, wait_status: int, hit: Hit = NOTHING_HIT
) -> bytes:
    """A worker has ended badly, and nobody here wanted it; see `exited`."""
    about = {"t": "died", "id": worker_id, "name": name, "labels": dict(labels), "pid": pid}
    return _pack({**about, **_ending(wait_status, hit)})


def _ending(wait_status: int, hit: Hit) -> Mapping[str, object]:
    status = wait_status >> 8 & 0xFF if wait_status & 0x7F == 0 else None
    told = {"status": status, "signal": wait_status & 0x7F or None}
    return {**told, "limit": hit.limit or None, "evidence": hit.evidence}


def output(worker_id: str, name: str, labels: Mapping[str, str], data: bytes) -> bytes:
    """A piece of what a worker printed."""
    return _pack({"t": "output", "id": worker_id, "name": name, "labels": dict(labels), "data": data})


def dropped(worker_id: str, size: int) -> bytes:
    """So many bytes of what a worker printed were not forwarded; the id is empty if several workers share the count."""
    return _pack({"t": "dropped", "id": worker_id, "bytes": size})


def _pack(message: Mapping[str, object]) -> bytes:
    packed: bytes = msgpack.packb(message)
    return packed
