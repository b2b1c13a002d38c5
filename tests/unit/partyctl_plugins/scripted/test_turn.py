"""One turn, step by step, on a clock that jumps."""

import signal
from typing import Any

import pytest

from partyctl_plugins.contract import TurnRequest, TurnResult
from partyctl_plugins.errors import (
    FailureKind,
    NoRunningTurnError,
    SessionResumeError,
    TurnFailedError,
    TurnTimeoutError,
)
from partyctl_plugins.events import (
    AssistantText,
    SessionStarted,
    SteerConsumed,
    SteerDelivered,
    SteerRejected,
    ToolCall,
    ToolResult,
    TurnInterrupted,
    UsageReport,
)
from partyctl_plugins.scripted.script import read
from partyctl_plugins.scripted.turn import Performance


class Stage:
    """Plays lists of steps."""

    def __init__(self, clock: Any, world: Any) -> None:
        self.clock = clock
        self.world = world
        self.events: list[object] = []
        self.performance: Performance

    def play(self, *steps: dict[str, object], timeout: float | None = None, resumed: bool = False) -> TurnResult:
        request = TurnRequest("say it now", timeout=timeout)
        self.performance = Performance(request, self.events.append, self.clock, self.world, "conv-1", resumed)
        return self.performance.play(read([list(steps)], "/").turns[0], "turn 1")

    def interrupt_in_wait(self) -> None:
        self.clock.during = lambda: self.performance.stop.set()


@pytest.fixture
def stage(clock: Any, world: Any) -> Stage:
    return Stage(clock, world)


class TestSaying:
    def test_the_last_thing_said_is_the_answer(self, stage: Stage) -> None:
        assert stage.play({"say": "first"}, {"stream": ["sec", "ond"]}).text == "second"
        assert [event.text for event in stage.events if isinstance(event, AssistantText)] == ["first", "sec", "ond"]

    def test_a_labelled_answer_is_json_and_structured(self, stage: Stage) -> None:
        result = stage.play({"say": {"label": "Draft", "payload": {"n": 1}}})
        assert result.text == '{"label": "Draft", "payload": {"n": 1}}'
        assert result.structured_output == {"label": "Draft", "payload": {"n": 1}}

    def test_the_conversation_is_named_at_its_first_turn_only(self, stage: Stage) -> None:
        assert stage.play({"say": "hi"}).session_id == "conv-1"
        assert stage.events[0] == SessionStarted("conv-1")
        stage.events.clear()
        assert stage.play({"say": "hi"}, resumed=True).resumed
        assert SessionStarted("conv-1") not in stage.events

    def test_usage_is_counted_in_words(self, stage: Stage) -> None:
        usage = stage.play({"say": "one two"}, {"say": "three"}).usage
        assert (usage.tokens.input_tokens, usage.tokens.output_tokens, usage.tokens.turns) == (3, 3, 1)
        assert stage.events[-1] == UsageReport(usage)

    def test_a_tool_is_called_and_comes_back(self, stage: Stage) -> None:
        stage.play({"tool": {"name": "ls", "args": {"p": "/"}, "stdout": "a", "exit_code": 1}}, {"tool": "cat"})
        used = [event for event in stage.events if isinstance(event, ToolCall | ToolResult)]
        assert used[:2] == [ToolCall("tool-1", "ls", {"p": "/"}), ToolResult("tool-1", "ls", "a", "", 1)]
        assert used[2] == ToolCall("tool-2", "cat")


class TestWaiting:
    def test_thinking_takes_its_time(self, stage: Stage) -> None:
        assert stage.play({"think": 2.5}).duration_ms == 2500

    def test_an_interrupt_ends_a_thought_and_the_turn(self, stage: Stage) -> None:
        stage.interrupt_in_wait()
        result = stage.play({"say": "so far"}, {"think": 60}, {"say": "never"})
        assert (result.interrupted, result.text, result.duration_ms) == (True, "so far", 0)
        assert TurnInterrupted() in stage.events

    def test_a_turn_that_ignores_interrupts_goes_on(self, stage: Stage) -> None:
        stage.interrupt_in_wait()
        result = stage.play({"ignore_interrupts": True}, {"think": 60}, {"say": "done"})
        assert (result.interrupted, result.text, result.duration_ms) == (False, "done", 60_000)

    @pytest.mark.parametrize("step", [{"think": 60}, {"hang": True}])
    def test_the_limit_of_a_turn_is_kept(self, stage: Stage, step: dict[str, object]) -> None:
        with pytest.raises(TurnTimeoutError):
            stage.play({"think": 4}, step, timeout=10)
        assert stage.clock.waits == [4, 6]

    def test_an_interrupt_before_the_limit_is_no_timeout(self, stage: Stage) -> None:
        stage.interrupt_in_wait()
        assert stage.play({"hang": True}, timeout=10).interrupted

    def test_a_thought_within_the_limit_is_no_timeout(self, stage: Stage) -> None:
        assert stage.play({"think": 4}, {"say": "done"}, timeout=10).text == "done"


