"""A script is shared, and what was asked is remembered."""

import subprocess
import sys

import pytest

from partyctl.testing import FakeTransport, FakeTurn, fake_profile, resume_refused, turn_failed, turn_timeout
from partyctl_plugins.contract import (
    ApprovalPolicy,
    ConversationSpec,
    FailureKind,
    NativePermissions,
    ProviderCapabilityError,
    SessionResumeError,
    SteerableConversation,
    TurnFailedError,
    TurnRequest,
    TurnTimeoutError,
)
from partyctl_plugins.events import AgentEvent, AssistantText, SessionStarted, TurnInterrupted

GO = TurnRequest("go")


def spec(resume_id: str | None = None) -> ConversationSpec:
    return ConversationSpec("/", NativePermissions.bypass(), ApprovalPolicy.DENY, resume_id=resume_id)


def ignored(event: AgentEvent) -> None: ...


@pytest.mark.parametrize("wrong", ["done", None, TurnFailedError, KeyboardInterrupt()])
def test_what_is_no_turn_is_refused_before_anything_is_played(wrong: object) -> None:
    with pytest.raises(TypeError, match="turn 2 of a script must be a FakeTurn or an exception, not"):
        FakeTransport([FakeTurn(), wrong])  # type: ignore[list-item]


def test_a_turn_by_itself_is_no_script() -> None:
    with pytest.raises(TypeError, match="a script must be a sequence of turns, not FakeTurn"):
        FakeTransport(FakeTurn())  # type: ignore[arg-type]


def test_a_refusal_names_the_first_conversation_unless_told_otherwise() -> None:
    conversation = FakeTransport([FakeTurn(), resume_refused()]).open(spec())
    conversation.turn(GO, ignored)
    with pytest.raises(SessionResumeError) as refused:
        conversation.turn(GO, ignored)
    assert refused.value.session_id == conversation.conversation_id


def test_conversations_share_the_script_and_succeed_after_its_end() -> None:
    transport = FakeTransport([FakeTurn("one"), turn_failed(FailureKind.TRANSIENT, "529"), FakeTurn("two")])
    first, second = transport.open(spec()), transport.open(spec())
    assert first.turn(GO, ignored).text == "one"
    with pytest.raises(TurnFailedError) as failed:
        second.turn(GO, ignored)
    assert (failed.value.kind, failed.value.detail) == (FailureKind.TRANSIENT, "529")
    assert [second.turn(GO, ignored).text, first.turn(GO, ignored).text] == ["two", "ok"]
    assert transport.script_left == 0
    assert [first.conversation_id, second.conversation_id] == ["conv-1", "conv-2"]


def test_what_was_asked_is_remembered() -> None:
    transport = FakeTransport()
    conversation = transport.open(spec("conv-7"))
    conversation.turn(GO, ignored)
    conversation.interrupt()
    conversation.close()
    conversation.close()
    assert transport.specs == [spec("conv-7")]
    assert transport.conversations == [conversation]
    assert (conversation.turns, conversation.interrupts, conversation.close_calls) == ([GO], 1, 2)


def test_a_turn_tells_its_events_and_figures() -> None:
    events: list[AgentEvent] = []
    turn = FakeTurn("hi", "conv-x", 7, 30, [AssistantText("so")], context_tokens=99, output_tokens=2)
    result = FakeTransport([turn]).open(spec()).turn(GO, events.append)
    assert events == [SessionStarted("conv-x"), AssistantText("so"), AssistantText("hi")]
    assert (result.usage.tokens.input_tokens, result.usage.tokens.output_tokens) == (7, 2)
    assert (result.session_id, result.duration_ms, result.context_tokens) == ("conv-x", 30, 99)


def test_a_turn_may_be_interrupted_in_its_middle() -> None:
    transport = FakeTransport([FakeTurn(during=lambda: transport.conversations[0].interrupt())])
    events: list[AgentEvent] = []
    assert transport.open(spec()).turn(GO, events.append).interrupted
    assert TurnInterrupted() in events


@pytest.mark.parametrize("at_open", [True, False])
def test_an_id_that_cannot_be_resumed_takes_no_turn_of_the_script(at_open: bool) -> None:
    transport = FakeTransport([FakeTurn("kept")], resumable=["conv-8"], refuse_at_open=at_open)
    with pytest.raises(SessionResumeError):
        transport.open(spec("conv-9")).turn(GO, ignored)
    assert transport.open(spec("conv-8")).turn(GO, ignored).text == "kept"


def test_what_it_has_named_itself_can_be_resumed() -> None:
    transport = FakeTransport(resumable=[])
    named = transport.open(spec()).turn(GO, ignored).session_id
    assert transport.open(spec(named)).turn(GO, ignored).resumed


def test_a_provider_that_resumes_nothing_refuses_to() -> None:
    with pytest.raises(ProviderCapabilityError):
        FakeTransport(profile=fake_profile(supports_resume=False)).open(spec("conv-1"))


def test_only_a_profile_that_says_so_makes_a_conversation_steerable() -> None:
    assert not isinstance(FakeTransport().open(spec()), SteerableConversation)
    assert isinstance(FakeTransport(profile=fake_profile(supports_steer=True)).open(spec()), SteerableConversation)


def test_failures_have_short_names() -> None:
    assert resume_refused("conv-1").session_id == "conv-1"
    assert isinstance(turn_timeout(3.0), TurnTimeoutError)
    assert turn_failed().kind is FailureKind.OTHER


def test_the_kit_needs_pytest_for_its_contracts_only() -> None:
    program = (
        "import sys; sys.modules['pytest'] = None\n"
        "import partyctl.testing as kit\n"
        "names = [name for name in kit.__all__ if not name.endswith('Contract') and name != 'InWorker']\n"
        "assert all(getattr(kit, name) for name in names)\n"
        "try:\n    kit.TransportContract\nexcept ImportError: print('asked for pytest')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "asked for pytest\n", done.stderr
