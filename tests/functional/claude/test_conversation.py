"""A conversation over a real process, the scripted CLI: turns, and everything a CLI can do wrong."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from partyctl_base.process import is_alive
from partyctl_plugins.contract import (
    AgentEvent,
    ApprovalPolicy,
    CliExitError,
    FailureKind,
    SessionResumeError,
    SessionStateError,
    TurnCancelledError,
    TurnFailedError,
    TurnRequest,
    TurnTimeoutError,
)
from partyctl_plugins.events import (
    ApprovalDenied,
    AssistantText,
    Lifecycle,
    RawOutput,
    SessionStarted,
    TurnInterrupted,
    UsageReport,
)

if TYPE_CHECKING:
    from conftest import Desk


Until = Callable[[Callable[[], bool]], None]


class TestTurns:
    def test_two_turns_share_one_process_and_its_context(self, desk: "Desk") -> None:
        conversation = desk.open()
        pid = conversation.pid
        assert conversation.conversation_id is None
        assert desk.ask(conversation, "[[say:first]]") == "first"
        assert desk.ask(conversation, "[[recall]]") == "first"
        assert conversation.pid == pid
        assert desk.events[:2] == [SessionStarted(conversation.conversation_id or ""), AssistantText("first")]

    def test_the_result_carries_usage_and_the_cost_of_this_turn_alone(self, desk: "Desk") -> None:
        conversation = desk.open()
        first = conversation.turn(TurnRequest("x"), desk.events.append)
        second = conversation.turn(TurnRequest("x"), desk.events.append)
        assert (first.resumed, second.resumed) == (False, True)
        assert first.usage.tokens.input_tokens == 150
        assert (first.cost_usd, second.cost_usd) == (pytest.approx(0.01), pytest.approx(0.01))

    def test_the_cli_is_not_told_that_it_runs_in_another_one(self, desk: "Desk") -> None:
        assert desk.environ["CLAUDECODE"] == "1"
        assert desk.ask(desk.open(), "[[env:CLAUDECODE]]") == "unset"

    def test_a_conversation_is_resumed_by_its_id(self, desk: "Desk") -> None:
        first = desk.open()
        desk.ask(first, "[[say:remember me]]")
        first.close()
        second = desk.open(resume=first.conversation_id)
        assert second.conversation_id == first.conversation_id
        assert desk.ask(second, "[[recall]]") == "remember me"

    def test_an_error_result_fails_the_turn_and_leaves_the_process(self, desk: "Desk") -> None:
        conversation = desk.open()
        with pytest.raises(TurnFailedError) as caught:
            desk.ask(conversation, "[[fail:529]]")
        assert caught.value.kind is FailureKind.TRANSIENT
        [report] = [event for event in desk.events if isinstance(event, UsageReport)]
        assert (report.usage.tokens.turns, report.usage.provider) == (1, "claude")
        pid = conversation.pid
        assert desk.ask(conversation, "[[say:still here]]") == "still here"
        assert conversation.pid == pid

    def test_noise_and_unknown_frames_do_not_disturb(self, desk: "Desk") -> None:
        conversation = desk.open("noise")
        assert desk.ask(conversation, "[[noise:2000]] [[unknown]] [[split]] [[say:through]]") == "through"
        noise = [event for event in desk.events if isinstance(event, RawOutput)]
        assert 0 < len(noise) <= 20

    def test_an_answer_of_megabytes_arrives_whole(self, desk: "Desk") -> None:
        assert len(desk.ask(desk.open(), "[[long:6000000]]")) == 6_000_000

    def test_a_prompt_of_megabytes_arrives_whole(self, desk: "Desk") -> None:
        assert desk.ask(desk.open(), "x" * 5_000_000 + "\n[[say:read]]") == "read"

    def test_a_cli_that_floods_stderr_answers_all_the_same(self, desk: "Desk") -> None:
        assert desk.ask(desk.open("flood"), "[[say:dry]]") == "dry"

    def test_a_second_turn_at_once_and_a_turn_after_the_close_are_refused(self, desk: "Desk") -> None:
        conversation = desk.open()
        refused: list[SessionStateError] = []

        def again(_: AgentEvent) -> None:
            with pytest.raises(SessionStateError) as caught:
                conversation.turn(TurnRequest("y"), desk.events.append)
            refused.append(caught.value)

        conversation.turn(TurnRequest("[[say:x]]"), again)
        assert refused
        conversation.close()
        with pytest.raises(SessionStateError, match="closed"):
            desk.ask(conversation, "x")


class TestRequests:
    def test_a_request_for_permission_is_denied_and_told(self, desk: "Desk") -> None:
        reply = json.loads(desk.ask(desk.open(), "[[ask]]"))
        assert reply["response"]["behavior"] == "deny"
        assert ApprovalDenied("Bash", '{"command": "rm x"}') in desk.events

    def test_an_unknown_request_is_answered_with_an_error(self, desk: "Desk") -> None:
        assert json.loads(desk.ask(desk.open(), "[[ask:hook_callback]]"))["subtype"] == "error"

    def test_a_request_between_turns_is_answered(self, desk: "Desk", until: Until) -> None:
        desk.ask(desk.open(), "[[say:x]] [[later:0.05]]")
        until((desk.home / "later.json").exists)
        until(lambda: "deny" in (desk.home / "later.json").read_text())

    def test_a_denial_fails_the_turn_if_the_caller_said_so(self, desk: "Desk") -> None:
        conversation = desk.open(approvals=ApprovalPolicy.FAIL_TURN)
        with pytest.raises(TurnFailedError, match="permissions"):
            desk.ask(conversation, "[[denied]]")
        assert desk.ask(conversation, "[[say:next]]") == "next"


class TestStart:
    def test_a_cli_that_dies_at_its_start_is_reported_with_its_stderr(self, desk: "Desk") -> None:
        with pytest.raises(CliExitError, match="cannot start") as caught:
            desk.open("die")
        assert caught.value.returncode == 3

    @pytest.mark.parametrize("word", ["hang", "deaf"])
    def test_a_cli_that_never_replies_is_given_up(self, desk: "Desk", word: str) -> None:
        began = time.monotonic()
        with pytest.raises(TurnTimeoutError) as caught:
            desk.open(word, startup_timeout_s=0.3)
        assert caught.value.timeout == 0.3
        assert time.monotonic() - began < 5

    def test_a_conversation_that_is_gone_is_refused_by_name(self, desk: "Desk") -> None:
        with pytest.raises(SessionResumeError, match="no-such") as caught:
            desk.open(resume="no-such")
        assert (caught.value.session_id, caught.value.returncode) == ("no-such", 1)

    def test_a_missing_command_is_reported_with_the_path(self, desk: "Desk") -> None:
        desk.environ["PATH"] = "/nowhere"
        with pytest.raises(TurnFailedError, match="PATH=/nowhere"):
            desk.open()

    def test_a_missing_directory_is_reported(self, desk: "Desk") -> None:
        desk.directory = desk.directory / "gone"
        with pytest.raises(TurnFailedError, match="gone"):
            desk.open()


class TestDeath:
    @pytest.mark.parametrize(("word", "status"), [("7", 7), ("SIGKILL", -signal.SIGKILL)])
    def test_a_crash_in_mid_turn_is_reported_and_the_next_turn_resumes(
        self, desk: "Desk", word: str, status: int
    ) -> None:
        conversation = desk.open()
        desk.ask(conversation, "[[say:before]]")
        with pytest.raises(CliExitError, match="crashing") as caught:
            desk.ask(conversation, f"[[stderr:100000]] [[crash:{word}]]")
        assert caught.value.returncode == status
        assert len(caught.value.stderr) <= 16 * 1024
        assert "last words" in caught.value.stderr
        assert desk.ask(conversation, "[[recall]]") == "before"
        assert any(isinstance(event, Lifecycle) for event in desk.events)

    def test_a_grandchild_that_holds_stdout_does_not_hide_the_death(self, desk: "Desk") -> None:
        conversation = desk.open()
        began = time.monotonic()
        with pytest.raises(CliExitError):
            desk.ask(conversation, "[[holder:30]] [[crash:9]]", timeout=None)
        took = time.monotonic() - began
        os.kill(int((desk.home / "holder.pid").read_text()), signal.SIGKILL)
        assert took < 5

    def test_a_death_between_turns_costs_the_next_turn_nothing(self, desk: "Desk", until: Until) -> None:
        conversation = desk.open()
        desk.ask(conversation, "[[say:before]]")
        pid = conversation.pid or 0
        os.kill(pid, signal.SIGKILL)
        until(lambda: not is_alive(pid))
        assert desk.ask(conversation, "[[recall]]") == "before"

    def test_a_line_beyond_the_ceiling_fails_the_turn_and_says_why(self, desk: "Desk") -> None:
        conversation = desk.open(max_line_bytes=100_000)
        with pytest.raises(TurnFailedError, match="more than 100000 bytes"):
            desk.ask(conversation, "[[long:200000]]")
        assert desk.ask(conversation, "[[say:next]]") == "next"

    def test_a_handler_that_raises_does_not_leave_its_answer_to_the_next_turn(self, desk: "Desk") -> None:
        conversation = desk.open()

        def broken(event: AgentEvent) -> None:
            if isinstance(event, AssistantText):
                raise RuntimeError("the handler's own fault")

        with pytest.raises(RuntimeError, match="own fault"):
            conversation.turn(TurnRequest("[[say:one]]"), broken)
        assert desk.ask(conversation, "[[say:two]]") == "two"


class TestInterrupt:
    def interrupted(self, desk: "Desk", prompt: str) -> float:
        """Run a turn, interrupt it at its first text; the seconds from the interrupt to its end."""
        conversation = desk.opened[-1]
        marks: list[float] = []

        def handler(event: AgentEvent) -> None:
            desk.events.append(event)
            if isinstance(event, AssistantText):
                marks.append(time.monotonic())
                thread = threading.Thread(target=conversation.interrupt)
                thread.start()
                thread.join()

        result = conversation.turn(TurnRequest(prompt), handler)
        assert (result.interrupted, result.text) == (True, "partial")
        assert desk.events[-1] == TurnInterrupted()
        return time.monotonic() - marks[0]

    def test_it_ends_the_turn_and_keeps_process_and_conversation(self, desk: "Desk") -> None:
        conversation = desk.open()
        pid = conversation.pid
        desk.ask(conversation, "[[say:before]]")
        self.interrupted(desk, "[[stall]]")
        assert desk.ask(conversation, "[[recall]]") == "before"
        assert conversation.pid == pid

    @pytest.mark.parametrize("ignores", ["[[ignore]]", "[[ignore:result]]", "[[ignore:reply]]"])
    def test_a_cli_that_takes_no_notice_or_half_of_it_is_killed_after_the_grace(
        self, desk: "Desk", ignores: str
    ) -> None:
        conversation = desk.open("ignore_term", interrupt_grace_s=0.5)
        desk.ask(conversation, "[[say:before]]")
        assert 0.4 < self.interrupted(desk, ignores) < 10
        assert desk.ask(conversation, "[[recall]]") == "before"

    def test_with_no_turn_running_it_does_nothing(self, desk: "Desk") -> None:
        conversation = desk.open()
        conversation.interrupt()
        assert desk.ask(conversation, "[[say:x]]") == "x"
        conversation.interrupt()
        assert desk.ask(conversation, "[[say:y]]") == "y"

    def test_with_no_turn_running_it_makes_no_later_death_an_interrupt(self, desk: "Desk") -> None:
        conversation = desk.open()
        conversation.interrupt()
        with pytest.raises(CliExitError):
            desk.ask(conversation, "[[crash:7]]")

    def test_a_cli_that_never_reads_cannot_hold_it(self, desk: "Desk") -> None:
        conversation = desk.open(interrupt_grace_s=0.3)
        thread = threading.Timer(0.2, conversation.interrupt)
        thread.start()
        result = conversation.turn(TurnRequest("[[deaf]]\n" + "x" * 3_000_000 + "\n[[deaf]]"), desk.events.append)
        thread.join()
        assert result.interrupted


class TestTimeout:
    def test_an_overrun_interrupts_and_keeps_the_process(self, desk: "Desk") -> None:
        conversation = desk.open()
        pid = conversation.pid
        with pytest.raises(TurnTimeoutError) as caught:
            desk.ask(conversation, "[[stall]]", timeout=0.3)
        assert caught.value.timeout == 0.3
        assert desk.ask(conversation, "[[say:next]]") == "next"
        assert conversation.pid == pid

    def test_an_overrun_that_takes_no_notice_ends_the_process(self, desk: "Desk") -> None:
        conversation = desk.open(interrupt_grace_s=0.3)
        pid = conversation.pid
        with pytest.raises(TurnTimeoutError):
            desk.ask(conversation, "[[ignore]]", timeout=0.3)
        assert not is_alive(pid or 0)
        assert desk.ask(conversation, "[[say:next]]") == "next"

    def test_input_that_is_left_unread_fails_the_turn(self, desk: "Desk") -> None:
        conversation = desk.open(write_timeout_s=0.5)
        desk.ask(conversation, "[[say:x]]")
        os.kill(conversation.pid or 0, signal.SIGSTOP)
        with pytest.raises(TurnFailedError, match="left its input unread"):
            desk.ask(conversation, "x" * 1_000_000)
        assert desk.ask(conversation, "[[say:next]]") == "next"


class TestClose:
    def test_the_end_of_its_input_ends_the_process(self, desk: "Desk") -> None:
        conversation = desk.open(close_grace_s=20)
        began = time.monotonic()
        conversation.close()
        assert not is_alive(conversation.pid or 0)
        assert time.monotonic() - began < 15, "it did not go by itself"
        conversation.close()

    @pytest.mark.parametrize("words", ["stay", "stay ignore_term", "flood stay ignore_term"])
    def test_whoever_does_not_go_is_made_to(self, desk: "Desk", words: str) -> None:
        conversation = desk.open(words)
        conversation.close()
        assert not is_alive(conversation.pid or 0)

    @pytest.mark.parametrize("prompt", ["[[ignore]]", "[[deaf]]\n" + "x" * 3_000_000 + "\n[[deaf]]"])
    def test_a_running_turn_is_cancelled(self, desk: "Desk", prompt: str) -> None:
        conversation = desk.open("ignore_term")
        thread = threading.Timer(0.2, conversation.close)
        thread.start()
        with pytest.raises(TurnCancelledError):
            desk.ask(conversation, prompt)
        thread.join()
        assert not is_alive(conversation.pid or 0)

    def test_what_the_cli_started_in_its_session_goes_with_it_when_it_is_killed(
        self, desk: "Desk", until: Until
    ) -> None:
        conversation = desk.open("stay ignore_term")
        desk.ask(conversation, "[[holder:30]] [[say:x]]")
        held = int((desk.home / "holder.pid").read_text())
        assert is_alive(held)
        conversation.close()
        until(lambda: not is_alive(held))

    def test_no_thread_and_no_descriptor_is_left(self, desk: "Desk") -> None:
        threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            conversation = desk.open()
            desk.ask(conversation, "[[say:x]]")
            conversation.close()
        until_quiet = time.monotonic() + 5
        while threading.active_count() > threads and time.monotonic() < until_quiet:
            time.sleep(0.01)
        assert threading.active_count() == threads
        assert len(os.listdir("/proc/self/fd")) == descriptors