class TestFailing:
    def test_a_failure_has_its_kind_message_and_reset_time(self, stage: Stage) -> None:
        with pytest.raises(TurnFailedError) as caught:
            stage.play({"fail": {"kind": "usage_limit", "message": "no more", "resets_at": 77}})
        assert (caught.value.kind, caught.value.resets_at) == (FailureKind.USAGE_LIMIT, 77)
        assert str(caught.value) == "no more (turn 1)"

    def test_a_refused_resume_names_the_conversation(self, stage: Stage) -> None:
        with pytest.raises(SessionResumeError) as caught:
            stage.play({"refuse_resume": True})
        assert caught.value.session_id == "conv-1"

    @pytest.mark.parametrize(("how", "end"), [(3, 3), ("SIGKILL", signal.SIGKILL)])
    def test_a_crash_ends_the_process(self, stage: Stage, how: object, end: object) -> None:
        stage.play({"crash": how})
        assert stage.world.ended == [end]

    def test_standard_error_is_flooded_to_the_byte(self, stage: Stage) -> None:
        stage.play({"flood_stderr": 100_001})
        assert len(stage.world.complaints) == 100_001

    def test_the_process_ends_when_nobody_holds_the_result(self, stage: Stage) -> None:
        result = stage.play({"exit_after_result": 4}, {"say": "last words"})
        assert (result.text, stage.world.ended) == ("last words", [])
        del result
        assert stage.world.ended == [4]


class TestSteering:
    def test_a_message_is_taken_in_where_the_next_step_begins(self, stage: Stage) -> None:
        stage.clock.during = lambda: stage.performance.steer("hurry")
        assert stage.play({"think": 5}, {"say": "done"}).text == "done"
        assert stage.events[1:4] == [SteerDelivered("hurry"), SteerConsumed("hurry"), AssistantText("done")]

    def test_a_turn_may_wait_for_one(self, stage: Stage) -> None:
        stage.clock.during = lambda: stage.performance.steer("go on")
        stage.play({"await_steer": True}, {"say": "done"}, timeout=60)
        assert SteerConsumed("go on") in stage.events

    def test_one_that_came_before_it_is_waited_for_need_not_come_again(self, stage: Stage) -> None:
        stage.clock.during = lambda: stage.performance.steer("early")
        stage.play({"think": 1}, {"say": "between"}, {"await_steer": True}, {"say": "done"}, timeout=60)
        assert stage.clock.waits == [1]
        stage.clock.during = lambda: None
        with pytest.raises(TurnTimeoutError):
            stage.play({"await_steer": True}, timeout=60)

    def test_waiting_for_one_ends_by_an_interrupt_or_the_timeout(self, stage: Stage) -> None:
        stage.clock.during = lambda: stage.performance.interrupt()
        assert stage.play({"await_steer": True}, timeout=60).interrupted
        stage.clock.during = lambda: None
        with pytest.raises(TurnTimeoutError):
            stage.play({"await_steer": True}, timeout=60)

    def test_one_that_comes_with_an_interrupt_is_rejected(self, stage: Stage) -> None:
        def both() -> None:
            stage.performance.interrupt()
            stage.performance.steer("late")

        stage.clock.during = both
        assert stage.play({"think": 5}, {"say": "never"}).interrupted
        assert stage.events[1:3] == [SteerDelivered("late"), SteerRejected("late", "the turn was interrupted")]

    def test_one_that_a_failure_overtakes_is_rejected(self, stage: Stage) -> None:
        stage.clock.during = lambda: stage.performance.steer("late")
        with pytest.raises(TurnTimeoutError):
            stage.play({"think": 70}, timeout=60)
        assert stage.events[1:] == [SteerDelivered("late"), SteerRejected("late", "the turn failed")]

    def test_after_the_end_there_is_nothing_to_steer(self, stage: Stage) -> None:
        stage.play({"say": "done"})
        with pytest.raises(NoRunningTurnError):
            stage.performance.steer("late")
