"""The samples of Writing a Transport run as they stand, but for where their names come from."""

import dataclasses

import partyctl
from partyctl.plugins import Conversation, ConversationSpec, ProviderProfile, SteerableConversation, Transport
from partyctl.testing import FakeClock, FakeTransport, FakeTurn, SequentialIds, turn_failed

Agent, FailureKind = partyctl.Agent, partyctl.FailureKind


class MyTransport:
    @property
    def profile(self) -> ProviderProfile: ...  # type: ignore[empty-body]

    def open(self, spec: ConversationSpec) -> Conversation: ...  # type: ignore[empty-body]


class MyConversation:
    @property
    def conversation_id(self) -> str | None: ...

    def turn(self, request, emit): ...  # type: ignore[no-untyped-def]

    def interrupt(self): ...  # type: ignore[no-untyped-def]

    def close(self): ...  # type: ignore[no-untyped-def]


def test_a_transport_is_what_has_these_members_and_inherits_nothing() -> None:
    transport: Transport = MyTransport()
    conversation: Conversation = MyConversation()
    assert not isinstance(conversation, SteerableConversation)
    assert (
        transport.open(ConversationSpec("/", partyctl.NativePermissions.bypass(), partyctl.ApprovalPolicy.DENY)) is None
    )


def test_an_agent_takes_a_transport_that_plays_a_script() -> None:
    transport = FakeTransport([turn_failed(FailureKind.TRANSIENT), FakeTurn(text="done")])
    agent = Agent(
        transport,
        permissions=partyctl.NativePermissions.bypass(),
        approvals=partyctl.ApprovalPolicy.DENY,
        clock=FakeClock(),
        ids=SequentialIds(),
    )
    assert isinstance(agent, Agent)
    assert transport.script_left == 2


def test_every_field_of_a_specification_is_one_that_the_rules_name() -> None:
    assert {field.name for field in dataclasses.fields(ConversationSpec)} == {
        "cwd", "permissions", "approvals", "model", "mcp_servers", "reasoning_effort", "resume_id", "previous_usage",
    }  # fmt: skip
