"""Ready handlers: each event reaches everybody, and a person sees what matters."""

import io

import pytest

from partyctl_plugins.events import (
    AgentEvent,
    ApprovalDenied,
    AssistantText,
    Lifecycle,
    SteerDelivered,
    SteerRejected,
    ToolCall,
    TurnInterrupted,
)
from partyctl_plugins.handlers import CompositeEventHandler, ConsoleEventHandler, NullEventHandler


class Kept:
    def __init__(self) -> None:
        self.events: list[AgentEvent] = []

    def on_event(self, event: AgentEvent) -> None:
        self.events.append(event)


class Broken:
    def on_event(self, event: AgentEvent) -> None:
        raise ValueError("no room")


def test_a_handler_that_raises_keeps_none_of_the_others_from_the_event() -> None:
    kept = Kept()
    with pytest.raises(ValueError, match="no room"):
        CompositeEventHandler(NullEventHandler(), Broken(), kept).on_event(TurnInterrupted())
    assert kept.events == [TurnInterrupted()]


def test_a_person_sees_the_answer_the_tools_and_what_was_refused() -> None:
    stream = io.StringIO()
    events: list[AgentEvent] = [
        ToolCall("1", "bash"),
        AssistantText("done \udcff"),
        ApprovalDenied("bash", "rm x"),
        ApprovalDenied("bash"),
        Lifecycle("restarted"),
        SteerDelivered("stop"),
        SteerRejected("go", "late"),
        TurnInterrupted(),
    ]
    for event in events:
        ConsoleEventHandler(stream).on_event(event)
    assert stream.getvalue().splitlines() == [
        "[bash]",
        "done ?",
        "[refused: bash rm x]",
        "[refused: bash]",
        "[delivered: stop]",
        "[rejected: go (late)]",
        "[interrupted]",
    ]
