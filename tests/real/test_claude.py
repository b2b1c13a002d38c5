"""The stream transport over the real Claude Code, against a fake service, without a network."""

import json
import os
import signal
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from partyctl_plugins.claude.process import CliProcess
from partyctl_plugins.contract import CliExitError, FailureKind, SessionResumeError, TurnFailedError, TurnRequest
from partyctl_plugins.events import AssistantText, ToolCall, ToolResult

if TYPE_CHECKING:
    from conftest import Desk

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

STALL = "[[stall:60]] {words}"
CAST = """You are Writer, in a conversation with Editor.

New messages:
Editor to Writer: Task {"topic": "the history of tea"}

Write your message to Editor: ONLY one JSON object, nothing before or after it.
{"label": "Draft", "payload": PAYLOAD}, PAYLOAD by schema {"properties": {"text": {"type": "string"}}, "type": "object"}
"""


def test_the_network_is_loopback_and_nothing_else(desk: "Desk") -> None:
    with pytest.raises(OSError, match="unreachable"):
        socket.create_connection(("192.0.2.1", 80), timeout=5)


def test_two_turns_keep_their_context(desk: "Desk") -> None:
    conversation = desk.open()
    assert desk.ask(conversation, "[[say:green tea]]") == "green tea"
    first = conversation.conversation_id
    result = conversation.turn(TurnRequest("[[recall]]"), desk.events.append)
    assert (result.text, result.resumed, conversation.conversation_id) == ("green tea", True, first)
    assert result.usage.tokens.input_tokens > 1000
    assert AssistantText("green tea") in desk.events


def test_an_agent_in_a_cast_gets_an_offered_message(desk: "Desk") -> None:
    answer = json.loads(desk.ask(desk.open(), CAST))
    assert answer == {"label": "Draft", "payload": {"text": 'Draft on "the history of tea"'}}


def test_a_tool_runs_and_is_told(desk: "Desk") -> None:
    command = json.dumps({"command": "echo tool-$((40+2))", "description": "add"})
    assert "tool-42" in desk.ask(desk.open(), f"[[tool:Bash:{command}]]")
    calls = [event for event in desk.events if isinstance(event, ToolCall | ToolResult)]
    assert [type(event).__name__ for event in calls] == ["ToolCall", "ToolResult"]


def test_an_interrupt_ends_the_turn_and_keeps_the_process(desk: "Desk") -> None:
    conversation = desk.open()
    desk.ask(conversation, "[[say:kept]]")
    pid = conversation.pid

    def interrupt() -> None:
        desk.provider.wait(lambda: desk.provider.events("stalled", "interrupted"))
        conversation.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    result = conversation.turn(TurnRequest(STALL.format(words="interrupted"), timeout=50), desk.events.append)
    thread.join()
    assert result.interrupted
    assert desk.ask(conversation, "[[recall]]") == "kept"
    assert conversation.pid == pid


@pytest.mark.parametrize("delay", [0.0, 0.004, 0.03])
def test_an_interrupt_before_the_turn_has_started_is_not_lost(desk: "Desk", delay: float) -> None:
    conversation = desk.open()
    process = conversation._process
    assert process is not None
    timers = [threading.Timer(delay, conversation.interrupt)]

    def write(data: bytes) -> None:
        CliProcess.write(process, data)
        if timers and b'"type":"user"' in data:
            timers.pop().start()

    process.write = write  # type: ignore[method-assign]
    result = conversation.turn(TurnRequest(STALL.format(words="early"), timeout=50), desk.events.append)
    assert result.interrupted
    assert desk.ask(conversation, "[[say:next]]") == "next"


@pytest.mark.parametrize(
    ("status", "kind"),
    [(529, FailureKind.TRANSIENT), (429, FailureKind.TRANSIENT), (401, FailureKind.AUTH), (400, FailureKind.OTHER)],
)
def test_an_error_of_the_provider_is_classified_and_the_next_turn_works(
    desk: "Desk", status: int, kind: FailureKind
) -> None:
    conversation = desk.open()
    with pytest.raises(TurnFailedError) as caught:
        desk.ask(conversation, f"[[fail:{status}]]")
    assert caught.value.kind is kind
    assert desk.ask(conversation, "[[say:recovered]]") == "recovered"


def test_a_killed_process_is_an_exit_error_and_the_conversation_is_resumed(desk: "Desk") -> None:
    conversation = desk.open()
    desk.ask(conversation, "[[say:kept]]")

    def kill() -> None:
        desk.provider.wait(lambda: desk.provider.events("stalled", "killed"))
        os.kill(conversation.pid or 0, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    with pytest.raises(CliExitError) as caught:
        desk.ask(conversation, STALL.format(words="killed"))
    thread.join()
    assert caught.value.returncode == -signal.SIGKILL
    assert "kept" in desk.ask(conversation, "[[recall]]")
    conversation.close()
    again = desk.open(resume=conversation.conversation_id)
    assert "kept" in desk.ask(again, "[[recall]]")
    assert again.conversation_id == conversation.conversation_id


@pytest.mark.parametrize("name", ["d75d0d37-b3b2-49ca-97a9-b620d1229ff3", "not-a-uuid"])
def test_a_conversation_that_is_gone_is_refused(desk: "Desk", name: str) -> None:
    with pytest.raises(SessionResumeError) as caught:
        desk.open(resume=name)
    assert caught.value.session_id == name
