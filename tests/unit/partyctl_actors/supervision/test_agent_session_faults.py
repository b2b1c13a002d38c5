"""What goes wrong around an agent session and must not go wrong in it: handlers, stores, clocks, and transports that
keep to nothing. Each stands for a fault that was found in an implementation of the same rules."""

import queue
import threading

import pytest
from fakes.agent_sessions import GO, left_waiting, local, start

from partyctl_actors.errors import JournalError
from partyctl_actors.supervision.plan import SupervisorLimits
from partyctl_actors.supervision.policy_commands import Rule
from partyctl_actors.supervision.turn_log import MemoryTurnLog
from partyctl_actors.supervision.turn_shard import Plain
from partyctl_base.clock import StopSignal
from partyctl_plugins.contract import (
    Continuity,
    ConversationSpec,
    FailureKind,
    RenewalBudget,
    RetryPolicy,
    SessionResumeError,
    SessionStateError,
    TurnFailedError,
    TurnTimeoutError,
)
from partyctl_plugins.events import AgentEvent, AssistantText
from partyctl_plugins.testing import (
    FakeCheckpointStore,
    FakeClock,
    FakeConversation,
    FakeTransport,
    FakeTurn,
    RecordingEventHandler,
    SequentialIds,
    fake_profile,
    resume_refused,
    turn_failed,
)

TRANSIENT = FailureKind.TRANSIENT
RACES = 1000


class Interrupted(FakeClock):
    """A clock in whose first wait somebody presses Ctrl-C."""

    def wait(self, seconds: float, stop: StopSignal) -> bool:
        if not self.waits:
            self.waits.append(seconds)
            raise KeyboardInterrupt
        return super().wait(seconds, stop)


class TestHandlers:
    @pytest.mark.parametrize("error", [RuntimeError("mine"), turn_failed(TRANSIENT), resume_refused("conv-1")])
    def test_what_a_handler_raises_is_a_line_of_the_log_and_no_failure(
        self, error: Exception, caplog: pytest.LogCaptureFixture
    ) -> None:
        after = RecordingEventHandler()
        told, transport = local(
            [FakeTurn(text="one"), FakeTurn(text="two")], handlers=[RecordingEventHandler(error), after]
        )
        assert [told.run().result.text, told.run().result.text] == ["one", "two"]
        assert (told.clock.waits, told.decided) == ([], [])  # type: ignore[attr-defined]
        assert (len(transport.conversations), len(transport.conversations[0].turns)) == (1, 2)
        assert after.events == told.handler.events
        assert "An event handler failed" in caplog.text

    def test_a_handler_that_runs_a_turn_is_refused_and_the_turn_goes_on(self) -> None:
        class Reentrant:
            def on_event(self, event: AgentEvent) -> None:
                try:
                    told.run()
                except SessionStateError as error:
                    refused.append(error)

        refused: list[SessionStateError] = []
        told, _ = local(handlers=[Reentrant()])
        assert told.run().result.text == "ok"
        assert refused

    def test_who_watches_the_decisions_and_raises_leaves_nothing_stuck(self) -> None:
        told, _ = local([turn_failed(TRANSIENT)])
        object.__setattr__(told.session._core.parts, "on_decided", lambda decided: 1 / 0)
        assert told.run().result.text == "ok"
        assert told.clock.waits == [30]  # type: ignore[attr-defined]

    def test_ctrl_c_in_a_handler_ends_the_turn_and_the_next_one_gets_its_own_answer(self) -> None:
        class Pressed:
            times = 0

            def on_event(self, event: AgentEvent) -> None:
                self.times += 1
                if self.times == 1:
                    raise KeyboardInterrupt

        told, transport = local([FakeTurn(text="one"), FakeTurn(text="two")], handlers=[Pressed()])
        with pytest.raises(KeyboardInterrupt):
            told.run()
        assert told.rules == [Rule.BROKE]
        assert told.run().result.text == "two"
        assert [each.close_calls for each in transport.conversations] == [1, 0]


