"""One turn as a state machine: what is told, what is sent, when it is over."""

import json

import pytest

from partyctl_plugins.claude.turn import PARTIAL_KEPT, Send, Step, Tell, Turn
from partyctl_plugins.contract import AgentEvent
from partyctl_plugins.events import (
    ApprovalDenied,
    AssistantText,
    ProviderError,
    RateLimitStatus,
    Reasoning,
    SessionStarted,
    ToolCall,
    ToolResult,
)

INIT = {"type": "system", "subtype": "init", "session_id": "s-1"}
RESULT = {"type": "result", "subtype": "success", "is_error": False, "result": "done", "terminal_reason": "completed"}
ABORTED = {"type": "result", "subtype": "error_during_execution", "is_error": True, "terminal_reason": "aborted_tools"}


def reply(request_id: str) -> dict[str, object]:
    return {"type": "control_response", "response": {"subtype": "success", "request_id": request_id}}


def said(*content: dict[str, object], **fields: object) -> dict[str, object]:
    return {"type": "assistant", "message": {"content": list(content)}, "parent_tool_use_id": None, **fields}


def told(steps: list[Step]) -> list[AgentEvent]:
    return [step.event for step in steps if isinstance(step, Tell)]


def sent(steps: list[Step]) -> list[dict[str, object]]:
    return [json.loads(step.data) for step in steps if isinstance(step, Send)]


@pytest.fixture
def turn() -> Turn:
    return Turn("u-1", None)


def test_a_turn_is_over_with_its_result(turn: Turn) -> None:
    turn.receive(INIT)
    assert not turn.over
    turn.receive(RESULT)
    assert turn.over
    assert not turn.interrupted


def test_the_conversation_names_itself_once(turn: Turn) -> None:
    assert told(turn.receive(INIT)) == [SessionStarted("s-1")]
    assert told(turn.receive(INIT)) == []
    assert turn.conversation_id == "s-1"


def test_text_thoughts_and_tools_are_told_in_order(turn: Turn) -> None:
    thought = {"type": "thinking", "thinking": "hm"}
    text = {"type": "text", "text": "I look."}
    tool = {"type": "tool_use", "id": "t-1", "name": "Bash", "input": {"command": "ls"}}
    assert told(turn.receive(said(thought, text, tool))) == [
        Reasoning("hm"),
        AssistantText("I look."),
        ToolCall("t-1", "Bash", {"command": "ls"}),
    ]
    assert turn.partial_text == "I look."


@pytest.mark.parametrize("content", ["out", [{"type": "text", "text": "out"}]])
def test_every_tool_result_of_a_frame_is_told(turn: Turn, content: object) -> None:
    turn.receive(said({"type": "tool_use", "id": "t-1", "name": "Bash", "input": {}}))
    good = {"type": "tool_result", "tool_use_id": "t-1", "content": content, "is_error": False}
    bad = {"type": "tool_result", "tool_use_id": "t-2", "content": content, "is_error": True}
    assert told(turn.receive({"type": "user", "message": {"content": [good, bad]}})) == [
        ToolResult("t-1", "Bash", stdout="out", exit_code=0),
        ToolResult("t-2", "", stderr="out", exit_code=1),
    ]


def test_a_subagent_does_not_speak_for_the_turn(turn: Turn) -> None:
    assert told(turn.receive(said({"type": "text", "text": "inner"}, parent_tool_use_id="t-1"))) == []
    assert turn.partial_text == ""


def test_an_endless_answer_is_kept_within_bounds(turn: Turn) -> None:
    for number in range(100):
        turn.receive(said({"type": "text", "text": f"{number:<100000}"}))
    assert PARTIAL_KEPT <= len(turn.partial_text) < PARTIAL_KEPT + 200_000
    assert turn.partial_text.rstrip().endswith("99")


def test_a_synthetic_answer_is_an_error_and_no_text(turn: Turn) -> None:
    frame = said({"type": "text", "text": "API Error: 529"}, error="server_error")
    assert told(turn.receive(frame)) == [ProviderError("API Error: 529")]
    assert turn.error == "server_error"
    assert turn.partial_text == ""


def test_a_retry_of_the_cli_is_told_with_its_delay(turn: Turn) -> None:
    frame = {"type": "system", "subtype": "api_retry", "attempt": 2, "max_retries": 10, "retry_delay_ms": 621}
    (event,) = told(turn.receive({**frame, "error_status": 529, "error": "overloaded"}))
    assert event == ProviderError("overloaded (529); claude tries again (2 of 10) in 0.6 s")


