"""What every transport does: docs/writing-a-transport.md."""

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import pytest

from partyctl_plugins.contract import (
    AgentSessionError,
    ApprovalPolicy,
    Conversation,
    ConversationSpec,
    McpMechanism,
    McpServer,
    NativeMode,
    NativePermissions,
    OutputSchema,
    ProviderCapabilityError,
    SchemaMechanism,
    SessionResumeError,
    StdioMcpServer,
    Transport,
    TurnRequest,
    TurnResult,
)
from partyctl_plugins.testing.contracts.stage import Stage, Turning


def _schema(name: str) -> Mapping[str, object]:
    return {
        "type": "object",
        "properties": {name: {"type": "string"}},
        "required": [name],
        "additionalProperties": False,
    }


class TransportContract(Stage):
    """Subclass it as `Test...` and implement `make_transport`.

    Attributes:
        server: a tool server the provider can be given.
    """

    server: ClassVar[McpServer] = StdioMcpServer("nothing", "/bin/cat")

    def make_transport(self) -> Transport:
        """A transport whose conversations' turns succeed when they are asked `prompt`."""
        raise NotImplementedError

    def make_spec(self) -> ConversationSpec:
        """What conversations are opened with: a directory that exists, and mode bypass."""
        return ConversationSpec("/", NativePermissions.bypass(), ApprovalPolicy.DENY)

    def make_gone(self) -> tuple[Transport, str] | None:
        """A transport, and the id of a conversation that its provider does not have; None if that cannot be made."""
        return None

    def open(self, transport: Transport, **changes: object) -> Conversation:
        """A conversation, closed after the check."""
        spec = dataclasses.replace(self.make_spec(), **changes)  # type: ignore[arg-type]  # each check knows its own
        return self.opened(transport.open(spec))

    # --- opening ---

    def test_open_returns_a_conversation_that_runs_turns(self) -> None:
        assert not self.ask(self.open(self.make_transport())).interrupted

    def test_every_open_makes_an_independent_conversation(self) -> None:
        transport = self.make_transport()
        first, second = self.open(transport), self.open(transport)
        self.ask(first)
        first.close()
        self.ask(second)
        assert first.conversation_id != second.conversation_id

    def test_a_missing_directory_raises_nothing_but_errors_of_ours(self) -> None:
        try:
            self.ask(self.open(self.make_transport(), cwd="/no/such/directory"))
        except AgentSessionError:
            return

    # --- the profile ---

    def test_the_profile_declares_bypass(self) -> None:
        assert NativeMode.BYPASS in self.make_transport().profile.native_permission_modes

    def test_the_profile_stays_the_same(self) -> None:
        transport = self.make_transport()
        before = transport.profile
        self.ask(self.open(transport))
        assert transport.profile == before

    @pytest.mark.parametrize("mode", [mode for mode in NativeMode if mode is not NativeMode.BYPASS])
    def test_a_mode_outside_the_profile_is_rejected(self, mode: NativeMode) -> None:
        transport = self.make_transport()
        if mode in transport.profile.native_permission_modes:
            assert not self.ask(self.open(transport, permissions=NativePermissions(mode))).interrupted
            return
        with pytest.raises(ProviderCapabilityError):
            self.open(transport, permissions=NativePermissions(mode))

    def test_an_effort_that_cannot_be_chosen_is_rejected(self) -> None:
        transport = self.make_transport()
        if transport.profile.supports_reasoning_effort:
            assert not self.ask(self.open(transport, reasoning_effort="low")).interrupted
            return
        with pytest.raises(ProviderCapabilityError):
            self.open(transport, reasoning_effort="low")

    # --- going on ---

    def test_a_conversation_is_resumed_by_its_id(self) -> None:
        transport = self.make_transport()
        if not transport.profile.supports_resume:
            pytest.skip("the provider resumes no conversation")
        first = self.open(transport)
        used = self.ask(first).usage
        first.close()
        second = self.open(transport, resume_id=first.conversation_id, previous_usage=used)
        result = self.ask(second)
        assert result.resumed
        assert result.session_id == second.conversation_id == first.conversation_id

    def test_a_conversation_that_is_gone_is_refused_at_open_or_at_the_first_turn(self) -> None:
        gone = self.make_gone()
        if gone is None:
            pytest.skip("make_gone makes none")
        transport, conversation_id = gone
        with pytest.raises(SessionResumeError) as refused:
            self.ask(self.open(transport, resume_id=conversation_id))
        assert refused.value.session_id == conversation_id

    # --- schemas and tool servers ---

    def test_a_schema_is_taken_and_may_change_or_is_rejected(self) -> None:
        transport = self.make_transport()
        conversation = self.open(transport)
        requests = [TurnRequest(self.prompt, output_schema=OutputSchema(_schema(name))) for name in ("a", "b")]
        if transport.profile.output_schema is SchemaMechanism.NONE:
            with pytest.raises(ProviderCapabilityError):
                self._run(conversation, requests[0])
        else:
            for request in requests:
                assert not self._run(conversation, request).interrupted
        named = conversation.conversation_id
        self.ask(conversation)
        assert named in (None, conversation.conversation_id)

    def test_tool_servers_are_taken_or_rejected(self) -> None:
        transport = self.make_transport()
        if transport.profile.mcp is McpMechanism.NONE:
            with pytest.raises(ProviderCapabilityError):
                self.open(transport, mcp_servers=(self.server,))
            return
        assert not self.ask(self.open(transport, mcp_servers=(self.server,))).interrupted

    def test_other_tool_servers_for_one_turn_are_taken_or_rejected_and_the_conversation_goes_on(self) -> None:
        transport = self.make_transport()
        conversation = self.open(transport)
        self.ask(conversation)
        named = conversation.conversation_id
        request = TurnRequest(self.prompt, mcp_servers=(self.server,))
        if transport.profile.mcp is McpMechanism.NONE:
            with pytest.raises(ProviderCapabilityError):
                self._run(conversation, request)
        else:
            # A provider may hold to the servers that it was opened with.
            with contextlib.suppress(ProviderCapabilityError):
                assert not self._run(conversation, request).interrupted
        assert self.ask(conversation).session_id == named

    def _run(self, conversation: Conversation, request: TurnRequest) -> TurnResult:
        return Turning(conversation, request, self.limit).result()
