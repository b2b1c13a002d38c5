from typing import Any

import pytest

from partyctl_actors.errors import ProtocolError
from partyctl_actors.protocol import load_view

GOOD: dict[str, Any] = {
    "schema": "partyctl.view/v1",
    "role": "A",
    "start": 0,
    "states": [{"says": ["B", {"X": 1}]}, {"done": True}],
}


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "another"},
        {"role": "a/b"},
        {"start": 2},
        {"start": True},
        {"states": []},
        {"states": [{"says": ["B", {"X": 1}]}]},
        {"states": [{"says": ["B", {}]}, {"done": True}]},
        {"states": [{"says": ["B", {1: 1}]}, {"done": True}]},
        {"states": [{"says": "B"}, {"done": True}]},
        {"states": [7]},
        {"states": None},
    ],
)
def test_what_is_no_view_is_refused(change: dict[str, Any]) -> None:
    assert load_view(GOOD)
    with pytest.raises(ProtocolError):
        load_view(GOOD | change)


def test_what_is_no_mapping_is_refused() -> None:
    with pytest.raises(ProtocolError, match="no view of a role"):
        load_view([])  # type: ignore[arg-type]
