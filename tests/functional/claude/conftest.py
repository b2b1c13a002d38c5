"""A `claude` command that is the scripted stand-in, and conversations over it that are ended with the test."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from partyctl_plugins.claude import ClaudeStreamTransport
from partyctl_plugins.claude.conversation import ClaudeConversation
from partyctl_plugins.contract import AgentEvent, ApprovalPolicy, ConversationSpec, NativePermissions, TurnRequest

FAKE = Path(__file__).parents[2] / "fakes" / "claude_cli.py"
PATIENT = {"startup_timeout_s": 20.0, "interrupt_grace_s": 20.0, "close_grace_s": 0.5, "write_timeout_s": 20.0}
"""Long where a good CLI is waited for, so that a loaded machine fails no test; a test of a limit sets it short."""


class Desk:
    """Opens conversations with the fake CLI and remembers what they said."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.home = directory / "home"
        self.home.mkdir()
        binary = directory / "bin" / "claude"
        binary.parent.mkdir()
        binary.write_text(f'#!/bin/sh\nexec {sys.executable} {FAKE} "$@"\n')
        binary.chmod(0o755)
        self.environ = {"PATH": f"{binary.parent}:/usr/bin:/bin", "HOME": str(self.home), "CLAUDECODE": "1"}
        self.events: list[AgentEvent] = []
        self.opened: list[ClaudeConversation] = []

    def open(
        self,
        words: str = "",
        *,
        resume: str | None = None,
        approvals: ApprovalPolicy = ApprovalPolicy.DENY,
        **options: object,
    ) -> ClaudeConversation:
        """A conversation with a CLI that misbehaves from its start as `words` say."""
        transport = ClaudeStreamTransport({**PATIENT, **options}, environ={**self.environ, "FAKE_CLAUDE": words})
        spec = ConversationSpec(str(self.directory), NativePermissions.bypass(), approvals, resume_id=resume)
        conversation = transport.open(spec)
        self.opened.append(conversation)
        return conversation

    def ask(self, conversation: ClaudeConversation, prompt: str, timeout: float | None = 20.0) -> str:
        """The text of one turn."""
        return conversation.turn(TurnRequest(prompt, timeout=timeout), self.events.append).text

    def close(self) -> None:
        for conversation in self.opened:
            conversation.close()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.close()


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], None]:
    """Wait for a condition outside this process, at most 10 s."""
    import time

    def wait(condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < end, "it did not happen within 10 s"
            time.sleep(0.01)

    return wait
