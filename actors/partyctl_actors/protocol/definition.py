"""A protocol as plain data, and a protocol made from such data that can run.

    {"schema": "partyctl.protocol/v1",
     "messages": {label: {"intent": text, "fields": [{"name", "type", "default"?}]}},   types: see `fields`
     "rows": [[step, ...], ...],                                                          inner rows come first
     "start": number of the outermost row}

    step: {"from": role, "to": role, "within": microseconds?, "branches": [[label, number of a row or null], ...]}
        | {"loop": number of a row, "name"?} | {"repeat": true or name} | {"par": [numbers of rows]} | {"stop": true}

Rows are numbered, not nested: a deep declaration stays flat for JSON and MessagePack, and what is used in many
places is written once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from partyctl_actors.errors import ContentError, ProtocolError
from partyctl_actors.protocol.nodes import Exchange, Loop, Par, Repeat, Row, Step
from partyctl_actors.protocol.protocol import Protocol
from partyctl_actors.protocol.role import Role
from partyctl_actors.protocol.rows import fold
from partyctl_actors.protocol.schema import Rebuilder, describe, with_nested
from partyctl_actors.protocol.steps import choose, loop, par, repeat, stop

SCHEMA = "partyctl.protocol/v1"
_MICROSECOND = timedelta(microseconds=1)


def definition(protocol: Protocol) -> dict[str, Any]:
    """All that `load` needs to make an equal protocol, as maps, lists, text, numbers and None."""
    numbers: dict[str, int] = {}
    rows: list[list[dict[str, Any]]] = []

    def number(row: Row, inner: Callable[[Row], int]) -> int:
        described = [_describe_step(step, inner) for step in row]
        given = numbers.setdefault(repr(described), len(rows))
        if given == len(rows):
            rows.append(described)
        return given

    start = fold(protocol.steps, number)
    kinds = with_nested(protocol.messages.values())
    messages = {label: describe(kind) for label, kind in kinds.items()}
    return {"schema": SCHEMA, "messages": messages, "rows": rows, "start": start}


def load(data: Mapping[str, Any]) -> Protocol:
    """The protocol of a definition, with message classes of its own.

    Raises:
        ProtocolError: it is of another schema, malformed, or breaks a rule of the language.
    """
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
        raise ProtocolError(
            "This is no definition of a protocol", why=f"its schema is not {SCHEMA}", fix="Make it with definition()"
        )
    try:
        messages = Rebuilder(data["messages"])
        rows: list[list[Step]] = []
        for row in data["rows"]:
            rows.append([_load_step(step, rows, messages) for step in row])
        return Protocol(_row(rows, data["start"]))
    except (ContentError, LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise ProtocolError(
            "This is no definition of a protocol",
            why=f"{type(error).__name__}: {error}",
            fix="Make it with definition() of this version",
        ) from error


def _describe_step(step: Step, inner: Callable[[Row], int]) -> dict[str, Any]:
    if isinstance(step, Loop):
        return {"loop": inner(step.body), **({"name": step.name} if step.name else {})}
    if isinstance(step, Repeat):
        return {"repeat": step.target or True}
    if isinstance(step, Par):
        return {"par": [inner(branch) for branch in step.branches]}
    if not isinstance(step, Exchange):
        return {"stop": True}
    branches = [[kind.label, inner(branch) if branch else None] for kind, branch in step.branches]
    described: dict[str, Any] = {"from": step.sender.name, "to": step.receiver.name, "branches": branches}
    if step.within is not None:
        described["within"] = step.within // _MICROSECOND
    return described


def _load_step(data: Mapping[str, Any], rows: list[list[Step]], messages: Rebuilder) -> Step:
    if "loop" in data:
        return loop(_row(rows, data["loop"]), name=data.get("name"))
    if "repeat" in data:
        return repeat(None if data["repeat"] is True else data["repeat"])
    if "par" in data:
        return par(*[_row(rows, number) for number in data["par"]])
    if "stop" in data:
        return stop()
    branches = {
        messages.message(label): [] if number is None else _row(rows, number) for label, number in data["branches"]
    }
    if len(branches) < len(data["branches"]):
        raise ValueError("two branches of one choice have the same label")
    within = timedelta(microseconds=data["within"]) if "within" in data else None
    return choose(Role(data["from"]), Role(data["to"]), branches, within=within)


def _row(rows: list[list[Step]], number: object) -> list[Step]:
    # Only rows that are there already, so that no definition can go round in circles.
    if type(number) is not int or not 0 <= number < len(rows):
        raise ValueError(f"{number!r} is no row that comes before")
    return rows[number]
