"""The steps of a script, and how they are read. Whatever is wrong is said before the first turn, with its place."""

import json
import math
import signal
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, cast

from partyctl_plugins.errors import FailureKind, ProviderOptionsError
from partyctl_plugins.manager import nearest

FLOOD_MAX = 1024 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Say:
    """Say something in one or more pieces."""

    pieces: tuple[str, ...]
    structured: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait some seconds, or without limit (None)."""

    seconds: float | None


@dataclass(frozen=True, slots=True)
class Tool:
    """Use a tool."""

    name: str
    args: Mapping[str, object] = field(default_factory=dict)
    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0


@dataclass(frozen=True, slots=True)
class Fail:
    """Fail the turn."""

    kind: FailureKind
    message: str = "the script fails this turn"
    resets_at: float | None = None


@dataclass(frozen=True, slots=True)
class RefuseResume:
    """Refuse to go on with the conversation."""


@dataclass(frozen=True, slots=True)
class Crash:
    """End the process, by a status or a signal."""

    how: int | signal.Signals


@dataclass(frozen=True, slots=True)
class FloodStderr:
    """Write this many bytes to standard error."""

    size: int


@dataclass(frozen=True, slots=True)
class IgnoreInterrupts:
    """Take no interrupt for the rest of the turn."""


@dataclass(frozen=True, slots=True)
class AwaitSteer:
    """Wait for a message into the turn."""


@dataclass(frozen=True, slots=True)
class ExitAfterResult:
    """End the process when the result has been sent."""

    status: int


Step: TypeAlias = (
    Say | Wait | Tool | Fail | RefuseResume | Crash | FloodStderr | IgnoreInterrupts | AwaitSteer | ExitAfterResult
)


@dataclass(frozen=True, slots=True)
class Script:
    """The turns of a script.

    Attributes:
        source: where it came from, for messages.
        turns: the steps of each turn.
        refuse_resume: whether to refuse a conversation that is to be resumed.
    """

    source: str
    turns: tuple[tuple[Step, ...], ...]
    refuse_resume: bool = False


def read(value: object, cwd: str) -> Script:
    """The script that the option `script` stands for.

    Args:
        value: the path of a file, a list of turns, or what such a file holds.
        cwd: absolute directory that a relative path starts from.

    Raises:
        ProviderOptionsError: it cannot be read; the message names file, turn and step.
    """
    if isinstance(value, str):
        path = Path(cwd, value)
        return _script(str(path), _file(path))
    if isinstance(value, list | tuple):
        return _script("options.script", {"turn": value})
    if isinstance(value, Mapping):
        return _script("options.script", value)
    raise _refused("options.script", "the path of a file or a list of turns is needed", f"it is {value!r}")


def _file(path: Path) -> Mapping[str, object]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise _refused(str(path), "the script cannot be read", error.strerror or str(error)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _refused(str(path), "the script is not TOML", str(error)) from error


def _script(source: str, document: Mapping[str, object]) -> Script:
    for key in document:
        if key not in ("turn", "refuse_resume"):
            raise _refused(source, f"a script has no entry {key!r}", "", nearest(str(key), ["turn", "refuse_resume"]))
    refuse = document.get("refuse_resume", False)
    if not isinstance(refuse, bool):
        raise _refused(source, "refuse_resume must be true or false", f"it is {refuse!r}")
    turns = document.get("turn", [])
    if not isinstance(turns, list | tuple):
        raise _refused(source, "the turns must be a list", f"they are {turns!r}", "Write [[turn]] for each of them")
    return Script(source, tuple(_turn(source, number, turn) for number, turn in enumerate(turns, 1)), refuse)


def _turn(source: str, number: int, turn: object) -> tuple[Step, ...]:
    place = f"{source}, turn {number}"
    steps = turn
    if isinstance(turn, Mapping):
        if set(turn) != {"steps"}:
            has = ", ".join(map(str, turn)) or "none"
            raise _refused(place, 'a turn has one entry, as in steps = [{ say = "hello" }]', f"it has {has}")
        steps = turn["steps"]
    if not isinstance(steps, list | tuple):
        raise _refused(place, "the steps must be a list", f"they are {steps!r}")
    return tuple(_step(f"{place}, step {position}", step) for position, step in enumerate(steps, 1))


def _step(place: str, step: object) -> Step:
    if not isinstance(step, Mapping) or len(step) != 1:
        raise _refused(place, 'a step has one entry, as in { say = "hello" }', f"it is {step!r}")
    [(kind, value)] = step.items()
    read_step = _STEPS.get(kind)
    if read_step is None:
        fix = nearest(str(kind), _STEPS) or f"The steps are {', '.join(_STEPS)}"
        raise _refused(place, f"there is no step {kind!r}", "", fix)
    try:
        return read_step(value)
    except ValueError as problem:
        raise _refused(place, f"step {kind!r} is not right", str(problem)) from problem


def _say(value: object) -> Step:
    if isinstance(value, str):
        return Say((value,))
    table = _table(value, {"label": str, "payload": Mapping}, required="label")
    answer = {"label": table["label"], "payload": dict(cast("Mapping[str, object]", table.get("payload", {})))}
    try:
        return Say((json.dumps(answer, ensure_ascii=False),), answer)
    except TypeError as error:  # a date of TOML, say
        raise ValueError(f"the payload is no JSON: {error}") from error


def _stream(value: object) -> Step:
    if not isinstance(value, list | tuple) or not all(isinstance(piece, str) for piece in value):
        raise ValueError(f"a list of texts is needed, not {value!r}")
    return Say(tuple(value))


def _think(value: object) -> Step:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"a number of seconds is needed, not {value!r}")
    return Wait(float(value))


def _tool(value: object) -> Step:
    if isinstance(value, str):
        return Tool(value)
    shape = {"name": str, "args": Mapping, "stdout": str, "stderr": str, "exit_code": int}
    return Tool(**_table(value, shape, required="name"))  # type: ignore[arg-type]  # _table has checked the shape


def _fail(value: object) -> Step:
    table = {"kind": value} if isinstance(value, str) else value
    given = _table(table, {"kind": str, "message": str, "resets_at": (int, float)}, required="kind")
    kinds = [kind.value for kind in FailureKind]
    if given["kind"] not in kinds:
        raise ValueError(f"there is no kind {given['kind']!r}, only {', '.join(kinds)}")
    return Fail(**{**given, "kind": FailureKind(given["kind"])})  # type: ignore[arg-type]  # as above


def _crash(value: object) -> Step:
    if isinstance(value, str) and value in signal.Signals.__members__:
        return Crash(signal.Signals[value])
    return Crash(_whole(value, 255, "an exit status from 0 to 255, or the name of a signal,"))


def _whole(value: object, limit: int, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= limit:
        raise ValueError(f"{what} is needed, not {value!r}")
    return value


def _switch(step: Step) -> Callable[[object], Step]:
    def read_switch(value: object) -> Step:
        if value is not True:
            raise ValueError(f"it can only be true, not {value!r}; leave the step out otherwise")
        return step

    return read_switch


def _table(value: object, shape: Mapping[str, type | tuple[type, ...]], *, required: str) -> dict[str, object]:
    if not isinstance(value, Mapping) or required not in value:
        raise ValueError(f"text or a table with {required} is needed, not {value!r}")
    for key, item in value.items():
        if key not in shape:
            raise ValueError(f"there is no entry {key!r}, only {', '.join(shape)}")
        if not isinstance(item, shape[key]) or isinstance(item, bool):
            raise ValueError(f"{key} cannot be {item!r}")
    return dict(value)


_STEPS: Mapping[str, Callable[[object], Step]] = {
    "say": _say,
    "stream": _stream,
    "think": _think,
    "tool": _tool,
    "fail": _fail,
    "refuse_resume": _switch(RefuseResume()),
    "crash": _crash,
    "hang": _switch(Wait(None)),
    "flood_stderr": lambda value: FloodStderr(_whole(value, FLOOD_MAX, f"a number of bytes up to {FLOOD_MAX}")),
    "ignore_interrupts": _switch(IgnoreInterrupts()),
    "await_steer": _switch(AwaitSteer()),
    "exit_after_result": lambda value: ExitAfterResult(_whole(value, 255, "an exit status from 0 to 255")),
}


def _refused(place: str, what: str, why: str, fix: str = "") -> ProviderOptionsError:
    return ProviderOptionsError(what, where=place, why=why, fix=fix)
