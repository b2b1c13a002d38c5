"""Faults that were found in an implementation of the same rules, each made again here, over real workers and commands.

`known_faults.toml` beside this file has all of them, each with its tests, these and those elsewhere.
"""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from fakes.agent_sessions import GO, Told, WorkerGrounds, at_the_first_event, claude, local, start, wait_until

from partyctl_actors.supervision.plan import SupervisorLimits
from partyctl_actors.supervision.policy_commands import Rule
from partyctl_base.process import is_alive
from partyctl_plugins.contract import (
    ApprovalPolicy,
    Checkpoint,
    Continuity,
    ContinuityError,
    FailureKind,
    FileCheckpointStore,
    PluginLoadError,
    RetryPolicy,
    SessionStateError,
    TurnCancelledError,
    TurnFailedError,
    TurnRequest,
    TurnTimeoutError,
)
from partyctl_plugins.events import AgentEvent, AssistantText, SteerConsumed, SteerDelivered
from partyctl_plugins.manager import ProviderEntry
from partyctl_plugins.testing import FakeCheckpointStore, RecordingEventHandler, resume_refused, turn_failed

FAULTY = ProviderEntry("faulty", "faulty_plugin")
GRACE = SupervisorLimits(hire=40, load=40, interrupt=0.5, close=0.5)
GONE = "00000000-0000-0000-0000-000000000000"
MIB = 1024 * 1024
RACES = 60

HOLDER = """
import os, sys, time
import partyctl as ap
from partyctl.testing import FakeTransport

agent = ap.Agent(FakeTransport(), permissions=ap.NativePermissions.bypass(), approvals=ap.ApprovalPolicy.DENY)
session = agent.session("/", checkpoints=ap.FileCheckpointStore(sys.argv[1]), checkpoint_key="key")
session.run(session.prepare_turn(ap.TurnRequest("go")))
if os.fork() == 0:  # whoever is forked has neither the session nor its key
    print(os.getpid(), flush=True)
    time.sleep(60)
sys.stdin.read(1)
session.close()
print("closed", flush=True)
sys.stdin.read(1)
"""
"""A process with a session, and a child that outlives it. One byte of input: it closes the session."""

Open = Callable[..., Told]


def faulty(open_session: Open, fault: str, **more: object) -> Told:
    """A session over the provider that has this fault."""
    return open_session(provider=FAULTY, options={"fault": fault}, **more)


class TestHandlers:
    @pytest.mark.parametrize(
        "mistake", [RuntimeError("mine"), turn_failed(FailureKind.TRANSIENT), resume_refused()], ids=repr
    )
    def test_what_one_raises_is_not_taken_for_the_providers_failure(
        self, open_session: Open, grounds: WorkerGrounds, tmp_path: Path, mistake: Exception
    ) -> None:
        hired = len(grounds.pids)
        told = claude(open_session, tmp_path, handlers=[RecordingEventHandler(mistake)], retry=RetryPolicy((0.01,)))
        turns = [told.run(f"[[say:answer {number}]]") for number in range(3)]
        assert [turn.result.text for turn in turns] == ["answer 0", "answer 1", "answer 2"]
        assert {turn.continuity for turn in turns} == {Continuity.CONTINUED}
        assert told.decided == []
        assert len(grounds.pids) == hired + 1

    def test_one_that_interrupts_its_own_turn_waits_for_nothing(self, open_session: Open, tmp_path: Path) -> None:
        class Interrupting:
            took = 60.0

            def on_event(self, event: AgentEvent) -> None:
                if isinstance(event, AssistantText):
                    began = time.monotonic()
                    told.session.interrupt()
                    self.took = time.monotonic() - began

        handler = Interrupting()
        told = claude(open_session, tmp_path, handlers=[handler])
        assert told.run("[[stall]]").result.interrupted
        assert handler.took < 3

    def test_one_that_runs_a_turn_is_refused_and_its_own_turn_goes_on(self, open_session: Open, tmp_path: Path) -> None:
        class Reentrant:
            refused = 0

            def on_event(self, event: AgentEvent) -> None:
                with pytest.raises(SessionStateError):
                    told.session.prepare_turn(GO)
                self.refused += 1

        handler = Reentrant()
        told = claude(open_session, tmp_path, handlers=[handler])
        assert told.run("[[say:one]]").result.text == "one"
        assert handler.refused


class TestStores:
    def test_one_that_cannot_clear_in_the_middle_of_a_replacement_leaves_nothing_stuck(
        self, open_session: Open, tmp_path: Path
    ) -> None:
        store = FakeCheckpointStore({"key": Checkpoint(GONE)})
        store.failures["clear"] = OSError("disk full")
        told = claude(open_session, tmp_path, store=store)
        first = told.run("[[say:one]]")
        assert (first.result.text, first.continuity) == ("one", Continuity.REPLACED)
        assert told.run("[[recall]]").result.text == "one"
        assert store.kept["key"].conversation_id == first.conversation_id


