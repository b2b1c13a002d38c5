"""One turn of Claude Code as a state machine without I/O: frames in, steps out.

Rules:

- A turn is *written* when its prompt is, *started* with the first frame that the CLI sends for it, *answered* with the
  first `result`, and over when it is answered and no reply to an interrupt is outstanding: an interrupt that crosses
  the result must not land on the turn after it.
- An interrupt is held back until the turn has started. Sent earlier it finds an idle CLI, which agrees and then runs
  the prompt all the same.
- An unknown frame is counted and ignored. A known one with fields of the wrong type loses those fields.
- Denied permissions are reported once each, whichever of the three places names them first.
"""

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from partyctl_plugins.claude import frames
from partyctl_plugins.claude.frames import Frame, number_of, object_of, objects_of, text_of
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

PARTIAL_KEPT = 1024 * 1024
"""Characters of an unfinished answer that are kept; a finished one comes whole in its result."""


@dataclass(frozen=True, slots=True)
class Send:
    """Write these bytes to the CLI."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Tell:
    """Report this event."""

    event: AgentEvent


Step: TypeAlias = Send | Tell


class Turn:
    """The state of one turn.

    Args:
        message_uuid: the uuid its prompt was written with.
        conversation_id: the conversation's id as far as it is known.

    Attributes:
        conversation_id: the same, kept up to date.
        result: the result frame, None until there is one.
        error: the `error` of the last synthetic assistant frame.
        denied: how many permissions were denied.
        resets_at: when an exhausted usage window ends, in seconds since the epoch.
        context_tokens: prompt and output of the last model call of the main thread.
        unknown: how many frames were of an unknown kind.
    """

    def __init__(self, message_uuid: str, conversation_id: str | None) -> None:
        self.conversation_id = conversation_id
        self.result: Frame | None = None
        self.error = ""
        self.denied = 0
        self.resets_at: float | None = None
        self.context_tokens: int | None = None
        self.unknown = 0
        self.message_uuid = message_uuid
        self._started = False
        self._interrupt_id = ""
        self._interrupt_sent = False
        self._interrupt_replied = False
        self._texts: deque[str] = deque()
        self._texts_size = 0
        self._tools: dict[str, str] = {}
        self._denied_ids: set[str] = set()
        self._table: dict[str, Callable[[Frame], list[Step]]] = {
            "system": self._system,
            "assistant": self._assistant,
            "user": self._user,
            "command_lifecycle": self._lifecycle,
            "rate_limit_event": self._rate_limit,
            "control_request": self._request,
            "control_response": self._response,
            "result": self._result,
        }

    @property
    def answered(self) -> bool:
        """Whether the result has come."""
        return self.result is not None

    @property
    def over(self) -> bool:
        """Whether nothing more is to come for this turn."""
        return self.answered and (not self._interrupt_sent or self._interrupt_replied)

    @property
    def partial_text(self) -> str:
        """The answer so far, its last PARTIAL_KEPT characters at least."""
        return "\n\n".join(self._texts)

    @property
    def interrupted(self) -> bool:
        """Whether the result says that the turn was aborted."""
        if self.result is None:
            return False
        if text_of(self.result, "terminal_reason").startswith("aborted"):
            return True
        return self._interrupt_sent and text_of(self.result, "subtype") == "error_during_execution"

    def interrupt(self, request_id: str) -> list[Step]:
        """End the turn: now if it has started, else as soon as it does. Only the first call counts."""
        if self._interrupt_id:
            return []
        self._interrupt_id = request_id
        return self._send_interrupt()

    def receive(self, frame: Frame) -> list[Step]:
        """Take one frame, in the order of the stream."""
        handle = self._table.get(text_of(frame, "type"))
        if handle is None:
            self.unknown += 1
            return []
        return handle(frame)

    def _start(self) -> list[Step]:
        self._started = True
        return self._send_interrupt()

    def _send_interrupt(self) -> list[Step]:
        if not self._started or not self._interrupt_id or self._interrupt_sent or self.answered:
            return []
        self._interrupt_sent = True
        return [Send(frames.interrupt(self._interrupt_id))]

    def _system(self, frame: Frame) -> list[Step]:
        steps: list[Step] = []
        named = text_of(frame, "session_id")
        if named and named != self.conversation_id:
            self.conversation_id = named
            steps.append(Tell(SessionStarted(named)))
        subtype = text_of(frame, "subtype")
        if subtype == "init":
            steps += self._start()
        elif subtype == "api_retry":
            steps.append(Tell(ProviderError(_retry_text(frame))))
        elif subtype == "permission_denied":
            steps += self._deny(frame, frame.get("tool_input") or text_of(frame, "decision_reason"))
        return steps

    def _assistant(self, frame: Frame) -> list[Step]:
        message = object_of(frame, "message")
        main = not text_of(frame, "parent_tool_use_id")  # else it is a subagent's
        fault = text_of(frame, "error")
        steps = self._start()
        if main and not fault:
            usage = object_of(message, "usage")
            self.context_tokens = sum(frames.count_of(usage, key) for key in _CONTEXT_KEYS) or self.context_tokens
        for block in objects_of(message, "content"):
            kind, text = text_of(block, "type"), text_of(block, "text")
            if kind == "tool_use":
                tool_id, tool = text_of(block, "id"), text_of(block, "name")
                self._tools[tool_id] = tool
                steps.append(Tell(ToolCall(tool_id, tool, object_of(block, "input"))))
            elif kind == "text" and text and fault:
                self.error = fault
                steps.append(Tell(ProviderError(text)))
            elif kind == "text" and text and main:
                self._keep(text)
                steps.append(Tell(AssistantText(text)))
            elif kind == "thinking" and main and (thought := text_of(block, "thinking")):
                steps.append(Tell(Reasoning(thought)))
        return steps

    def _keep(self, text: str) -> None:
        self._texts.append(text)
        self._texts_size += len(text)
        while self._texts_size - len(self._texts[0]) >= PARTIAL_KEPT:
            self._texts_size -= len(self._texts.popleft())

    def _user(self, frame: Frame) -> list[Step]:
        steps: list[Step] = []
        for block in objects_of(object_of(frame, "message"), "content"):
            if text_of(block, "type") != "tool_result":
                continue
            tool_id = text_of(block, "tool_use_id")
            output, failed = _plain(block), block.get("is_error") is True
            steps.append(
                Tell(
                    ToolResult(
                        tool_id,
                        self._tools.get(tool_id, ""),
                        stdout="" if failed else output,
                        stderr=output if failed else "",
                        exit_code=1 if failed else 0,
                    )
                )
            )
        return steps

    def _lifecycle(self, frame: Frame) -> list[Step]:
        mine = text_of(frame, "command_uuid") == self.message_uuid
        return self._start() if mine and text_of(frame, "state") == "started" else []

    def _rate_limit(self, frame: Frame) -> list[Step]:
        info = object_of(frame, "rate_limit_info")
        exhausted = text_of(info, "status") == "rejected"
        resets_at = number_of(info, "resetsAt")
        if exhausted:
            self.resets_at = resets_at
        window = text_of(info, "rateLimitType")
        event = RateLimitStatus(
            window, number_of(info, "utilization"), resets_at, limit=window or None, exhausted=exhausted, raw=dict(info)
        )
        return [Tell(event)]

    def _request(self, frame: Frame) -> list[Step]:
        # Its answer was given where frames are read, turn or no turn; here it is only reported.
        request = object_of(frame, "request")
        if text_of(request, "subtype") != "can_use_tool":
            return []
        return self._deny(request, request.get("input"))

    def _response(self, frame: Frame) -> list[Step]:
        response = object_of(frame, "response")
        if self._interrupt_sent and text_of(response, "request_id") == self._interrupt_id:
            self._interrupt_replied = True
        return []

    def _result(self, frame: Frame) -> list[Step]:
        if self.answered:
            self.unknown += 1
            return []
        self.result = frame
        denials = objects_of(frame, "permission_denials")
        return [step for denial in denials for step in self._deny(denial, denial.get("tool_input"))]

    def _deny(self, frame: Frame, detail: object) -> list[Step]:
        tool_id = text_of(frame, "tool_use_id")
        if tool_id in self._denied_ids:
            return []
        self._denied_ids.add(tool_id)
        self.denied += 1
        words = detail if isinstance(detail, str) else json.dumps(detail, sort_keys=True)
        return [Tell(ApprovalDenied(text_of(frame, "tool_name"), words))]


_CONTEXT_KEYS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


def _retry_text(frame: Frame) -> str:
    status = frames.count_of(frame, "error_status") or "no answer"
    delay = frames.count_of(frame, "retry_delay_ms") / 1000
    tries = f"{frames.count_of(frame, 'attempt')} of {frames.count_of(frame, 'max_retries')}"
    return f"{text_of(frame, 'error') or 'error'} ({status}); claude tries again ({tries}) in {delay:.1f} s"


def _plain(block: Frame) -> str:
    """The text of a tool result, which is a string or a list of blocks."""
    return text_of(block, "content") or "\n".join(text_of(part, "text") for part in objects_of(block, "content"))
