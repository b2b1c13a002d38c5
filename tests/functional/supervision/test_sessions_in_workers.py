"""Agent sessions over real workers: what happens to them when a worker, a command or the launcher misbehaves."""

import os
import queue
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from fakes.agent_sessions import GO, Told, WorkerGrounds, at_the_first_event, claude, start, wait_until

from partyctl_actors.supervision.plan import SupervisorLimits
from partyctl_actors.supervision.policy_commands import Rule
from partyctl_plugins.contract import (
    CliExitError,
    Continuity,
    FailureKind,
    NoRunningTurnError,
    PluginLoadError,
    ProviderCapabilityError,
    RetryPolicy,
    TurnCancelledError,
    TurnFailedError,
    TurnLostError,
    TurnRequest,
    TurnTicket,
    TurnTimeoutError,
)
from partyctl_plugins.events import (
    AgentEvent,
    AssistantText,
    SteerConsumed,
    SteerDelivered,
    SteerRejected,
    TurnInterrupted,
)
from partyctl_plugins.manager import ProviderEntry
from partyctl_plugins.testing import FakeCheckpointStore, FakeClock, RecordingEventHandler

GRACE = SupervisorLimits(hire=40, load=40, interrupt=0.5, close=0.5)
SLEEPING = ProviderEntry("sleeps", "sleeping_plugin")
RACES = 1000


class TestTurns:
    def test_turns_continue_one_conversation_and_a_release_brings_another_worker(
        self, open_session: Callable[..., Told], grounds: WorkerGrounds
    ) -> None:
        told = open_session([{"say": "one"}], [{"say": "two"}], [{"say": "three"}])
        first, second = told.run(), told.run()
        assert (first.result.text, second.result.text) == ("one", "two")
        pid = grounds.pids[-1]
        told.session.release()
        assert not psutil.pid_exists(pid)
        third = told.run()
        assert (third.conversation_id, third.continuity) == (first.conversation_id, Continuity.CONTINUED)
        assert grounds.pids[-1] != pid

    def test_events_come_on_the_callers_thread_and_a_handler_that_raises_shifts_no_answer(
        self, open_session: Callable[..., Told]
    ) -> None:
        told = open_session(
            [{"tool": "read"}, {"say": "one"}], [{"say": "two"}], [{"say": "three"}],
            handlers=[RecordingEventHandler(RuntimeError("mine"))],
        )  # fmt: skip
        assert [told.run().result.text for _ in range(3)] == ["one", "two", "three"]
        assert set(told.handler.threads) == {threading.get_ident()}
        assert told.decided == []

    def test_a_handler_that_raises_gives_no_answer_of_a_real_command_to_the_next_turn(
        self, open_session: Callable[..., Told], tmp_path: Path
    ) -> None:
        told = claude(open_session, tmp_path, handlers=[RecordingEventHandler(RuntimeError("mine"))])
        answers = [told.run(f"[[say:answer {number}]]").result.text for number in range(4)]
        assert answers == [f"answer {number}" for number in range(4)]

    def test_ctrl_c_in_a_turn_gives_its_answer_to_nobody(
        self, open_session: Callable[..., Told], tmp_path: Path
    ) -> None:
        class Pressed:
            def __init__(self) -> None:
                self.left = 1

            def on_event(self, event: AgentEvent) -> None:
                if isinstance(event, AssistantText) and self.left:
                    self.left = 0
                    raise KeyboardInterrupt

        told = claude(open_session, tmp_path, handlers=[Pressed()])
        with pytest.raises(KeyboardInterrupt):
            told.run("[[say:answer 1]]")
        assert told.run("[[say:answer 2]]").result.text == "answer 2"

    def test_a_store_that_raises_loses_no_result(self, open_session: Callable[..., Told]) -> None:
        store = FakeCheckpointStore()
        store.failures["save"] = OSError("disk full")
        told = open_session([{"say": "paid for"}], [{"say": "again"}], store=store)
        assert told.run().result.text == "paid for"
        assert told.run().continuity is Continuity.CONTINUED

    def test_odd_and_large_text_comes_through(self, open_session: Callable[..., Told]) -> None:
        told = open_session([{"say": "\ud800 ok"}])
        assert told.run("\udfff" + "x" * 2_000_000).result.text == "\ud800 ok"

    def test_steering_meets_the_turn_or_none(self, open_session: Callable[..., Told]) -> None:
        told = open_session([{"say": "hm"}, {"await_steer": True}, {"say": "ok"}])
        with pytest.raises(NoRunningTurnError):
            told.session.steer("early")
        at_the_first_event(told, lambda: told.session.steer("use the cache"))
        told.run()
        assert told.handler.of(SteerDelivered, SteerConsumed) == [
            SteerDelivered("use the cache"),
            SteerConsumed("use the cache"),
        ]
        assert set(told.handler.threads) == {threading.get_ident()}
        with pytest.raises(NoRunningTurnError):
            told.session.steer("late")

    def test_a_message_that_the_provider_refuses_is_told_on_the_turns_thread(
        self, open_session: Callable[..., Told]
    ) -> None:
        told = open_session([{"say": "hm"}, {"hang": True}], [{"say": "next"}])
        at_the_first_event(told, lambda: (told.session.steer("hurry"), told.session.interrupt()), AssistantText)
        assert told.run().result.interrupted
        assert told.handler.of(SteerDelivered, SteerRejected) == [
            SteerDelivered("hurry"),
            SteerRejected("hurry", "the turn was interrupted"),
        ]
        assert set(told.handler.threads) == {threading.get_ident()}

    def test_where_a_message_is_not_taken_that_is_said(self, open_session: Callable[..., Told]) -> None:
        told = open_session(provider=ProviderEntry("instant", "instant_plugin"), options={"text": "{}"})
        with pytest.raises(ProviderCapabilityError):
            told.session.steer("hm")


