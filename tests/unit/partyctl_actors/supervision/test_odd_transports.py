"""Transports in this process that keep to nothing: what they tell, how they are called, and what is left of them."""

import threading
from collections.abc import Callable

import pytest
from fakes.agent_sessions import local

from partyctl_actors.supervision.plan import SupervisorLimits
from partyctl_actors.supervision.policy_events import Phase
from partyctl_plugins.contract import (
    ConversationSpec,
    Emit,
    FailureKind,
    ProviderCapabilityError,
    ProviderProfile,
    SessionStateError,
    TurnFailedError,
    TurnRequest,
    TurnResult,
)
from partyctl_plugins.events import AssistantText

Play = Callable[[Emit], object]


class Odd:
    """A transport, and each of its conversations.

    Args:
        play: what a turn does besides returning.
        named: what each look at `conversation_id` gives, the last one for ever; an exception is raised.
        closing: what a close raises.
    """

    def __init__(
        self, play: Play = lambda emit: None, named: tuple[object, ...] = ("odd-1",),
        closing: BaseException | None = None, profile: object = ProviderProfile("odd"),
    ) -> None:  # fmt: skip
        self.profile = profile
        self.closed = threading.Event()
        self._play = play
        self._named = list(named)
        self._closing = closing

    def open(self, spec: ConversationSpec) -> "Odd":
        return self

    @property
    def conversation_id(self) -> object:
        named = self._named.pop(0) if len(self._named) > 1 else self._named[0]
        if isinstance(named, BaseException):
            raise named
        return named

    def turn(self, request: TurnRequest, emit: Emit) -> TurnResult:
        self._play(emit)
        return TurnResult("ok")

    def interrupt(self) -> None:
        """Nothing here takes time."""

    def close(self) -> None:
        self.closed.set()
        if self._closing is not None:
            raise self._closing


def elsewhere(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


class TestEvents:
    def test_what_another_thread_tells_is_heard_on_the_thread_that_runs_the_turn_before_its_end(self) -> None:
        def play(emit: Emit) -> None:
            elsewhere(lambda: emit(AssistantText("from elsewhere")))
            emit(AssistantText("from here"))
            elsewhere(lambda: emit(AssistantText("at the end")))

        told, _ = local(Odd(play))  # type: ignore[arg-type]
        told.run()
        assert [event.text for event in told.handler.events] == [  # type: ignore[union-attr]
            "from elsewhere", "from here", "at the end",
        ]  # fmt: skip
        assert set(told.handler.threads) == {threading.get_ident()}

    def test_an_event_that_comes_after_the_end_of_its_turn_is_refused_and_told_to_nobody(self) -> None:
        kept: list[Emit] = []
        told, _ = local(Odd(kept.append))  # type: ignore[arg-type]
        told.run()
        with pytest.raises(SessionStateError, match="after the end of its turn"):
            kept[0](AssistantText("late"))
        assert not told.handler.events

    def test_what_is_no_event_fails_the_turn_by_name(self) -> None:
        told, _ = local(Odd(lambda emit: emit("text")))  # type: ignore[arg-type]
        with pytest.raises(
            TurnFailedError, match=r"the transport broke \(turn\): TypeError: emit takes an event"
        ) as failed:
            told.run()
        assert failed.value.kind is FailureKind.OTHER
        assert not told.handler.events


class TestNames:
    @pytest.mark.parametrize(
        "named", [7, b"odd-1", ["odd-1"], RuntimeError("no name"), "", " ", "x" * 1025, "a\nb", "a\0", "\ud800"]
    )
    def test_a_conversation_that_does_not_say_how_it_is_called_fails_its_opening_and_is_closed(
        self, named: object
    ) -> None:
        transport = Odd(named=(named,))
        told, _ = local(transport)  # type: ignore[arg-type]
        with pytest.raises(TurnFailedError, match=r"the transport broke \(open\)"):
            told.run()
        assert transport.closed.wait(10)
        assert told.session.conversation_id is None

    def test_one_that_does_not_say_so_any_more_costs_no_answer_and_no_later_turn(self) -> None:
        told, _ = local(Odd(named=("odd-1", RuntimeError("no name"))))  # type: ignore[arg-type]
        assert [told.run().result.text for _ in range(2)] == ["ok", "ok"]
        assert told.session.conversation_id == "odd-1"

    def test_a_turn_that_fails_in_one_leaves_the_session_ready(self) -> None:
        def play(emit: Emit) -> None:
            raise KeyError("mine")

        told, _ = local(Odd(play, named=("odd-1", RuntimeError("no name"))))  # type: ignore[arg-type]
        with pytest.raises(TurnFailedError, match="KeyError"):
            told.run()
        assert told.session.state.phase is Phase.IDLE


def test_in_this_process_nobody_can_see_to_a_limit_of_silence() -> None:
    told, transport = local()
    ticket = told.session.prepare_turn(TurnRequest("go", idle_timeout=60))
    with pytest.raises(ProviderCapabilityError, match="idle_timeout"):
        told.session.run(ticket)
    assert transport.conversations[0].turns == []
    assert told.run().result.text == "ok"


def test_a_profile_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="profile of a transport must be ProviderProfile, not 'odd'"):
        local(Odd(profile="odd"))  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("no")])
def test_what_a_close_raises_is_a_line_of_the_log(
    error: BaseException, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    unheard: list[object] = []
    monkeypatch.setattr(threading, "excepthook", unheard.append)
    told, _ = local(Odd(closing=error), limits=SupervisorLimits(close=10))  # type: ignore[arg-type]
    told.run()
    told.session.close()
    assert "could not be closed" in caplog.text
    assert not unheard
