"""The scripted provider in a worker of its own: turns, interrupts, crashes, ends."""

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from partyctl_plugins.contract import (
    FailureKind,
    SessionResumeError,
    SessionStateError,
    TurnFailedError,
    TurnTimeoutError,
)
from partyctl_plugins.events import (
    AssistantText,
    SessionStarted,
    ToolCall,
    ToolResult,
    TurnInterrupted,
    UsageReport,
)
from partyctl_plugins.manager import resolve
from partyctl_plugins.records import Close, Closed, Failed, Interrupt, Opened, Phase, Result

SAY = [{"say": "hello"}]
THINK: list[dict[str, object]] = [{"say": "thinking"}, {"think": 600}, {"say": "never"}]


def test_a_turn_gives_its_events_in_order_and_then_its_result(forked: Any) -> None:
    conversation = forked.play([{"tool": "ls"}, {"stream": ["he", "llo"]}])
    forked.turn("turn-7", "say hello please")
    report = forked.receive(Result)
    assert (report.turn_id, report.result.text, report.conversation_id) == ("turn-7", "hello", conversation)
    assert report.result.usage.tokens.input_tokens == 3
    kinds = [type(event) for event in forked.events]
    assert kinds == [SessionStarted, ToolCall, ToolResult, AssistantText, AssistantText, UsageReport]


def test_turns_follow_one_another_and_close_ends_the_worker(forked: Any) -> None:
    forked.play(SAY, [{"say": "again"}])
    texts = []
    for number in (1, 2):
        forked.turn(f"turn-{number}")
        texts.append(forked.receive(Result).result.text)
    assert texts == ["hello", "again"]
    forked.send(Close())
    forked.receive(Closed)
    assert forked.next() is None
    assert forked.ending().status == 0


def test_an_answer_larger_than_a_record_arrives_whole(forked: Any) -> None:
    forked.play([{"say": "x" * 1_000_000}])
    forked.turn()
    assert forked.receive(Result).result.text == "x" * 1_000_000


@pytest.mark.parametrize("kind", list(FailureKind))
def test_a_failed_turn_keeps_its_kind_and_the_worker(forked: Any, kind: FailureKind) -> None:
    conversation = forked.play([{"fail": kind.value}], SAY)
    forked.turn("turn-1")
    failed = forked.receive(Failed)
    assert (failed.phase, failed.turn_id, failed.conversation_id) == (Phase.TURN, "turn-1", conversation)
    error = failed.exception()
    assert isinstance(error, TurnFailedError)
    assert error.kind is kind
    forked.turn("turn-1")
    assert forked.receive(Result).result.text == "hello"


def test_a_turn_past_the_end_of_the_script_fails_and_says_so(forked: Any) -> None:
    forked.play(SAY)
    forked.turn()
    forked.receive(Result)
    forked.turn("turn-2")
    assert "the script has no turn 2" in str(forked.receive(Failed).exception())


class TestInterrupt:
    @pytest.mark.parametrize("waiting", [{"think": 600}, {"hang": True}])
    def test_it_ends_the_turn_and_keeps_the_conversation(self, forked: Any, waiting: dict[str, object]) -> None:
        conversation = forked.play([{"say": "so far"}, waiting, {"say": "never"}], SAY)
        forked.turn("turn-1")
        forked.receive_event(AssistantText)
        forked.send(Interrupt("turn-1"))
        report = forked.receive(Result)
        assert (report.result.interrupted, report.result.text) == (True, "so far")
        assert TurnInterrupted() in forked.events
        forked.turn("turn-2")
        after = forked.receive(Result)
        assert (after.result.interrupted, after.conversation_id) == (False, conversation)

    def test_one_that_comes_right_behind_its_turn_is_not_lost(self, forked: Any) -> None:
        forked.play(*[[{"hang": True}]] * 20)
        for number in range(20):
            forked.turn(f"turn-{number}")
            forked.send(Interrupt(f"turn-{number}"))
            assert forked.receive(Result).result.interrupted

    def test_one_for_another_turn_does_nothing(self, forked: Any) -> None:
        forked.play([{"say": "on"}, {"think": 0.1}, {"say": "hello"}])
        forked.send(Interrupt("turn-1"))
        forked.turn("turn-1")
        forked.receive_event(AssistantText)
        forked.send(Interrupt("turn-0"))
        result = forked.receive(Result).result
        assert (result.interrupted, result.text) == (False, "hello")

    def test_a_turn_that_ignores_it_goes_on(self, forked: Any) -> None:
        forked.play([{"ignore_interrupts": True}, {"say": "on"}, {"think": 0.5}, {"say": "done"}])
        forked.turn("turn-1")
        forked.receive_event(AssistantText)
        forked.send(Interrupt("turn-1"))
        result = forked.receive(Result).result
        assert (result.interrupted, result.text) == (False, "done")

    def test_a_limit_ends_a_turn_that_hangs(self, forked: Any) -> None:
        forked.play([{"hang": True}], SAY)
        forked.turn(timeout=0.05)
        assert isinstance(forked.receive(Failed).exception(), TurnTimeoutError)
        forked.turn()
        assert forked.receive(Result).result.text == "hello"


