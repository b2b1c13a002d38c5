"""What the launcher is asked, as msgpack maps with the kind under "t". Pure; what it answers is in `messages`.

A client may be hostile: whatever it sends becomes one of the dataclasses below or a `BadRequest`, never an error.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgpack

from partyctl_confinement import limits

REQUEST_MAX: Final = 32 * 1024
"""Bytes of one request of a client."""

ID_MAX: Final = 128
NAME_MAX: Final = 128
LABELS_MAX: Final = 32
LABEL_MAX: Final = 256
"""Characters of a worker's id, of its name, of one label; and the number of labels."""

ARGV_MAX: Final = 256
"""Words of a program's command line; their length is bounded by that of the request."""

FORK: Final = "fork"
EXEC: Final = "exec"

_MAIN: Final = re.compile(r"[A-Za-z_][\w.]{0,199}:[A-Za-z_]\w{0,99}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Spawn:
    """A client wants a worker.

    Attributes:
        main: "module:function"; empty if `argv` says what to run.
        mode: FORK: a copy of the launcher; EXEC: a fresh program that shares no memory with it.
        argv: the program and its arguments; only with EXEC, in place of a main.
        limits: what the worker is held to, by the names in `limits.KINDS`.
        epoch: under which number its client has it; whoever attaches later must have a greater one.
    """

    id: str
    name: str
    main: str
    labels: Mapping[str, str] = field(default_factory=dict)
    mode: str = FORK
    argv: tuple[str, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Expect:
    """Somebody is about to attach to the workers with this label; those without a client wait for it anew."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Attach:
    """A client wants the worker of an agent session, whose client is gone or is to have it no longer.

    Attributes:
        id: of the request.
        session: the label of the worker.
        epoch: under which number it will have it.
    """

    id: str
    session: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Leave:
    """A client goes, and wants none of its workers kept."""


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


def parse_client(data: bytes) -> Spawn | Attach | Expect | Kill | Leave | BadRequest:
    """One message from a client."""
    request = _map(data)
    if isinstance(request, BadRequest):
        return request
    kind, worker_id = request.get("t"), request.get("id")
    if kind == "leave":
        return Leave()
    if kind == "expect":
        return Expect(_as_text(request, "label"), _as_text(request, "text"))
    if kind not in ("spawn", "attach", "kill"):
        return BadRequest("it is neither spawn, attach, expect, kill nor leave")
    if not _text(worker_id, ID_MAX):
        return BadRequest(f"its id is no text of 1 to {ID_MAX} characters", request=str(kind))
    if kind == "kill":
        return Kill(str(worker_id))
    return _spawn(str(worker_id), request) if kind == "spawn" else _attach(str(worker_id), request)


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


def _map(data: bytes) -> "dict[object, object] | BadRequest":
    try:
        request = msgpack.unpackb(data)
    except Exception:  # whatever a hostile byte string makes of the decoder, it is no request
        return BadRequest("it is not msgpack")
    return request if isinstance(request, dict) else BadRequest("it is no map")


def _attach(request_id: str, request: "Mapping[Any, Any]") -> Attach | BadRequest:
    session, epoch = request.get("session"), request.get("epoch")
    if not _text(session, LABEL_MAX):
        return BadRequest(f"its session is no text of 1 to {LABEL_MAX} characters", request_id, "attach")
    if not _is_epoch(epoch):
        return BadRequest("its epoch is no whole number from 0 on", request_id, "attach")
    return Attach(request_id, str(session), request["epoch"])


def _is_epoch(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _spawn(worker_id: str, request: "Mapping[Any, Any]") -> Spawn | BadRequest:
    why = _fault(request)
    if why:
        return BadRequest(why, worker_id, "spawn")
    return Spawn(
        worker_id,
        request["name"],
        request.get("main", ""),
        dict(request.get("labels", {})),
        request.get("mode", FORK),
        tuple(request.get("argv", ())),
        dict(request.get("limits", {})),
        request.get("epoch", 0),
    )


def _fault(request: "Mapping[Any, Any]") -> str:
    """Why this is no request for a worker; empty if it is one."""
    main, mode, argv = request.get("main", ""), request.get("mode", FORK), request.get("argv", [])
    held = request.get("limits", {})
    if not _text(request.get("name"), NAME_MAX):
        return f"its name is no text of 1 to {NAME_MAX} characters"
    if not isinstance(main, str):
        return "its main is no text"
    if mode not in (FORK, EXEC):
        return f"its mode is neither {FORK} nor {EXEC}"
    if not _labels(request.get("labels", {})):
        return f"its labels are not at most {LABELS_MAX} texts of at most {LABEL_MAX} characters"
    if not isinstance(argv, list) or not all(isinstance(word, str) for word in argv):
        return "its argv is no list of texts"
    if not isinstance(held, dict) or not all(isinstance(name, str) for name in held):
        return "its limits are no map of names to numbers"
    if not _is_epoch(request.get("epoch", 0)):
        return "its epoch is no whole number from 0 on"
    return _program_fault(main, mode, argv) or limits.fault(held)


def _program_fault(main: str, mode: str, argv: Sequence[str]) -> str:
    if not argv:
        return "" if _MAIN.fullmatch(main) else "its main is not of the form module:function"
    if main or mode != EXEC:
        return f"an argv goes with mode {EXEC} and without a main"
    if len(argv) > ARGV_MAX or not all(map(_is_word, argv)):
        return f"its argv is not at most {ARGV_MAX} words that a command line can hold"
    return "" if argv[0].startswith("/") else "the program in its argv is no absolute path"


def _is_word(word: str) -> bool:
    try:
        return b"\0" not in word.encode("utf-8")
    except UnicodeEncodeError:
        return False


def _text(value: object, longest: int) -> bool:
    return isinstance(value, str) and 0 < len(value) <= longest and value.isprintable()


def _as_text(request: "dict[object, object]", key: str) -> str:
    value = request.get(key)
    return value if isinstance(value, str) else ""


def _labels(value: object) -> bool:
    if not isinstance(value, dict) or len(value) > LABELS_MAX:
        return False
    return all(_text(key, LABEL_MAX) and (text == "" or _text(text, LABEL_MAX)) for key, text in value.items())