class TestInterrupts:
    def test_one_that_is_obeyed_keeps_worker_and_conversation(
        self, open_session: Callable[..., Told], grounds: WorkerGrounds
    ) -> None:
        told = open_session([{"say": "hm"}, {"hang": True}], [{"say": "next"}])
        at_the_first_event(told, told.session.interrupt)
        turn = told.run()
        assert (turn.result.interrupted, turn.forced) == (True, False)
        pid = grounds.pids[-1]
        assert told.run().result.text == "next"
        assert grounds.pids[-1] == pid

    def test_one_that_is_ignored_costs_the_worker_and_says_so(
        self, open_session: Callable[..., Told], grounds: WorkerGrounds
    ) -> None:
        told = open_session([{"ignore_interrupts": True}, {"say": "mute"}, {"hang": True}], limits=GRACE)
        at_the_first_event(told, told.session.interrupt, AssistantText)
        began = time.monotonic()
        turn = told.run()
        assert (turn.result.interrupted, turn.forced) == (True, True)
        assert time.monotonic() - began < GRACE.interrupt + 1
        assert told.handler.events[-1] == TurnInterrupted()
        assert not psutil.pid_exists(grounds.pids[-1])
        assert told.session.conversation_id == turn.conversation_id

    def test_one_ends_an_opening_at_once(self, open_session: Callable[..., Told]) -> None:
        told = open_session(provider=ProviderEntry("slow", "slow_opening_plugin"), options={})
        interrupter = threading.Timer(0.3, told.session.interrupt)
        interrupter.start()
        began = time.monotonic()
        with pytest.raises(TurnCancelledError):
            told.run()
        assert time.monotonic() - began < 3
        interrupter.join()

    def test_one_that_names_an_earlier_turn_never_lands_on_the_next(self, open_session: Callable[..., Told]) -> None:
        """1,000 races with the end of a turn in a real worker, and the beginning of the next one there."""
        told = open_session(provider=ProviderEntry("instant", "instant_plugin"), options={})
        orders: queue.SimpleQueue[tuple[TurnTicket, float] | None] = queue.SimpleQueue()

        def race() -> None:
            while (order := orders.get()) is not None:
                ticket, moment = order
                while time.perf_counter() < moment:
                    pass
                told.session.interrupt(ticket)

        racer, ran = start(race), 0
        for number in range(RACES):
            first = told.session.prepare_turn(GO)
            # A turn takes half a millisecond here, so the interrupts come before, in, at the end of, and after it.
            orders.put((first, time.perf_counter() + number % 50 * 0.00003))
            try:
                told.session.run(first)
                ran += 1
            except TurnCancelledError:
                pass
            assert not told.run().result.interrupted
        orders.put(None)
        racer.join()
        assert ran > RACES / 4

    def test_close_ends_a_turn_whose_provider_is_deaf(self, open_session: Callable[..., Told]) -> None:
        told = open_session([{"ignore_interrupts": True}, {"say": "mute"}, {"hang": True}], limits=GRACE)
        at_the_first_event(told, told.session.close, AssistantText)
        assert told.run().result.interrupted