class TestResume:
    def test_a_resumed_conversation_keeps_its_id(self, forked: Any) -> None:
        assert forked.play(SAY, resume_id="conv-9") == "conv-9"
        forked.turn()
        assert forked.receive(Result).result.resumed

    def test_a_refusal_at_open_is_reported_and_a_fresh_conversation_can_follow(self, forked: Any) -> None:
        script = {"refuse_resume": True, "turn": [SAY]}
        forked.load(resolve("scripted"), script=script)
        forked.next()
        forked.open("conv-9")
        failed = forked.receive(Failed)
        assert failed.phase is Phase.OPEN
        assert isinstance(failed.exception(), SessionResumeError)
        forked.open()
        forked.receive(Opened)

    def test_a_refusal_in_the_turn_is_reported(self, forked: Any) -> None:
        forked.play([{"refuse_resume": True}], resume_id="conv-9")
        forked.turn()
        error = forked.receive(Failed).exception()
        assert isinstance(error, SessionResumeError)
        assert error.session_id == "conv-9"


class TestEnds:
    @pytest.mark.parametrize(
        ("how", "status", "signalled"), [(3, 3, None), ("SIGKILL", None, signal.SIGKILL), ("SIGTERM", None, 15)]
    )
    def test_a_crash_ends_the_process_as_told(
        self, forked: Any, how: object, status: int | None, signalled: int | None
    ) -> None:
        forked.play([{"say": "last words"}, {"crash": how}])
        forked.turn()
        assert forked.next() is None
        assert AssistantText("last words") in forked.events
        assert (forked.ending().status, forked.ending().signal) == (status, signalled)

    def test_a_result_is_sent_before_the_exit_that_follows_it(self, forked: Any) -> None:
        forked.play([{"say": "bye"}, {"exit_after_result": 5}])
        forked.turn()
        assert forked.receive(Result).result.text == "bye"
        assert forked.next() is None
        assert forked.ending().status == 5

    def test_a_flood_of_standard_error_does_not_touch_the_channel(self, forked: Any) -> None:
        forked.play([{"flood_stderr": 3_000_000}, {"say": "still here"}])
        forked.turn()
        assert forked.receive(Result).result.text == "still here"
        assert len(forked.log()) == 3_000_000

    @pytest.mark.parametrize("deaf", [[], [{"ignore_interrupts": True}]])
    def test_the_end_of_the_channel_ends_the_process_in_the_middle_of_a_turn(
        self, forked: Any, deaf: list[dict[str, object]]
    ) -> None:
        forked.play([*deaf, *THINK])
        forked.turn()
        forked.receive_event(AssistantText)
        forked.channel.close()
        started = time.monotonic()
        assert forked.ending().status == 0
        assert time.monotonic() - started < 5

    def test_the_end_of_the_channel_ends_an_idle_process(self, forked: Any) -> None:
        forked.play(SAY)
        forked.channel.close()
        assert forked.ending().status == 0

    def test_the_end_of_the_channel_ends_a_process_that_nobody_reads(self, forked: Any) -> None:
        forked.play([{"stream": ["x" * 60_000] * 100}])
        forked.turn()
        time.sleep(0.1)  # until the socket is full: what is tested is a process that waits to send
        forked.channel.close()
        assert forked.ending().status == 0

    def test_close_ends_a_running_turn_first(self, forked: Any) -> None:
        forked.play(THINK)
        forked.turn()
        forked.receive_event(AssistantText)
        forked.send(Close())
        assert forked.receive(Result).result.interrupted
        forked.receive(Closed)
        assert forked.ending().status == 0

    def test_close_without_a_conversation_ends_the_worker(self, forked: Any) -> None:
        forked.send(Close())
        forked.receive(Closed)
        assert forked.ending().status == 0

    def test_a_record_that_is_none_of_ours_ends_the_worker_and_says_why(self, forked: Any) -> None:
        forked.channel.send(b"\x81\xa1t\xa5dance")
        assert forked.next() is None
        assert forked.ending().status == 70
        assert "unknown t 'dance'" in forked.log()


class TestOrder:
    def test_a_turn_before_a_conversation_is_refused(self, forked: Any) -> None:
        forked.turn()
        failed = forked.receive(Failed)
        assert failed.phase is Phase.TURN
        assert isinstance(failed.exception(), SessionStateError)

    def test_an_open_before_a_plugin_is_refused(self, forked: Any) -> None:
        forked.open()
        assert isinstance(forked.receive(Failed).exception(), SessionStateError)

    def test_a_second_plugin_and_a_second_conversation_are_refused(self, forked: Any) -> None:
        forked.play(SAY)
        forked.load(resolve("scripted"), script=[SAY])
        assert forked.receive(Failed).phase is Phase.LOAD
        forked.open()
        assert forked.receive(Failed).phase is Phase.OPEN
        forked.turn()
        assert forked.receive(Result).result.text == "hello"


def test_workers_are_independent(hire: Callable[[], Any]) -> None:
    first, second = hire(), hire()
    first.play([{"crash": 3}])
    second.play(SAY)
    first.turn()
    assert first.ending().status == 3
    second.turn()
    assert second.receive(Result).result.text == "hello"


def test_commands_may_come_from_any_thread_of_the_supervisor(forked: Any) -> None:
    forked.play(THINK)
    forked.turn("turn-1")
    forked.receive_event(AssistantText)
    thread = threading.Thread(target=forked.send, args=(Interrupt("turn-1"),))
    thread.start()
    thread.join()
    assert forked.receive(Result).result.interrupted
