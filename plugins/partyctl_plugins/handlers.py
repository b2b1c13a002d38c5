"""Handlers of events, ready to use."""

import sys
from typing import TextIO

from partyctl_plugins.events import (
    AgentEvent,
    ApprovalDenied,
    AssistantText,
    EventHandler,
    ProviderError,
    Stderr,
    SteerConsumed,
    SteerDelivered,
    SteerRejected,
    ToolCall,
    TurnInterrupted,
)

__all__ = ["CompositeEventHandler", "ConsoleEventHandler", "NullEventHandler"]


class NullEventHandler:
    """Takes every event and does nothing."""

    def on_event(self, event: AgentEvent) -> None: ...


class CompositeEventHandler:
    """Hands each event to several handlers, in order, to all of them even if one raises.

    Args:
        handlers: whom to tell.

    Raises:
        Exception: by `on_event`, once all were told: what the first that failed has raised.
    """

    def __init__(self, *handlers: EventHandler) -> None:
        self._handlers = handlers

    def on_event(self, event: AgentEvent) -> None:
        failure: Exception | None = None
        for handler in self._handlers:
            try:
                handler.on_event(event)
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure


class ConsoleEventHandler:
    """Writes what a person wants to see of a turn: the answer, tools, and what was refused.

    Args:
        stream: where to; standard output if omitted.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def on_event(self, event: AgentEvent) -> None:
        line = _line(event)
        if line:
            # What a model says may hold lone surrogates, which no stream can write.
            told = line.encode("utf-8", "replace").decode("utf-8")
            print(told, file=self._stream or sys.stdout, flush=True)


def _line(event: AgentEvent) -> str:
    match event:
        case AssistantText(text):
            return text
        case ToolCall(tool=tool):
            return f"[{tool}]"
        case Stderr(text):
            return f"! {text}"
        case ProviderError(message):
            return f"! {message}"
        case ApprovalDenied(kind, detail):
            return f"[refused: {kind} {detail}]".replace(" ]", "]")
        case TurnInterrupted():
            return "[interrupted]"
        case SteerDelivered(text) | SteerConsumed(text):
            return f"[{type(event).__name__.removeprefix('Steer').lower()}: {text}]"
        case SteerRejected(text, reason):
            return f"[rejected: {text} ({reason})]"
        case _:
            return ""