class TestDeaths:
    def test_a_worker_that_dies_in_a_turn_fails_it_with_how_it_ended(
        self, open_session: Callable[..., Told], grounds: WorkerGrounds, tmp_path: Path
    ) -> None:
        told = claude(open_session, tmp_path)
        conversation = told.run("[[say:one]]").conversation_id
        kill = lambda: os.kill(grounds.pids[-1], signal.SIGKILL)  # noqa: E731
        at_the_first_event(told, kill)
        with pytest.raises(CliExitError, match="killed by SIGKILL"):
            told.run("[[stall]]", expect_conversation=conversation)
        assert told.rules == [Rule.PROPAGATE]
        turn = told.run("[[recall]]")
        assert (turn.result.text, turn.conversation_id) == ("one", conversation)

    def test_a_worker_that_died_between_turns_costs_the_next_one_nothing(
        self, open_session: Callable[..., Told], grounds: WorkerGrounds
    ) -> None:
        told = open_session([{"say": "one"}], [{"say": "two"}])
        conversation = told.run().conversation_id
        os.kill(grounds.pids[-1], signal.SIGKILL)
        psutil.wait_procs([psutil.Process(grounds.pids[-1])] if psutil.pid_exists(grounds.pids[-1]) else [], timeout=20)
        wait_until(lambda: told.session._core.connections.dead)
        turn = told.run()
        assert (turn.conversation_id, turn.continuity) == (conversation, Continuity.CONTINUED)
        assert told.decided == []

    def test_a_worker_that_dies_before_the_next_attempt_costs_the_turn_nothing(
        self, open_session: Callable[..., Told], grounds: WorkerGrounds
    ) -> None:
        def dies(seconds: float) -> None:
            os.kill(grounds.pids[-1], signal.SIGKILL)
            wait_until(lambda: told.session._core.connections.dead)

        told = open_session(
            [{"say": "one"}], [{"fail": "transient"}], [{"say": "two"}], clock=FakeClock(on_wait=dies)
        )  # fmt: skip
        conversation = told.run().conversation_id
        turn = told.run()
        assert (turn.conversation_id, turn.continuity) == (conversation, Continuity.CONTINUED)
        assert told.rules == [Rule.RETRY]
        assert told.clock.waits == [30]  # type: ignore[attr-defined]

    def test_transient_failures_are_retried_in_the_same_worker(
        self, open_session: Callable[..., Told], grounds: WorkerGrounds
    ) -> None:
        hired = len(grounds.pids)
        told = open_session([{"fail": "transient"}], [{"say": "done"}], retry=RetryPolicy((0.01,)))
        assert told.run().result.text == "done"
        assert len(grounds.pids) == hired + 1

    def test_a_lost_launcher_is_nobodys_failure(self, tmp_path: Path) -> None:
        grounds = WorkerGrounds()
        try:
            told = claude(grounds.session, tmp_path)
            told.run("[[say:one]]")
            at_the_first_event(told, grounds.lose)
            with pytest.raises(TurnLostError) as caught:
                told.run("[[stall]]")
            assert caught.value.in_flight
            assert told.rules == [Rule.LOST]
            assert told.run("[[recall]]").result.text == "one"
            told.session.close()
        finally:
            grounds.close()

    def test_a_missing_directory_and_a_plugin_that_hangs_are_said_when_the_session_is_made(
        self, open_session: Callable[..., Told]
    ) -> None:
        with pytest.raises(PluginLoadError, match="working directory") as caught:
            open_session([{"say": "hm"}], cwd="/not/there")
        assert caught.value.where == "/not/there"
        with pytest.raises(PluginLoadError, match="did not load"):
            open_session(provider=SLEEPING, limits=SupervisorLimits(hire=40, load=0.3))

    def test_a_worker_that_died_before_the_first_turn_is_replaced(
        self, open_session: Callable[..., Told], grounds: WorkerGrounds
    ) -> None:
        told = open_session([{"say": "one"}])
        os.kill(grounds.pids[-1], signal.SIGKILL)
        wait_until(lambda: not told.session._core.parts.engine._ready.alive)  # type: ignore[attr-defined]
        assert told.run().result.text == "one"