class TestWaits:
    """Between two attempts of a turn."""

    def test_ctrl_c_in_one_leaves_nothing_stuck(self, open_session: Open) -> None:
        told = open_session([{"fail": "transient"}], [{"say": "two"}], retry=RetryPolicy((25,)))

        def press() -> None:
            wait_until(lambda: told.rules == [Rule.RETRY])
            os.kill(os.getpid(), signal.SIGINT)

        pressing = start(press)
        with pytest.raises(KeyboardInterrupt):
            told.run()
        pressing.join()
        assert told.run().result.text == "two"

    def test_who_is_told_of_one_and_raises_leaves_nothing_stuck(self, open_session: Open) -> None:
        told = open_session([{"fail": "transient"}], [{"say": "two"}], retry=RetryPolicy((0.01,)))
        object.__setattr__(told.session._core.parts, "on_decided", lambda decided: 1 / 0)
        assert told.run().result.text == "two"

    def test_an_interrupt_ends_one_at_once_with_the_providers_error(self, open_session: Open) -> None:
        told = open_session([{"fail": "transient"}], [{"say": "two"}], retry=RetryPolicy((25,)))
        start(lambda: (wait_until(lambda: told.rules == [Rule.RETRY]), told.session.interrupt()))
        began = time.monotonic()
        with pytest.raises(TurnFailedError) as caught:
            told.run()
        assert caught.value.kind is FailureKind.TRANSIENT
        assert time.monotonic() - began < 15
        assert told.run().result.text == "two"


class TestInterrupts:
    def test_one_of_a_prepared_turn_cancels_it_and_the_provider_saw_nothing(self, open_session: Open) -> None:
        told = open_session([{"say": "one"}])
        ticket = told.session.prepare_turn(GO)
        told.session.interrupt(ticket)
        with pytest.raises(TurnCancelledError):
            told.session.run(ticket)
        assert told.run().result.text == "one"

    def test_one_in_the_moment_in_which_a_turn_starts_is_not_lost(self, open_session: Open) -> None:
        """Each of these turns hangs until it is interrupted, so one that is lost is a turn that does not end."""
        told = open_session([{"say": "one"}], *[[{"hang": True}]] * RACES)
        told.run()
        orders: queue.SimpleQueue[tuple[object, float] | None] = queue.SimpleQueue()

        def race() -> None:
            while (order := orders.get()) is not None:
                ticket, moment = order
                while time.perf_counter() < moment:
                    pass
                told.session.interrupt(ticket)  # type: ignore[arg-type]

        racer, ran = start(race), 0
        for number in range(RACES):
            ticket = told.session.prepare_turn(TurnRequest("go", timeout=20))
            orders.put((ticket, time.perf_counter() + number % 30 * 0.0001))
            try:
                turn = told.session.run(ticket)
                assert (turn.result.interrupted, turn.forced) == (True, False)
                ran += 1
            except TurnCancelledError:
                pass
        orders.put(None)
        racer.join()
        assert ran > RACES / 4

    def test_a_command_that_ends_well_at_one_was_interrupted_all_the_same(
        self, open_session: Open, tmp_path: Path
    ) -> None:
        told = claude(open_session, tmp_path, "exit_0")
        told.run("[[say:one]]")
        at_the_first_event(told, told.session.interrupt)
        turn = told.run("[[stall]]")
        assert (turn.result.interrupted, turn.forced) == (True, False)
        assert told.run("[[recall]]").result.text == "one"

    def test_a_close_in_a_turn_keeps_the_checkpoint_and_leaves_the_key(
        self, open_session: Open, tmp_path: Path
    ) -> None:
        store = FileCheckpointStore(tmp_path / "kept")
        told = claude(open_session, tmp_path, store=store)
        at_the_first_event(told, told.session.close)
        turn = told.run("[[stall]]")
        assert turn.result.interrupted
        kept = store.load("key")
        assert kept is not None
        assert kept.conversation_id == turn.conversation_id
        wait_until(lambda: not store.path("key").with_suffix(".owner").exists())


