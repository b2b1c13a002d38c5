"""Every request of the CLI is answered."""

import json

import pytest

from partyctl_plugins.claude.requests import answer


def asked(subtype: object, *, fail_turn: bool = False) -> dict[str, dict[str, object]]:
    line = answer(
        {"type": "control_request", "request_id": "r-1", "request": {"subtype": subtype}}, fail_turn=fail_turn
    )
    assert line is not None
    value: dict[str, dict[str, object]] = json.loads(line)
    assert value["response"]["request_id"] == "r-1"
    return value


def test_a_request_for_permission_is_denied() -> None:
    response = asked("can_use_tool")["response"]["response"]
    assert response == {"behavior": "deny", "message": "Denied: this session approves no tool use."}


def test_it_also_ends_the_turn_if_the_caller_said_so() -> None:
    response = asked("can_use_tool", fail_turn=True)["response"]["response"]
    assert isinstance(response, dict)
    assert response["interrupt"] is True


@pytest.mark.parametrize("subtype", ["hook_callback", "mcp_message", "something_new", None, 7])
def test_an_unknown_request_gets_an_error(subtype: object) -> None:
    assert asked(subtype)["response"]["subtype"] == "error"


@pytest.mark.parametrize("kind", ["control_response", "control_cancel_request", "assistant", None])
def test_other_frames_get_no_answer(kind: object) -> None:
    assert answer({"type": kind, "request_id": "r-1"}, fail_turn=False) is None