def test_an_exhausted_window_is_told_and_remembered(turn: Turn) -> None:
    info = {"status": "rejected", "rateLimitType": "five_hour", "resetsAt": 1_800_000_000}
    (event,) = told(turn.receive({"type": "rate_limit_event", "rate_limit_info": info}))
    assert isinstance(event, RateLimitStatus)
    assert event.exhausted
    assert turn.resets_at == 1_800_000_000


def test_a_denied_permission_is_told_once_whoever_names_it_first(turn: Turn) -> None:
    request = {"subtype": "can_use_tool", "tool_name": "Bash", "tool_use_id": "t-1", "input": {"command": "rm"}}
    denial = {"tool_name": "Bash", "tool_use_id": "t-1", "tool_input": {"command": "rm"}}
    first = turn.receive({"type": "control_request", "request_id": "r", "request": request})
    assert told(first) == [ApprovalDenied("Bash", '{"command": "rm"}')]
    assert turn.receive({"type": "system", "subtype": "permission_denied", **denial}) == []
    assert turn.receive({**RESULT, "permission_denials": [denial]}) == []
    assert turn.denied == 1


@pytest.mark.parametrize(
    "frame",
    [{}, {"type": "hologram"}, {"type": None}, {"type": ["x"]}, {"kind": "assistant"}, {"type": "stream_event"}],
)
def test_an_unknown_frame_is_counted_and_ignored(turn: Turn, frame: dict[str, object]) -> None:
    assert turn.receive(frame) == []
    assert turn.unknown == 1


@pytest.mark.parametrize("kind", ["system", "assistant", "user", "result", "control_request", "rate_limit_event"])
@pytest.mark.parametrize("junk", [None, 7, "x", [], [None], {"content": "x"}, {"content": [7]}])
def test_a_known_frame_full_of_junk_does_no_harm(turn: Turn, kind: str, junk: object) -> None:
    keys = ("message", "request", "response", "rate_limit_info", "permission_denials", "session_id", "subtype")
    turn.receive({"type": kind, **dict.fromkeys(keys, junk)})


class TestInterrupt:
    def test_it_is_sent_at_once_when_the_turn_has_started(self, turn: Turn) -> None:
        turn.receive(INIT)
        (request,) = sent(turn.interrupt("i-1"))
        assert request["request"] == {"subtype": "interrupt"}

    @pytest.mark.parametrize(
        "start", [INIT, said(), {"type": "command_lifecycle", "command_uuid": "u-1", "state": "started"}]
    )
    def test_it_waits_for_the_start_of_the_turn(self, turn: Turn, start: dict[str, object]) -> None:
        assert turn.interrupt("i-1") == []
        turn.receive({"type": "command_lifecycle", "command_uuid": "u-1", "state": "queued"})
        assert len(sent(turn.receive(start))) == 1

    def test_the_start_of_another_message_is_not_its_start(self, turn: Turn) -> None:
        turn.interrupt("i-1")
        assert turn.receive({"type": "command_lifecycle", "command_uuid": "u-0", "state": "started"}) == []

    def test_it_is_sent_once(self, turn: Turn) -> None:
        turn.receive(INIT)
        assert sent(turn.interrupt("i-1")) != []
        assert turn.interrupt("i-2") == []
        assert sent(turn.receive(INIT)) == []

    def test_the_turn_is_over_when_both_reply_and_result_are_there(self, turn: Turn) -> None:
        turn.receive(INIT)
        turn.interrupt("i-1")
        turn.receive(ABORTED)
        assert not turn.over
        turn.receive(reply("other"))
        assert not turn.over
        turn.receive(reply("i-1"))
        assert turn.over
        assert turn.interrupted

    def test_a_result_that_crossed_it_counts_as_finished(self, turn: Turn) -> None:
        turn.receive(INIT)
        turn.interrupt("i-1")
        turn.receive(RESULT)
        turn.receive(reply("i-1"))
        assert turn.over
        assert not turn.interrupted

    def test_after_the_result_nothing_is_sent(self, turn: Turn) -> None:
        turn.receive(RESULT)
        assert turn.interrupt("i-1") == []
        assert turn.over
