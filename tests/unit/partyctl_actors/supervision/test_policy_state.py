"""A state is plain values, and comes back from them."""

import json
from typing import Any

import pytest
from fakes.sessions import Driven

from partyctl_actors.errors import JournalError
from partyctl_actors.supervision.policy_events import Outcome, Phase
from partyctl_actors.supervision.policy_state import SessionState, TurnState, from_plain, to_plain


def waiting() -> SessionState:
    session = Driven("c1")
    session.begin(expect="c1", pin=True)
    session.fail(Outcome.TRANSIENT, tool_ran=True, progressed=True)
    session.interrupt()
    return session.state


@pytest.mark.parametrize("state", [SessionState(), waiting()])
def test_a_state_goes_through_json(state: SessionState) -> None:
    assert from_plain(json.loads(json.dumps(to_plain(state)))) == state


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"version": 2}, "version is 2"),
        ({"version": None}, "version is None"),
        ({"serial": "3"}, "serial"),
        ({"turn": {"turn_id": "t", "phase": "idle"}}, "never idle"),
        ({"turn": {"turn_id": "t", "phase": "asleep"}}, "turn.phase"),
        ({"hopes": 1}, "hopes"),
    ],
)
def test_what_is_no_state_is_refused_by_name(change: dict[str, object], told: str) -> None:
    with pytest.raises(JournalError, match="agent session cannot be read") as refused:
        from_plain(to_plain(waiting()) | change)
    assert told in refused.value.why


@pytest.mark.parametrize("plain", [None, [], "state", {}])
def test_what_is_no_map_is_refused(plain: Any) -> None:
    with pytest.raises(JournalError):
        from_plain(plain)


def test_a_turn_is_never_idle() -> None:
    with pytest.raises(ValueError, match="never idle"):
        TurnState("t", Phase.IDLE)
