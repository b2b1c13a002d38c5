"""The scripted provider keeps the contracts, in this process and in real workers."""

from collections.abc import Mapping
from typing import ClassVar

from partyctl.testing import (
    Act,
    Dies,
    Fails,
    InWorker,
    Says,
    Scene,
    Stalls,
    SteerableConversationContract,
    Streams,
    TransportContract,
)
from partyctl_plugins.contract import (
    ApprovalPolicy,
    Conversation,
    ConversationSpec,
    NativePermissions,
    SteerableConversation,
    Transport,
)
from partyctl_plugins.scripted import ScriptedTransport

SPEC = ConversationSpec("/", NativePermissions.bypass(), ApprovalPolicy.DENY)
Steps = list[dict[str, object]]
ORDINARY: list[Steps] = [[{"say": "ok"}]] * 9
GONE = {"turn": ORDINARY, "refuse_resume": True}


def steps(act: Act) -> Steps:
    match act:
        case Says(text):
            return [{"say": text}]
        case Streams(pieces):
            return [{"stream": list(pieces)}]
        case Stalls():
            return [{"say": "so far"}, {"hang": True}]
        case Fails(kind):
            return [{"fail": kind.value}]
        case Dies():
            return [{"say": "so far"}, {"crash": "SIGKILL"}]


def steerable(transport: Transport) -> SteerableConversation:
    conversation = transport.open(SPEC)
    assert isinstance(conversation, SteerableConversation)
    return conversation


class TestConversation(SteerableConversationContract):
    def make_conversation(self) -> Conversation:
        return ScriptedTransport({"script": ORDINARY}).open(SPEC)

    def make_steerable_conversation(self) -> SteerableConversation:
        return steerable(ScriptedTransport({"script": [[{"await_steer": True}, {"say": "ok"}], *ORDINARY]}))

    def make_scene(self, *acts: Act) -> Scene | None:
        if any(isinstance(act, Dies) for act in acts):
            return None  # it is this process that would die
        return Scene(ScriptedTransport({"script": [steps(act) for act in acts]}).open(SPEC))


class TestTransport(TransportContract):
    def make_transport(self) -> Transport:
        return ScriptedTransport({"script": ORDINARY})

    def make_gone(self) -> tuple[Transport, str]:
        return ScriptedTransport({"script": GONE}), "scripted-0"


class TestTransportThatRefusesAtTheFirstTurn(TransportContract):
    def make_transport(self) -> Transport:
        return ScriptedTransport({"script": ORDINARY})

    def make_gone(self) -> tuple[Transport, str]:
        return ScriptedTransport({"script": [[{"refuse_resume": True}]]}), "scripted-0"


class InScriptedWorker(InWorker):
    provider = "scripted"
    options: ClassVar[Mapping[str, object]] = {"script": ORDINARY}


class TestConversationInAWorker(InScriptedWorker, SteerableConversationContract):
    def make_conversation(self) -> Conversation:
        return self.in_worker().open(SPEC)

    def make_steerable_conversation(self) -> SteerableConversation:
        return steerable(self.in_worker(script=[[{"await_steer": True}, {"say": "ok"}], *ORDINARY]))

    def make_scene(self, *acts: Act) -> Scene:
        return Scene(self.in_worker(script=[steps(act) for act in acts]).open(SPEC))


class TestTransportInAWorker(InScriptedWorker, TransportContract):
    def make_gone(self) -> tuple[Transport, str]:
        return self.in_worker(script=GONE), "scripted-0"