class TestTime:
    def test_a_worker_that_is_stopped_for_longer_than_the_idle_limit_is_no_hang(
        self, open_session: Callable[..., Told], grounds: WorkerGrounds, tmp_path: Path
    ) -> None:
        told = claude(open_session, tmp_path, idle=0.2)
        conversation = told.run("[[say:one]]").conversation_id
        stopped = psutil.Process(grounds.pids[-1])
        at_the_first_event(told, lambda: (stopped.suspend(), time.sleep(0.5), stopped.resume()))
        assert told.run("[[say:two]]").result.text == "two"
        time.sleep(0.25)
        turn = told.run("[[recall]]")
        assert (turn.conversation_id, turn.continuity) == (conversation, Continuity.CONTINUED)
        assert told.rules[-1] is Rule.IDLE_RELEASE

    def test_a_worker_that_does_not_keep_to_a_timeout_is_killed_and_the_error_has_the_limit_that_was_given(
        self, open_session: Callable[..., Told], grounds: WorkerGrounds
    ) -> None:
        told = open_session([{"say": "one"}], [{"hang": True}], limits=GRACE)
        told.run()
        stopped = psutil.Process(grounds.pids[-1])
        ticket = told.session.prepare_turn(TurnRequest("go", timeout=0.25))
        stopped.suspend()
        with pytest.raises(TurnTimeoutError, match=r"did not end within 0\.25 s .*the worker was killed") as late:
            told.session.run(ticket)
        assert late.value.timeout == 0.25
        assert not psutil.pid_exists(stopped.pid)

    def test_a_worker_that_lives_and_tells_nothing_fails_its_turn_alone(
        self, open_session: Callable[..., Told], grounds: WorkerGrounds
    ) -> None:
        told = open_session([{"say": "one"}], [{"say": "hm"}, {"hang": True}], [{"say": "three"}])
        conversation, pid = told.run().conversation_id, grounds.pids[-1]
        ticket = told.session.prepare_turn(TurnRequest("go", idle_timeout=0.25))
        with pytest.raises(TurnTimeoutError, match=r"told nothing for 0\.25 s") as late:
            told.session.run(ticket)
        assert late.value.timeout == 0.25
        assert told.rules == [Rule.PROPAGATE]
        turn = told.run()
        assert (turn.result.text, turn.conversation_id, grounds.pids[-1]) == ("three", conversation, pid)

    def test_who_holds_up_the_events_is_no_silence_of_the_provider(self, open_session: Callable[..., Told]) -> None:
        class Slow:
            waited = False

            def on_event(self, event: AgentEvent) -> None:
                if not self.waited:
                    self.waited = True
                    time.sleep(1)

        told = open_session([{"say": "x" * 4000}] * 2000, handlers=[Slow()])
        ticket = told.session.prepare_turn(TurnRequest("go", idle_timeout=0.25))
        assert not told.session.run(ticket).result.interrupted
        assert len(told.handler.of(AssistantText)) == 2000

    def test_a_worker_that_is_stopped_at_its_close_is_killed(
        self, open_session: Callable[..., Told], grounds: WorkerGrounds
    ) -> None:
        told = open_session([{"say": "one"}], limits=GRACE)
        told.run()
        psutil.Process(grounds.pids[-1]).suspend()
        began = time.monotonic()
        told.session.close()
        assert time.monotonic() - began < GRACE.close + 1