class TestStores:
    def test_one_that_cannot_save_loses_no_result(self, caplog: pytest.LogCaptureFixture) -> None:
        store = FakeCheckpointStore()
        store.failures["save"] = OSError("disk full")
        told, _ = local(store=store)
        assert told.run().result.text == "ok"
        assert "could not be kept" in caplog.text
        store.failures.clear()
        assert told.run().continuity is Continuity.CONTINUED
        assert store.kept

    def test_one_that_cannot_clear_leaves_no_turn_stuck_in_the_middle_of_a_replacement(self) -> None:
        store = FakeCheckpointStore()
        told, _ = local([FakeTurn(), resume_refused("conv-1")], store=store)
        told.run()
        store.failures["clear"] = OSError("disk full")
        assert told.run().continuity is Continuity.REPLACED
        assert told.run().continuity is Continuity.CONTINUED
        assert store.kept["key"].conversation_id == "conv-2"

    def test_one_that_cannot_be_read_is_said_when_the_session_is_made(self) -> None:
        store = FakeCheckpointStore()
        store.failures["load"] = OSError("gone")
        with pytest.raises(OSError, match="gone"):
            local(store=store)


class TestClocks:
    def test_ctrl_c_in_a_retry_wait_leaves_nothing_stuck(self) -> None:
        told, _ = local([turn_failed(TRANSIENT)], clock=Interrupted())
        with pytest.raises(KeyboardInterrupt):
            told.run()
        assert told.run().result.text == "ok"

    @pytest.mark.parametrize("idle", [-1.0, float("nan"), float("inf")])
    def test_an_idle_limit_is_a_number_of_seconds(self, idle: float) -> None:
        with pytest.raises(ValueError, match="idle_release_after"):
            local(idle=idle)


class TestTransports:
    def test_a_close_that_raises_hides_no_failure_and_loses_no_ticket(self, caplog: pytest.LogCaptureFixture) -> None:
        class Clinging(FakeTransport):
            def open(self, spec: object) -> object:  # type: ignore[override]
                conversation = super().open(spec)  # type: ignore[arg-type]
                conversation.close = lambda: 1 / 0  # type: ignore[method-assign, assignment]
                return conversation

        told, _ = local(Clinging([FakeTurn(), turn_failed()]), idle=10)
        told.run()
        with pytest.raises(TurnFailedError):
            told.run()
        told.run()
        told.clock.advance(10)  # type: ignore[attr-defined]
        assert told.run().continuity is Continuity.CONTINUED
        assert "could not be closed" in caplog.text

    def test_a_close_that_does_not_return_is_left_to_itself(self, caplog: pytest.LogCaptureFixture) -> None:
        class Deaf(FakeTransport):
            def open(self, spec: object) -> object:  # type: ignore[override]
                conversation = super().open(spec)  # type: ignore[arg-type]
                conversation.close = lambda: never.wait(20)  # type: ignore[method-assign, assignment]
                return conversation

        never = threading.Event()
        told, _ = local(Deaf(), limits=SupervisorLimits(close=0.01))
        told.run()
        told.session.close()
        never.set()
        assert "left to itself" in caplog.text

    @pytest.mark.parametrize("where", ["open", "turn"])
    def test_what_is_none_of_ours_blames_the_transport_and_the_session_stays_usable(self, where: str) -> None:
        class Raw(FakeTransport):
            def open(self, spec: object) -> object:  # type: ignore[override]
                if where == "open" and self.script_left:
                    self._take()
                    raise FileNotFoundError("no such directory")
                return super().open(spec)  # type: ignore[arg-type]

        told, _ = local(Raw([FileNotFoundError("no such directory")]))
        with pytest.raises(TurnFailedError, match="FileNotFoundError") as caught:
            told.run()
        assert (caught.value.kind, caught.value.where) == (FailureKind.OTHER, where)
        assert isinstance(caught.value.__cause__, FileNotFoundError)
        assert told.run().result.text == "ok"

    def test_a_turn_that_returns_something_else_blames_the_transport(self) -> None:
        class Wrong(FakeTransport):
            def open(self, spec: object) -> object:  # type: ignore[override]
                conversation = super().open(spec)  # type: ignore[arg-type]
                conversation.turn = lambda request, emit: "done"  # type: ignore[method-assign, assignment, return-value]
                return conversation

        told, _ = local(Wrong())
        with pytest.raises(TurnFailedError, match="not a TurnResult"):
            told.run()

    def test_an_opening_has_a_limit(self) -> None:
        class Slow(FakeTransport):
            def open(self, spec: object) -> object:  # type: ignore[override]
                never.wait(20)
                opened = super().open(spec)  # type: ignore[arg-type]
                opened.close = closed.set  # type: ignore[method-assign]
                return opened

        never, closed = threading.Event(), threading.Event()
        told, transport = local(Slow(), limits=SupervisorLimits(open=0.01))
        with pytest.raises(TurnTimeoutError):
            told.run()
        never.set()
        assert closed.wait(20)
        assert transport.conversations[0].turns == []

    def test_an_interrupt_that_hangs_never_lands_on_the_next_turn(self) -> None:
        class Hanging(FakeTransport):
            def open(self, spec: object) -> object:  # type: ignore[override]
                conversation = super().open(spec)  # type: ignore[arg-type]
                interrupt = conversation.interrupt
                conversation.interrupt = lambda: (interrupt(), never.wait(20))  # type: ignore[method-assign]
                return conversation

        never = threading.Event()
        script = [FakeTurn(during=lambda: told.session.interrupt(), stalls=True), FakeTurn(text="two")]
        told, transport = local(Hanging(script), limits=SupervisorLimits(interrupt=0.05))
        assert told.run().result.interrupted
        with pytest.raises(TurnFailedError, match="did not return"):
            told.run()
        assert told.run().result.text == "two"
        assert len(transport.conversations) == 2
        never.set()

    def test_text_of_any_size_and_kind_comes_through(self) -> None:
        odd = "\ud800" + "x" * 20_000_000
        told, _ = local([FakeTurn(text=odd)])
        assert told.run().result.text == odd

    def test_threads_that_ask_at_once_run_one_turn_after_another(self) -> None:
        def ask() -> None:
            for _ in range(50):
                try:
                    results.put(told.session.run(told.session.prepare_turn(GO)).result.text)
                except SessionStateError:
                    refused.put(1)

        told, transport = local()
        results, refused = queue.SimpleQueue[str](), queue.SimpleQueue[int]()
        askers = [start(ask) for _ in range(4)]
        for asker in askers:
            asker.join()
        assert results.qsize() + refused.qsize() == 200
        assert sum(len(each.turns) for each in transport.conversations) == results.qsize() > 0
        assert told.run().result.text == "ok"


