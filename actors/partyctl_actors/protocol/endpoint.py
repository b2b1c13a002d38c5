"""One role's view as plain data, so that a role served from elsewhere can bring its own.

{"schema": "partyctl.view/v1", "role": name, "start": number,
 "states": [{"says": [role, {label: number}]} | {"hears": [role, {label: number}]} | {"done": true}, ...]}
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from partyctl_actors.errors import ProtocolError
from partyctl_actors.protocol.projection import EndState, ReceiveState, SendState, View, ViewState
from partyctl_actors.protocol.role import Role

SCHEMA = "partyctl.view/v1"


def view_definition(view: View) -> dict[str, Any]:
    """All that `load_view` needs to make an equal view."""
    return {
        "schema": SCHEMA,
        "role": view.role.name,
        "start": view.start,
        "states": [_describe(state) for state in view.states],
    }


def load_view(data: Mapping[str, Any]) -> View:
    """The view of a definition.

    Raises:
        ProtocolError: it is of another schema, or malformed.
    """
    try:
        if data["schema"] != SCHEMA:
            raise ValueError(f"its schema is not {SCHEMA}")
        states = tuple(_load(state, len(data["states"])) for state in data["states"])
        return View(Role(data["role"]), _number(data["start"], len(states)), states)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ProtocolError(
            "This is no view of a role", why=f"{type(error).__name__}: {error}", fix="Make it with view_definition()"
        ) from error


def _describe(state: ViewState) -> dict[str, Any]:
    if isinstance(state, SendState):
        return {"says": [state.receiver.name, dict(state.arms)]}
    if isinstance(state, ReceiveState):
        return {"hears": [state.sender.name, dict(state.arms)]}
    return {"done": True}


def _load(data: Mapping[str, Any], count: int) -> ViewState:
    if "done" in data:
        return EndState()
    word = "says" if "says" in data else "hears"
    peer, arms = data[word]
    if not isinstance(arms, Mapping) or not arms or not all(isinstance(label, str) for label in arms):
        raise ValueError(f"{arms!r:.60} is no mapping from labels to numbers")
    following = MappingProxyType({label: _number(number, count) for label, number in arms.items()})
    return SendState(Role(peer), following) if word == "says" else ReceiveState(Role(peer), following)


def _number(number: object, count: int) -> int:
    if type(number) is not int or not 0 <= number < count:
        raise ValueError(f"{number!r:.60} is no number of a state")
    return number