class TestCommands:
    """What a provider's command does to its worker."""

    def test_one_that_never_reads_is_no_obstacle_to_timeout_interrupt_and_close(
        self, open_session: Callable[..., Told], tmp_path: Path
    ) -> None:
        told = claude(open_session, tmp_path, limits=GRACE)
        told.run("[[say:hello]]")
        began = time.monotonic()
        with pytest.raises(TurnTimeoutError):
            told.run("[[deaf]]", deadline=0.5)
        interrupter = threading.Timer(0.5, told.session.interrupt)
        interrupter.start()
        assert told.run("[[deaf]]\n" + "x" * 2_000_000).result.interrupted
        interrupter.join()
        told.session.close()
        assert time.monotonic() - began < 12

    def test_one_that_dies_while_a_grandchild_holds_its_output_is_seen_at_once(
        self, open_session: Callable[..., Told], tmp_path: Path
    ) -> None:
        told = claude(open_session, tmp_path)
        began = time.monotonic()
        with pytest.raises(CliExitError):
            told.run("[[holder:30]] [[crash:9]]")
        assert time.monotonic() - began < 5
        assert told.run("[[say:next]]").result.text == "next"

    def test_a_login_that_expires_in_the_middle_is_said_each_time_and_never_waited_for(
        self, open_session: Callable[..., Told], tmp_path: Path
    ) -> None:
        told = claude(open_session, tmp_path)
        answers = [told.run(f"[[say:{number}]]").result.text for number in (1, 2)]
        for _ in range(2):
            with pytest.raises(TurnFailedError) as caught:
                told.run("[[fail:401]]")
            assert caught.value.kind is FailureKind.AUTH
        assert told.rules == [Rule.PROPAGATE] * 2
        assert told.run("[[recall]]").result.text == " | ".join(answers)

    def test_one_that_refuses_a_resume_in_words_that_nobody_knows_costs_one_turn(
        self, open_session: Callable[..., Told], tmp_path: Path
    ) -> None:
        told = claude(open_session, tmp_path)
        told.run("[[say:one]]")
        told.session.release()
        binary = tmp_path / "claude"
        refusing = 'case "$*" in *--resume*) echo "the rollout has flown" >&2; exit 1;; esac'
        binary.write_text(binary.read_text().replace("\n", f"\n{refusing}\n", 1))
        with pytest.raises(CliExitError, match="the rollout has flown"):
            told.run("[[say:two]]")
        assert told.rules == [Rule.BACKSTOP]
        assert told.run("[[say:three]]").result.text == "three"

    def test_many_that_start_at_once_and_lock_one_home_all_come_up(
        self, open_session: Callable[..., Told], tmp_path: Path
    ) -> None:
        retry = RetryPolicy((0.3,) * 60)
        sessions = [claude(open_session, tmp_path, "busy", retry=retry) for _ in range(24)]
        answers: list[str] = []
        asking = [
            start(lambda told=told, number=number: answers.append(told.run(f"[[say:{number}]]").result.text))
            for number, told in enumerate(sessions)
        ]
        for each in asking:
            each.join(60)
        assert sorted(map(int, answers)) == list(range(24))
        rules = {rule for told in sessions for rule in told.rules}
        assert rules == {Rule.RETRY}, "nobody met another"

    def test_200_mib_that_nobody_reads_cost_no_memory(self, open_session: Callable[..., Told], tmp_path: Path) -> None:
        class Slow:
            def __init__(self) -> None:
                self.go_on, self.begun = threading.Event(), threading.Event()

            def on_event(self, event: AgentEvent) -> None:
                self.begun.set()
                self.go_on.wait(60)

        slow, note = Slow(), tmp_path / "note"
        told = open_session(
            provider=ProviderEntry("chatters", "chattering_plugin"), options={"note": str(note)}, handlers=[slow]
        )
        told.handler.on_event = lambda event: None  # type: ignore[method-assign]
        before, grown = psutil.Process().memory_info().rss, 0

        def measure() -> None:
            nonlocal grown
            slow.begun.wait(20)
            while not note.exists():  # it is noted after it was told
                time.sleep(0.01)
            last = ""
            while note.read_text() != last:
                last = note.read_text()
                time.sleep(0.5)
            grown = psutil.Process().memory_info().rss - before
            slow.go_on.set()

        measuring = start(measure)
        assert told.run("3200").result.text == "done"
        measuring.join()
        assert grown < 64 * 1024 * 1024
