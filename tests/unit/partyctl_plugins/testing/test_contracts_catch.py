"""Each contract fails what breaks it: a conversation, a transport, a store or a clock with one thing wrong."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from partyctl.testing import (
    Act,
    CheckpointStoreContract,
    ClockContract,
    ConversationContract,
    Fails,
    FakeClock,
    FakeTransport,
    FakeTurn,
    Says,
    Scene,
    SteerableConversationContract,
    TransportContract,
    fake_profile,
    turn_failed,
)
from partyctl_base.clock import StopSignal
from partyctl_plugins.contract import (
    ApprovalPolicy,
    Checkpoint,
    ConversationSpec,
    Emit,
    FailureKind,
    InMemoryCheckpointStore,
    NativePermissions,
    ProviderProfile,
    TurnRequest,
    TurnResult,
)
from partyctl_plugins.events import SteerDelivered

SPEC = ConversationSpec("/", NativePermissions.bypass(), ApprovalPolicy.DENY)
BROKEN = (AssertionError, pytest.fail.Exception, ValueError, RuntimeError)


class Wrapped:
    """A good conversation of a `FakeTransport`; a subclass spoils one thing."""

    def __init__(self, *acts: Act) -> None:
        items = [
            FakeTurn(act.text)
            if isinstance(act, Says)
            else turn_failed(act.kind)
            if isinstance(act, Fails)
            else FakeTurn(stalls=True)
            for act in acts
        ]
        self.inner = FakeTransport(items).open(SPEC)

    @property
    def conversation_id(self) -> str | None:
        return self.inner.conversation_id

    def turn(self, request: TurnRequest, emit: Emit) -> TurnResult:
        return self.inner.turn(request, emit)

    def interrupt(self) -> None:
        self.inner.interrupt()

    def close(self) -> None:
        self.inner.close()


class Nameless(Wrapped):
    conversation_id = None


class OtherThread(Wrapped):
    def turn(self, request: TurnRequest, emit: Emit) -> TurnResult:
        def elsewhere(event: Any) -> None:
            thread = threading.Thread(target=emit, args=(event,))
            thread.start()
            thread.join()

        return self.inner.turn(request, elsewhere)


class Remembering(Wrapped):
    """An interrupt of an idle conversation ends the next turn."""

    wanted = False

    def interrupt(self) -> None:
        self.wanted = True
        self.inner.interrupt()

    def turn(self, request: TurnRequest, emit: Emit) -> TurnResult:
        wanted, self.wanted = self.wanted, False
        result = self.inner.turn(request, emit)
        return TurnResult(session_id=result.session_id, interrupted=True) if wanted else result


class Immortal(Wrapped):
    def close(self) -> None: ...


class CloseOnce(Wrapped):
    closed = False

    def close(self) -> None:
        if self.closed:
            raise RuntimeError("closed twice")
        self.closed = True


class Shifting(Wrapped):
    """A turn that a handler ended leaves its answer for the next one."""

    left: list[str]

    def turn(self, request: TurnRequest, emit: Emit) -> TurnResult:
        self.left = getattr(self, "left", [])
        result = self.inner.turn(request, lambda event: None)
        self.left.append(result.text)
        emit(SteerDelivered("x"))
        return TurnResult(self.left.pop(0), session_id=result.session_id)


class Swallowing(Wrapped):
    def turn(self, request: TurnRequest, emit: Emit) -> TurnResult:
        def quiet(event: Any) -> None:
            try:
                emit(event)
            except Exception:
                return

        return self.inner.turn(request, quiet)


class Retrying(Wrapped):
    def turn(self, request: TurnRequest, emit: Emit) -> TurnResult:
        try:
            return self.inner.turn(request, emit)
        except Exception:
            return self.inner.turn(request, emit)


class Trimming(Wrapped):
    def turn(self, request: TurnRequest, emit: Emit) -> TurnResult:
        result = self.inner.turn(request, emit)
        return TurnResult(result.text.strip(), session_id=result.session_id, resumed=result.resumed)


class Silent(Wrapped):
    """An interrupt ends the turn without an event."""

    def turn(self, request: TurnRequest, emit: Emit) -> TurnResult:
        return self.inner.turn(request, lambda event: None if "Interrupted" in type(event).__name__ else emit(event))


class Contract(ConversationContract):
    def __init__(self, kind: Callable[..., Wrapped]) -> None:
        self.kind = kind
        self._opened = []

    def make_conversation(self) -> Any:
        return self.kind()

    def make_scene(self, *acts: Act) -> Scene:
        return Scene(self.kind(*acts))


@pytest.mark.parametrize(
    ("kind", "check", "arguments"),
    [
        (Nameless, "a_turn_returns_a_result_and_names_the_conversation", {}),
        (OtherThread, "events_are_emitted_on_the_calling_thread", {}),
        (Remembering, "interrupting_an_idle_conversation_does_nothing", {}),
        (Immortal, "a_turn_after_close_raises_an_error_of_ours", {}),
        (CloseOnce, "close_is_idempotent_and_interrupt_after_close_is_harmless", {}),
        (Shifting, "what_a_handler_raises_reaches_the_caller_and_shifts_no_answer", {"mistake": ValueError("x")}),
        (Swallowing, "what_a_handler_raises_reaches_the_caller_and_shifts_no_answer", {"mistake": ValueError("x")}),
        (Retrying, "a_failed_turn_tells_its_kind_and_is_not_tried_again", {"kind": FailureKind.TRANSIENT}),
        (Trimming, "an_odd_answer_arrives_as_it_is", {"text": "two\n"}),
        (Silent, "an_interrupt_ends_the_running_turn_and_keeps_the_conversation", {}),
    ],
)
def test_a_conversation_with_one_thing_wrong_fails_its_check(
    kind: Callable[..., Wrapped], check: str, arguments: dict[str, Any]
) -> None:
    getattr(Contract(Wrapped), f"test_{check}")(**arguments)
    with pytest.raises(BROKEN):
        getattr(Contract(kind), f"test_{check}")(**arguments)


class Deaf(FakeTransport):
    """Takes any permission mode."""

    def open(self, spec: ConversationSpec) -> Any:
        return super().open(SPEC)


class Undecided(FakeTransport):
    count = 0

    @property
    def profile(self) -> ProviderProfile:
        self.count += 1
        return ProviderProfile(f"fake-{self.count}")


class Checked(TransportContract):
    def __init__(self, kind: Callable[[], FakeTransport]) -> None:
        self.kind = kind
        self._opened = []

    def make_transport(self) -> FakeTransport:
        return self.kind()

    def make_gone(self) -> tuple[FakeTransport, str]:
        return self.kind(), "conv-9"


@pytest.mark.parametrize(
    ("kind", "check", "arguments"),
    [
        (Deaf, "a_mode_outside_the_profile_is_rejected", {"mode": "read_only"}),
        (Deaf, "a_conversation_is_resumed_by_its_id", {}),
        (Undecided, "the_profile_stays_the_same", {}),
        (FakeTransport, "a_conversation_that_is_gone_is_refused_at_open_or_at_the_first_turn", {}),
    ],
)
def test_a_transport_with_one_thing_wrong_fails_its_check(
    kind: Callable[[], FakeTransport], check: str, arguments: dict[str, Any]
) -> None:
    getattr(Checked(lambda: FakeTransport(resumable=[])), f"test_{check}")(**arguments)
    with pytest.raises(BROKEN):
        getattr(Checked(kind), f"test_{check}")(**arguments)


class Forgetful(SteerableConversationContract):
    """A steer that tells nothing."""

    def __init__(self) -> None:
        self._opened = []

    def make_steerable_conversation(self) -> Any:
        conversation = FakeTransport([FakeTurn(awaits_steer=True)], fake_profile(supports_steer=True)).open(SPEC)
        turn = conversation.turn
        conversation.turn = lambda request, emit: turn(  # type: ignore[method-assign]
            request, lambda event: None if type(event).__name__.startswith("Steer") else emit(event)
        )
        return conversation


def test_a_steer_that_tells_nothing_fails_its_check() -> None:
    Forgetful().test_a_steer_during_a_turn_leaves_one_ordinary_result()
    with pytest.raises(BROKEN):
        Forgetful().test_steer_events_name_the_text_and_delivery_comes_first()


class Hasty(SteerableConversationContract):
    """A first turn that does not wait for a message."""

    def __init__(self) -> None:
        self._opened = []

    def make_steerable_conversation(self) -> Any:
        return FakeTransport(profile=fake_profile(supports_steer=True)).open(SPEC)


def test_a_turn_that_waits_for_no_message_fails_its_check_which_says_what_it_should_do() -> None:
    with pytest.raises(AssertionError, match="first turn of make_steerable_conversation, which goes on until one came"):
        Hasty().test_a_steer_during_a_turn_leaves_one_ordinary_result()


class ByPrompt(SteerableConversationContract):
    """A provider whose prompt decides whether a turn waits for a message."""

    def __init__(self) -> None:
        self._opened = []
        self.transport = FakeTransport([FakeTurn(awaits_steer=True)], fake_profile(supports_steer=True))

    def make_steerable_conversation(self) -> Scene:
        return Scene(self.transport.open(SPEC), ["wait"])


def test_what_is_asked_for_a_turn_that_waits_for_a_message_may_be_said() -> None:
    contract = ByPrompt()
    contract.test_a_steer_does_not_leak_into_the_next_turn()
    (conversation,) = contract.transport.conversations
    assert [request.prompt for request in conversation.turns] == ["wait", "go"]


class OneKey(InMemoryCheckpointStore):
    def save(self, key: str, checkpoint: Checkpoint) -> None:
        super().save(key.lower(), checkpoint)

    def load(self, key: str) -> Checkpoint | None:
        return super().load(key.lower())

    def clear(self, key: str) -> None:
        super().clear(key.lower())


class Store(CheckpointStoreContract):
    def make_store(self) -> Any:
        return OneKey()


class Setting(FakeClock):
    def wait(self, seconds: float, stop: StopSignal) -> bool:
        super().wait(seconds, stop)
        stop.set()
        return False


class Time(ClockContract):
    def make_clock(self) -> Any:
        return Setting()


def test_a_store_that_mixes_keys_and_a_clock_that_sets_its_stop_fail_their_checks() -> None:
    with pytest.raises(BROKEN):
        Store().test_keys_are_independent("KEY")
    with pytest.raises(BROKEN):
        Time().test_waiting_does_not_set_the_stop()
