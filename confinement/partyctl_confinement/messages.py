"""What the launcher is asked and what it answers, as msgpack maps with the kind under "t". Pure.

A client may be hostile: whatever it sends becomes one of the dataclasses below or a `BadRequest`, never an error.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgpack

from partyctl_confinement.policy import UNCONFINED

REQUEST_MAX: Final = 32 * 1024
"""Bytes of one request of a client."""

ID_MAX: Final = 128
NAME_MAX: Final = 128
LABELS_MAX: Final = 32
LABEL_MAX: Final = 256
"""Characters of a worker's id, of its name, of one label; and the number of labels."""

_MAIN: Final = re.compile(r"[A-Za-z_][\w.]{0,199}:[A-Za-z_]\w{0,99}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Spawn:
    """A client wants a worker."""

    id: str
    name: str
    main: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Kill:
    """A client wants one of its workers gone, with its whole tree."""

    id: str


@dataclass(frozen=True, slots=True)
class NewClient:
    """The host hands over the descriptor of a new client."""

    name: str


@dataclass(frozen=True, slots=True)
class ListWorkers:
    """The host asks who is alive."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The host wants everything swept and the launcher gone."""


@dataclass(frozen=True, slots=True)
class BadRequest:
    """What was received is no request. `id` is the worker id it named, if it named one."""

    why: str
    id: str = ""
    request: str = ""


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


def parse_client(data: bytes) -> Spawn | Kill | BadRequest:
    """One message from a client."""
    request = _map(data)
    if isinstance(request, BadRequest):
        return request
    kind, worker_id = request.get("t"), request.get("id")
    if kind not in ("spawn", "kill"):
        return BadRequest("it is neither spawn nor kill")
    if not _text(worker_id, ID_MAX):
        return BadRequest(f"its id is no text of 1 to {ID_MAX} characters", request=str(kind))
    if kind == "kill":
        return Kill(str(worker_id))
    spawn = Spawn(
        str(worker_id), _as_text(request, "name"), _as_text(request, "main"), _labels(request.get("labels", {}))
    )
    why = _fault(spawn)
    return BadRequest(why, spawn.id, "spawn") if why else spawn


def parse_host(data: bytes) -> NewClient | ListWorkers | Stop | BadRequest:
    """One message from the host."""
    request = _map(data)
    if isinstance(request, BadRequest):
        return request
    kind = request.get("t")
    if kind == "client":
        name = _as_text(request, "name")
        return NewClient(name) if _text(name, NAME_MAX) else BadRequest("its name is no text", request="client")
    if kind == "workers":
        return ListWorkers()
    return Stop() if kind == "stop" else BadRequest("it is neither client, workers nor stop")


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


def refused(bad: BadRequest) -> bytes:
    """Nothing was done."""
    return _pack({"t": "refused", "id": bad.id, "request": bad.request, "why": bad.why})


def exited(worker_id: str, pid: int, wait_status: int, stderr: bytes, cause: str) -> bytes:
    """The worker and its whole tree are gone.

    Args:
        worker_id: whose death it is.
        pid: the worker's.
        wait_status: as `os.waitpid` gives it.
        stderr: the last of what it printed.
        cause: why it died; see `client.ExitNotice`.
    """
    status = wait_status >> 8 & 0xFF if wait_status & 0x7F == 0 else None
    signal = wait_status & 0x7F or None
    notice = {"t": "exited", "id": worker_id, "pid": pid, "status": status, "signal": signal}
    return _pack({**notice, "stderr": stderr, "cause": cause})


def _pack(message: Mapping[str, object]) -> bytes:
    packed: bytes = msgpack.packb(message)
    return packed


def _map(data: bytes) -> "dict[object, object] | BadRequest":
    try:
        request = msgpack.unpackb(data)
    except Exception:  # whatever a hostile byte string makes of the decoder, it is no request
        return BadRequest("it is not msgpack")
    return request if isinstance(request, dict) else BadRequest("it is no map")


def _text(value: object, longest: int) -> bool:
    return isinstance(value, str) and 0 < len(value) <= longest and value.isprintable()


def _as_text(request: "dict[object, object]", key: str) -> str:
    value = request.get(key)
    return value if isinstance(value, str) else ""


def _labels(value: object) -> "dict[str, str]":
    if not isinstance(value, dict) or len(value) > LABELS_MAX:
        return {"": ""}  # refused by _fault, as a label without a name
    return {key if isinstance(key, str) else "": text if isinstance(text, str) else "\0" for key, text in value.items()}


def _fault(spawn: Spawn) -> str:
    if not _text(spawn.name, NAME_MAX):
        return f"its name is no text of 1 to {NAME_MAX} characters"
    if not _MAIN.fullmatch(spawn.main):
        return "its main is not of the form module:function"
    for key, text in spawn.labels.items():
        if not _text(key, LABEL_MAX) or (text and not _text(text, LABEL_MAX)):
            return f"its labels are not at most {LABELS_MAX} texts of at most {LABEL_MAX} characters"
    return ""