class TestLogs:
    """What is durable of a session, and what another one makes of it."""

    @pytest.fixture
    def log(self) -> MemoryTurnLog:
        return MemoryTurnLog()

    def test_an_intent_comes_before_the_provider_and_an_outcome_before_the_caller(self, log: MemoryTurnLog) -> None:
        seen: list[tuple[list[str], list[str]]] = []

        def look() -> None:
            recovered = log.recover()
            seen.append((list(recovered.intents), list(recovered.outcomes)))

        told, _ = local([FakeTurn(during=look)], log=log)
        told.run()
        look()
        assert seen == [(["turn-1"], []), ([], ["turn-1"])]

    def test_counters_and_renewal_go_on_in_the_next_session(self, log: MemoryTurnLog) -> None:
        profile = fake_profile(renewal=RenewalBudget(max_turns=3))
        ids = SequentialIds()
        told, _ = local(FakeTransport(profile=profile), log=log, ids=ids)
        assert [told.run().continuity.value for _ in range(2)] == ["continued"] * 2
        told, transport = local(FakeTransport(profile=profile), log=log, ids=ids)
        assert told.session.conversation_id == "conv-1"
        ticket = told.session.prepare_turn(GO)
        assert told.session.run(ticket).continuity is Continuity.RESET
        assert transport.specs[0].resume_id == "conv-1"

    def test_a_turn_without_an_intent_on_the_disk_is_not_run(self, log: MemoryTurnLog) -> None:
        class Full(MemoryTurnLog):
            def intend(self, turn_id: str, request: object, state: object = None) -> None:
                raise JournalError("disk full")

        told, transport = local(log=Full())
        with pytest.raises(JournalError):
            told.run()
        assert transport.specs == []
        with pytest.raises(JournalError):
            told.run()

    def test_an_outcome_that_cannot_be_kept_loses_no_result(
        self, log: MemoryTurnLog, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Full(MemoryTurnLog):
            def outcome(self, turn_id: str, outcome: object, state: object = None) -> None:
                raise JournalError("disk full")

        told, _ = local(log=Full())
        assert told.run().result.text == "ok"
        assert "could not be recorded" in caplog.text

    @pytest.mark.parametrize("next_thing", ["run", "release"])
    def test_an_outcome_that_could_not_be_kept_is_kept_before_anything_else_is(
        self, next_thing: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        class FullAtFirst(MemoryTurnLog):
            is_full = True

            def outcome(self, turn_id: str, outcome: Plain, state: Plain | None = None) -> None:
                if self.is_full:
                    raise JournalError("disk full")
                super().outcome(turn_id, outcome, state)

        log = FullAtFirst()
        told, _ = local(log=log)
        first = told.run().turn_id
        assert list(log.recover().intents) == [first]
        if next_thing == "run":
            with pytest.raises(JournalError):
                told.run()
        log.is_full = False
        told.run() if next_thing == "run" else told.session.release()
        found = log.recover()
        assert found.intents == {}
        assert next(iter(found.outcomes)) == first
        assert caplog.text.count("could not be recorded") == 1

    def test_a_turn_that_waited_when_its_session_died_goes_on_by_its_ticket(self) -> None:
        ticket, left = left_waiting(turn_failed(TRANSIENT))
        state = left.recover().state
        again, _ = local(log=left, resume_id="ignored")
        assert again.session.run(ticket).turn_id == "turn-1"
        assert again.clock.waits == [30]  # type: ignore[attr-defined]
        assert state is not None
        fresh = MemoryTurnLog()
        fresh.state(state)
        other, _ = local(log=fresh)
        assert other.run().result.text == "ok"


class TestOverAndOver:
    """Faults that come back, and calls that meet."""

    def test_a_resume_that_is_never_answered_costs_its_limit_and_retires_only_if_told_to(self) -> None:
        class Silent(FakeTransport):
            def open(self, spec: ConversationSpec) -> FakeConversation:
                opened = super().open(spec)
                if spec.resume_id is not None:
                    never.wait(20)
                return opened

        never = threading.Event()
        told, transport = local(
            Silent(), limits=SupervisorLimits(open=0.02), resume_id="conv-7", retry=RetryPolicy(retire_after_stalled=2)
        )
        for held in ("conv-7", None):
            with pytest.raises(TurnTimeoutError):
                told.run()
            assert told.session.conversation_id == held
        assert told.run().result.text == "ok"
        assert [spec.resume_id for spec in transport.specs] == ["conv-7", "conv-7", None]
        never.set()

    def test_a_conversation_that_is_refused_is_asked_for_once_however_often_its_session_is_begun(self) -> None:
        log, ids, resumed = MemoryTurnLog(), SequentialIds(), []
        for _ in range(10):
            told, transport = local([resume_refused("conv-7")] * 4, log=log, ids=ids, resume_id="conv-7")
            with pytest.raises(SessionResumeError):
                told.run()
            resumed += [spec.resume_id for spec in transport.specs if spec.resume_id]
        assert resumed == ["conv-7"]

    def test_what_was_said_before_an_overload_is_not_said_twice(self) -> None:
        half = FakeTurn(events=[AssistantText("half"), AssistantText("of it")], fails=turn_failed(TRANSIENT))
        told, transport = local([half, FakeTurn(text="whole")])
        assert told.run().result.text == "whole"
        assert told.clock.waits == [30]  # type: ignore[attr-defined]
        assert [len(each.turns) for each in transport.conversations] == [2]

    def test_a_release_that_meets_a_turn_loses_and_doubles_nothing(self) -> None:
        def release() -> None:
            while not over.is_set():
                told.session.release()

        over = threading.Event()
        told, transport = local([FakeTurn(text=str(number)) for number in range(RACES)])
        releasing = start(release)
        answers = [told.run() for _ in range(RACES)]
        over.set()
        releasing.join(20)
        assert [turn.result.text for turn in answers] == [str(number) for number in range(RACES)]
        assert {turn.conversation_id for turn in answers} == {"conv-1"}
        assert sum(len(each.turns) for each in transport.conversations) == RACES
        assert len(transport.conversations) > 1
