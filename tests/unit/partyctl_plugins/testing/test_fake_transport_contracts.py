"""`FakeTransport` is a transport like any other: it keeps the contracts that it stands in for."""

import pytest

from partyctl.testing import (
    Act,
    ConversationContract,
    Dies,
    Fails,
    FakeTransport,
    FakeTurn,
    Says,
    Scene,
    Stalls,
    SteerableConversationContract,
    Streams,
    TransportContract,
    fake_profile,
    turn_failed,
)
from partyctl_plugins.contract import (
    ApprovalPolicy,
    CliExitError,
    Conversation,
    ConversationSpec,
    NativeMode,
    NativePermissions,
    SteerableConversation,
    Transport,
)
from partyctl_plugins.events import AssistantText
from partyctl_plugins.testing.transport import ScriptItem

SPEC = ConversationSpec("/", NativePermissions.bypass(), ApprovalPolicy.DENY)


def played(act: Act) -> ScriptItem:
    match act:
        case Says(text):
            return FakeTurn(text)
        case Streams(pieces):
            return FakeTurn("", events=[AssistantText(piece) for piece in pieces])
        case Stalls():
            return FakeTurn(stalls=True)
        case Fails(kind):
            return turn_failed(kind)
        case Dies():
            return FakeTurn(events=[AssistantText("so far")], fails=CliExitError(["fake"], -9))


class TestConversation(ConversationContract):
    def make_conversation(self) -> Conversation:
        return FakeTransport().open(SPEC)

    def make_scene(self, *acts: Act) -> Scene:
        return Scene(FakeTransport(map(played, acts)).open(SPEC))


class TestSteerableConversation(SteerableConversationContract):
    def make_conversation(self) -> Conversation:
        return FakeTransport(profile=fake_profile(supports_steer=True)).open(SPEC)

    def make_steerable_conversation(self) -> SteerableConversation:
        transport = FakeTransport([FakeTurn(awaits_steer=True)], fake_profile(supports_steer=True))
        conversation = transport.open(SPEC)
        assert isinstance(conversation, SteerableConversation)
        return conversation

    def make_scene(self, *acts: Act) -> Scene:
        return Scene(FakeTransport(map(played, acts), fake_profile(supports_steer=True)).open(SPEC))


@pytest.mark.parametrize("at_open", [True, False], ids=["refusing at open", "refusing at the first turn"])
class TestTransport(TransportContract):
    @pytest.fixture(autouse=True)
    def _refusing(self, at_open: bool) -> None:
        self.at_open = at_open

    def make_transport(self) -> Transport:
        return FakeTransport()

    def make_gone(self) -> tuple[Transport, str]:
        return FakeTransport(resumable=[], refuse_at_open=self.at_open), "conv-9"


class TestTransportOfAllModes(TransportContract):
    def make_transport(self) -> Transport:
        return FakeTransport(profile=fake_profile(native_permission_modes=NativeMode, supports_resume=False))