class TestKeys:
    """One checkpoint key, and sessions of two processes."""

    @pytest.fixture
    def holder(self, tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
        pipe = subprocess.PIPE
        with subprocess.Popen([sys.executable, "-c", HOLDER, tmp_path], stdin=pipe, stdout=pipe, text=True) as process:
            assert process.stdout is not None
            forked = int(process.stdout.readline())
            yield process
            process.kill()
            os.kill(forked, signal.SIGKILL)

    def test_the_later_process_is_refused_and_told_who_has_it(
        self, holder: "subprocess.Popen[str]", tmp_path: Path
    ) -> None:
        for _ in range(2):
            with pytest.raises(SessionStateError, match="checkpoint key 'key'") as caught:
                local(store=FileCheckpointStore(tmp_path))
            assert f"process {holder.pid} " in (caught.value.why or "")
        FileCheckpointStore(tmp_path).claim("another").let_go()

    def test_a_link_to_the_directory_is_no_way_round(self, holder: "subprocess.Popen[str]", tmp_path: Path) -> None:
        link = tmp_path / "link"
        link.symlink_to(tmp_path)
        with pytest.raises(SessionStateError, match="another process"):
            local(store=FileCheckpointStore(link))

    @pytest.mark.parametrize("how", ["closed", "killed"])
    def test_it_is_free_once_the_session_is_closed_or_its_process_dead(
        self, holder: "subprocess.Popen[str]", tmp_path: Path, how: str
    ) -> None:
        assert holder.stdin is not None
        assert holder.stdout is not None
        if how == "killed":
            holder.kill()
            holder.wait()
        else:
            holder.stdin.write("x")
            holder.stdin.flush()
            assert holder.stdout.readline() == "closed\n"
        told, transport = local(store=FileCheckpointStore(tmp_path))
        told.run()
        assert transport.specs[0].resume_id == "conv-1"
        told.session.close()
        assert not [path.name for path in tmp_path.iterdir() if path.suffix == ".owner"]


class TestCommands:
    LARGE = "x" * 2 * MIB

    def shut(self, open_session: Open, directory: Path) -> Told:
        """A session whose command lives, and reads nothing any more."""
        told = claude(open_session, directory, limits=GRACE)
        told.run("[[say:one]] [[shut]]")
        return told

    def test_one_that_reads_no_large_prompt_meets_its_timeout(self, open_session: Open, tmp_path: Path) -> None:
        told = self.shut(open_session, tmp_path)
        began = time.monotonic()
        with pytest.raises(TurnTimeoutError):
            told.session.run(told.session.prepare_turn(TurnRequest(self.LARGE, timeout=1)))
        assert 1 <= time.monotonic() - began < 8
        assert told.run("[[recall]]").result.text == "one"

    @pytest.mark.parametrize("how", ["interrupt", "close"])
    def test_one_that_reads_no_large_prompt_is_interrupted_and_closed(
        self, open_session: Open, tmp_path: Path, how: str
    ) -> None:
        told = self.shut(open_session, tmp_path)
        end = threading.Timer(0.5, getattr(told.session, how))
        end.start()
        began = time.monotonic()
        assert told.run(self.LARGE).result.interrupted
        end.join()
        assert time.monotonic() - began < 8

    def test_a_prompt_of_60_mb_in_one_line_arrives(self, open_session: Open, tmp_path: Path) -> None:
        told = claude(open_session, tmp_path)
        assert told.run("x" * 60_000_000 + "\n[[say:taken in]]").result.text == "taken in"

    def test_200_mib_of_output_that_nobody_reads_stay_with_the_command(
        self, open_session: Open, grounds: WorkerGrounds, tmp_path: Path
    ) -> None:
        class Slow:
            def __init__(self) -> None:
                self.go_on = threading.Event()
                self.go_on.set()

            def on_event(self, event: AgentEvent) -> None:
                self.go_on.wait(60)

        slow = Slow()
        told = claude(open_session, tmp_path, handlers=[slow], limits=GRACE)
        told.run("[[say:one]]")
        slow.go_on.clear()
        both = [psutil.Process(), psutil.Process(grounds.pids[-1])]
        before = [each.memory_info().rss for each in both]
        grown: list[int] = []

        def measure() -> None:
            read = -1
            while (now := both[1].io_counters().read_chars) != read:
                read = now
                time.sleep(0.3)
            grown.extend(each.memory_info().rss - was for each, was in zip(both, before, strict=True))
            told.session.interrupt()
            slow.go_on.set()

        at_the_first_event(told, measure)
        assert told.run("[[flood:200]] [[say:never]]").result.interrupted
        assert max(grown) < 64 * MIB

    def test_a_request_of_one_between_turns_is_answered(self, open_session: Open, tmp_path: Path) -> None:
        told = claude(open_session, tmp_path)
        told.run("[[say:one]] [[later:0.05]]")
        reply = tmp_path / "later.json"
        wait_until(lambda: reply.exists() and "deny" in reply.read_text())
        assert told.run("[[say:two]]").result.text == "two"

    def test_a_grandchild_in_a_session_of_its_own_ends_with_the_close(self, open_session: Open, tmp_path: Path) -> None:
        told = claude(open_session, tmp_path)
        told.run("[[holder:60]] [[say:one]]")
        held = int((tmp_path / "holder.pid").read_text())
        assert os.getsid(held) == held
        told.session.close()
        wait_until(lambda: not is_alive(held))

    def test_a_directory_that_is_gone_when_one_is_started_again_is_named_and_the_session_stays_usable(
        self, open_session: Open, tmp_path: Path
    ) -> None:
        place = tmp_path / "place"
        place.mkdir()
        told = claude(open_session, tmp_path, cwd=str(place))
        told.run("[[say:one]]")
        told.session.release()
        place.rmdir()
        with pytest.raises(PluginLoadError, match=str(place)):
            told.run("[[say:two]]")
        place.mkdir()
        assert told.run("[[recall]]").result.text == "one"

    def test_a_permission_that_is_denied_under_fail_turn_is_a_failure_for_no_known_reason(
        self, open_session: Open, tmp_path: Path
    ) -> None:
        """As the backstop has it: the first turn keeps its conversation, a pinned one too, a later one does not."""
        told = claude(open_session, tmp_path, approvals=ApprovalPolicy.FAIL_TURN)
        with pytest.raises(TurnFailedError, match="permissions"):
            told.run("[[say:one]] [[denied]]")
        held = told.session.conversation_id
        with pytest.raises(TurnFailedError, match="permissions"):
            told.run("[[denied]]", pin=True)
        assert told.session.conversation_id == held
        with pytest.raises(TurnFailedError, match="permissions"):
            told.run("[[denied]]")
        assert told.session.conversation_id is None
        assert told.rules == [Rule.PROPAGATE, Rule.PROPAGATE, Rule.BACKSTOP]


class TestConversations:
    def test_a_strict_turn_that_is_answered_under_another_id_fails_and_the_session_keeps_its_own(
        self, open_session: Open
    ) -> None:
        told = faulty(open_session, "renames")
        held = told.run().conversation_id
        with pytest.raises(ContinuityError) as caught:
            told.run(expect_conversation=held)
        assert (caught.value.expected, caught.value.actual) == (held, "faulty-2")
        assert told.session.conversation_id == held

    def test_one_that_cannot_be_resumed_lasts_as_long_as_its_connection_and_no_failed_turn(
        self, open_session: Open, grounds: WorkerGrounds
    ) -> None:
        told = faulty(open_session, "no_resume")
        assert [told.run().result.text for _ in range(2)] == ["turn 1", "turn 2"]
        told.session.release()
        assert told.run(expect_conversation="faulty-1").result.text == "turn 3"
        with pytest.raises(TurnFailedError):
            told.run("fail")
        assert told.session.conversation_id is None
        pid = grounds.pids[-1]
        assert told.run().result.text == "turn 1"
        assert grounds.pids[-1] != pid

    def test_a_close_that_raises_hides_no_failure_and_loses_no_ticket(self, open_session: Open) -> None:
        told = faulty(open_session, "close_raises", idle=0.05)
        told.run()
        with pytest.raises(TurnFailedError, match="it fails this turn") as caught:
            told.run("fail")
        assert caught.value.kind is FailureKind.USAGE_LIMIT
        time.sleep(0.06)
        ticket = told.session.prepare_turn(GO)
        assert told.rules[-1] is Rule.IDLE_RELEASE
        assert told.session.run(ticket).result.text == "turn 1"

    @pytest.mark.parametrize("ending", ["fail", "stall"])
    def test_what_a_failed_or_interrupted_turn_used_is_not_counted_to_the_next(
        self, open_session: Open, tmp_path: Path, ending: str
    ) -> None:
        total, store = tmp_path / "total", FakeCheckpointStore()
        total.write_text("")
        told = open_session(provider=FAULTY, options={"fault": "counts", "total": str(total)}, store=store)
        assert told.run("10").result.usage.tokens.input_tokens == 10
        if ending == "stall":
            at_the_first_event(told, told.session.interrupt)
            assert told.run("1000 stall").result.interrupted
        else:
            with pytest.raises(TurnFailedError):
                told.run("1000 fail")
        usage = store.kept["key"].usage
        assert usage is not None
        assert usage.raw == {"total": 1010}
        told.session.release()
        assert told.run("7").result.usage.tokens.input_tokens == 7

    def test_messages_of_one_text_are_told_one_by_one(self, open_session: Open) -> None:
        told = open_session([{"say": "hm"}, {"await_steer": True}, {"await_steer": True}, {"say": "ok"}])
        at_the_first_event(told, lambda: [told.session.steer("use the cache") for _ in range(2)])
        ticket = told.session.prepare_turn(TurnRequest("go", timeout=20))
        assert told.session.run(ticket).result.text == "ok"
        assert len(told.handler.of(SteerDelivered)) == len(told.handler.of(SteerConsumed)) == 2
