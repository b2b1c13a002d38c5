"""The claude provider keeps the contracts, over the scripted stand-in of its command."""

import json
from typing import TYPE_CHECKING

import pytest

from partyctl.testing import (
    Act,
    ConversationContract,
    Dies,
    Fails,
    InWorker,
    Says,
    Scene,
    Stalls,
    Streams,
    TransportContract,
)
from partyctl.workers import WorkerTransport
from partyctl_plugins.claude import ClaudeStreamTransport
from partyctl_plugins.contract import (
    ApprovalPolicy,
    Conversation,
    ConversationSpec,
    FailureKind,
    NativePermissions,
    Transport,
)

if TYPE_CHECKING:
    from conftest import Desk

KINDS = {
    FailureKind.TRANSIENT: "[[fail:529]]",
    FailureKind.AUTH: "[[fail:401]]",
    FailureKind.USAGE_LIMIT: "[[fail:429]] [[error:You have hit your limit]]",
    FailureKind.CONTEXT_OVERFLOW: "[[error:Prompt is too long]]",
    FailureKind.OTHER: "[[error:no reason]]",
}
TELLABLE = "[]\n\r\0"


def prompt(act: Act) -> str | None:
    match act:
        case Says(text):
            return f"[[json:{json.dumps(text)}]]"
        case Streams():
            return None
        case Stalls():
            return "[[stall]]"
        case Fails(kind):
            return KINDS.get(kind)
        case Dies():
            return "[[crash:SIGKILL]]"


class TestConversation(ConversationContract):
    @pytest.fixture(autouse=True)
    def _desk(self, desk: "Desk") -> None:
        self.desk = desk

    def make_conversation(self) -> Conversation:
        return self.desk.open()

    def make_scene(self, *acts: Act) -> Scene | None:
        prompts = [prompt(act) for act in acts]
        return None if None in prompts else Scene(self.desk.open(), [each or "" for each in prompts])


class TestTransport(TransportContract):
    @pytest.fixture(autouse=True)
    def _desk(self, desk: "Desk") -> None:
        self.desk = desk

    def make_transport(self) -> Transport:
        return ClaudeStreamTransport({"close_grace_s": 0.5}, environ=self.desk.environ)

    def make_spec(self) -> ConversationSpec:
        return ConversationSpec(str(self.desk.directory), NativePermissions.bypass(), ApprovalPolicy.DENY)

    def make_gone(self) -> tuple[Transport, str]:
        return self.make_transport(), "00000000-0000-0000-0000-000000000000"


class TestTransportInAWorker(InWorker, TransportContract):
    provider = "claude"

    @pytest.fixture(autouse=True)
    def _desk(self, desk: "Desk") -> None:
        self.desk = desk

    def make_transport(self) -> WorkerTransport:
        return self._workers.transport("claude", options={"close_grace_s": 0.5}, env=self.desk.environ)

    def make_spec(self) -> ConversationSpec:
        return ConversationSpec(str(self.desk.directory), NativePermissions.bypass(), ApprovalPolicy.DENY)

    def make_gone(self) -> tuple[Transport, str]:
        return self.make_transport(), "00000000-0000-0000-0000-000000000000"
