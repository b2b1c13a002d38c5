"""What an agent session does for its caller, over a transport that plays a script. Nothing here waits in earnest."""

import asyncio
import contextlib
import copy
import pickle
import queue
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.agent_sessions import GO, Told, local, start

from partyctl_actors.supervision.agent_session import AgentSession
from partyctl_actors.supervision.plan import SupervisorLimits
from partyctl_actors.supervision.policy_commands import Rule
from partyctl_plugins.contract import (
    Checkpoint,
    Continuity,
    ContinuityError,
    FailureKind,
    FileCheckpointStore,
    NoRunningTurnError,
    ProviderCapabilityError,
    ProviderUsage,
    RenewalBudget,
    RetryPolicy,
    SessionResumeError,
    SessionStateError,
    TokenUsage,
    TurnCancelledError,
    TurnFailedError,
    TurnRequest,
    TurnTimeoutError,
)
from partyctl_plugins.events import (
    AgentEvent,
    AssistantText,
    SteerConsumed,
    SteerDelivered,
    ToolCall,
    TurnInterrupted,
)
from partyctl_plugins.testing import (
    FakeCheckpointStore,
    FakeClock,
    FakeTransport,
    FakeTurn,
    fake_profile,
    resume_refused,
    turn_failed,
)

TRANSIENT = FailureKind.TRANSIENT
RACES = 1000


class TestTickets:
    def test_a_turn_has_its_name_before_anything_runs(self) -> None:
        told, transport = local()
        ticket = told.session.prepare_turn(GO)
        assert (ticket.turn_id, ticket.expected_conversation, transport.specs) == ("turn-1", None, [])
        turn = told.session.run(ticket)
        assert (turn.turn_id, turn.result.text, turn.continuity) == ("turn-1", "ok", Continuity.CONTINUED)
        assert (
            told.session.conversation_id == told.session.last_turn_conversation_id == turn.conversation_id == "conv-1"
        )

    def test_a_ticket_is_a_value_and_runs_once_with_all_its_copies(self) -> None:
        told, transport = local()
        ticket = told.session.prepare_turn(TurnRequest("go", timeout=3.0))
        copied = pickle.loads(pickle.dumps(copy.deepcopy(ticket)))
        assert copied == ticket
        told.session.run(copied)
        for again in (ticket, copied):
            with pytest.raises(SessionStateError, match="ticket"):
                told.session.run(again)
        assert len(transport.conversations[0].turns) == 1

    def test_a_stale_a_foreign_and_an_altered_ticket_do_not_run(self) -> None:
        told, transport = local()
        other, _ = local()
        stale, newest = told.session.prepare_turn(GO), told.session.prepare_turn(GO)
        foreign = replace(other.session.prepare_turn(GO), turn_id="turn-77")
        for ticket in (
            stale,
            foreign,
            replace(newest, request=TurnRequest("something else")),
            replace(newest, pinned=True),
        ):
            with pytest.raises(SessionStateError):
                told.session.run(ticket)
        assert transport.specs == []
        assert told.session.run(newest).result.text == "ok"

    def test_only_a_ticket_is_run(self) -> None:
        told, _ = local()
        with pytest.raises(TypeError):
            told.session.run("turn-1")  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            told.session.prepare_turn("go")  # type: ignore[arg-type]

    def test_while_a_turn_runs_nothing_else_is_begun(self) -> None:
        def meanwhile() -> None:
            with pytest.raises(SessionStateError, match="running"):
                told.session.prepare_turn(GO)
            with pytest.raises(SessionStateError):
                told.session.run(ticket)
            assert not told.session.adopt("conv-9")
            told.session.release()

        told, transport = local([FakeTurn(during=meanwhile)])
        ticket = told.session.prepare_turn(GO)
        assert told.session.run(ticket).result.text == "ok"
        assert transport.conversations[0].close_calls == 0

    def test_a_closed_session_takes_nothing_any_more(self) -> None:
        told, transport = local()
        told.run()
        told.session.close()
        told.session.close()
        with pytest.raises(SessionStateError, match="closed"):
            told.session.prepare_turn(GO)
        assert not told.session.adopt("conv-1")
        assert transport.conversations[0].close_calls == 1


class TestInterrupts:
    def test_a_prepared_turn_that_is_interrupted_is_cancelled_and_the_transport_saw_nothing(self) -> None:
        told, transport = local()
        ticket = told.session.prepare_turn(GO)
        told.session.interrupt(ticket)
        with pytest.raises(TurnCancelledError):
            told.session.run(ticket)
        assert transport.specs == []
        assert told.run().result.text == "ok"

    def test_interrupt_without_a_ticket_ends_the_running_turn_only(self) -> None:
        told, _ = local([FakeTurn(during=lambda: told.session.interrupt(), stalls=True), FakeTurn(text="next")])
        told.session.interrupt()
        ticket = told.session.prepare_turn(GO)
        told.session.interrupt()
        turn = told.session.run(ticket)
        assert (turn.result.interrupted, turn.forced) == (True, False)
        assert told.handler.of(TurnInterrupted) == [TurnInterrupted()]
        assert told.run().result.text == "next"
        assert told.session.conversation_id == "conv-1"

    def test_an_interrupt_ends_a_wait_and_the_transient_error_stands(self) -> None:
        clock = FakeClock(on_wait=lambda _seconds: told.session.interrupt())
        told, _ = local([turn_failed(TRANSIENT)], clock=clock)
        with pytest.raises(TurnFailedError) as caught:
            told.run()
        assert caught.value.kind is TRANSIENT
        assert clock.waits == [30]
        assert told.run().continuity is Continuity.CONTINUED

    def test_an_interrupt_ends_an_opening_at_once_and_what_opens_late_is_closed(self) -> None:
        class Slow(FakeTransport):
            def open(self, spec: object) -> object:  # type: ignore[override]
                opening.set()
                go_on.wait(20)
                opened = super().open(spec)  # type: ignore[arg-type]
                closed.put(opened)
                return opened

        opening, go_on = threading.Event(), threading.Event()
        closed: queue.SimpleQueue[object] = queue.SimpleQueue()
        told, transport = local(Slow())
        interrupter = start(lambda: (opening.wait(20), told.session.interrupt()))
        with pytest.raises(TurnCancelledError):
            told.run()
        interrupter.join()
        assert transport.conversations == []
        go_on.set()
        closed.get(timeout=20)
        assert told.run().result.text == "ok"
        first, second = transport.conversations
        assert (first.turns, len(second.turns)) == ([], 1)

    @pytest.mark.parametrize("kind", ["ended", "superseded"])
    def test_an_interrupt_of_a_turn_that_is_over_never_lands_on_the_next(self, kind: str) -> None:
        """1,000 races of an interrupt that names a turn with the end of that turn and the beginning of the next."""
        told, transport = local()
        orders: queue.SimpleQueue[object] = queue.SimpleQueue()
        ready = threading.Barrier(2)

        def race() -> None:
            while (ticket := orders.get()) is not None:
                ready.wait(20)
                told.session.interrupt(ticket)  # type: ignore[arg-type]
                ready.wait(20)

        racer = start(race)
        for _ in range(RACES):
            first = told.session.prepare_turn(GO)
            orders.put(first)
            if kind == "ended":
                ready.wait(20)
                with contextlib.suppress(TurnCancelledError):  # the interrupt came first
                    told.session.run(first)
                second = told.session.prepare_turn(GO)
            else:
                second = told.session.prepare_turn(GO)
                ready.wait(20)
            assert not told.session.run(second).result.interrupted
            ready.wait(20)
        orders.put(None)
        racer.join()
        assert len({id(each) for each in transport.conversations}) == 1

    def test_an_interrupt_between_the_order_and_the_start_of_a_turn_is_not_lost(self) -> None:
        class LateListener(FakeTransport):
            """Its turn begins to listen only after it was interrupted."""

            def open(self, spec: object) -> object:  # type: ignore[override]
                conversation = super().open(spec)  # type: ignore[arg-type]
                turn, interrupts = conversation.turn, conversation.interrupt
                missed = threading.Event()

                def late(request: object, emit: object) -> object:
                    threading.Thread(target=told.session.interrupt).start()
                    missed.wait(20)
                    return turn(request, emit)  # type: ignore[arg-type]

                def interrupt() -> None:
                    interrupts()
                    missed.set()

                conversation.turn, conversation.interrupt = late, interrupt  # type: ignore[method-assign, assignment]
                return conversation

        told, _ = local(LateListener([FakeTurn(stalls=True)]))
        assert told.run().result.interrupted

    def test_an_interrupt_from_a_handler_does_not_wait_for_its_own_turn(self) -> None:
        class Impatient:
            def on_event(self, event: AgentEvent) -> None:
                told.session.interrupt()

        told, _ = local([FakeTurn(events=[AssistantText("hm")], stalls=True)], handlers=[Impatient()])
        assert told.run().result.interrupted

    def test_close_in_a_turn_interrupts_it_and_closes_the_connection_once(self) -> None:
        store = FakeCheckpointStore()
        told, transport = local([FakeTurn(during=lambda: told.session.close(), stalls=True)], store=store)
        turn = told.run()
        assert turn.result.interrupted
        assert transport.conversations[0].close_calls == 1
        with pytest.raises(SessionStateError):
            told.session.prepare_turn(GO)

    def test_close_in_a_wait_ends_it(self) -> None:
        clock = FakeClock(on_wait=lambda _seconds: told.session.close())
        told, _ = local([turn_failed(TRANSIENT)], clock=clock)
        with pytest.raises(TurnFailedError):
            told.run()


class TestSteering:
    def steerable(self, *script: object, **more: object) -> Told:
        return local(FakeTransport(script, fake_profile(supports_steer=True)), **more)[0]  # type: ignore[arg-type]

    def test_a_message_enters_the_running_turn_and_its_events_come_on_the_turns_thread(self) -> None:
        told = self.steerable(FakeTurn(during=lambda: running.set(), awaits_steer=True))
        running = threading.Event()
        steerer = start(lambda: (running.wait(20), told.session.steer("Stop; use the cache instead.")))
        assert told.run().result.text == "ok"
        steerer.join()
        text = "Stop; use the cache instead."
        assert told.handler.of(SteerDelivered, SteerConsumed) == [SteerDelivered(text), SteerConsumed(text)]
        assert set(told.handler.threads) == {threading.get_ident()}

    def test_before_between_and_after_there_is_no_running_turn(self) -> None:
        def refused(_seconds: float = 0.0) -> None:
            with pytest.raises(NoRunningTurnError):
                told.session.steer("hm")
            times.append(1)

        times: list[int] = []
        told = self.steerable(turn_failed(TRANSIENT), clock=FakeClock(on_wait=refused))
        refused()
        ticket = told.session.prepare_turn(GO)
        refused()
        told.session.run(ticket)
        refused()
        assert len(times) == 4

    def test_a_turn_that_is_asked_to_end_takes_no_message(self) -> None:
        def meanwhile() -> None:
            told.session.interrupt()
            with pytest.raises(NoRunningTurnError):
                told.session.steer("hm")

        told = self.steerable(FakeTurn(during=meanwhile, stalls=True))
        assert told.run().result.interrupted

    def test_where_it_is_unsupported_that_is_said_first(self) -> None:
        told, _ = local()
        with pytest.raises(ProviderCapabilityError):
            told.session.steer("hm")
        told.session.close()
        with pytest.raises(ProviderCapabilityError):
            told.session.steer("hm")


class TestContinuity:
    def test_a_conversation_that_is_not_held_is_refused_with_both_ids(self) -> None:
        told, _ = local()
        with pytest.raises(ContinuityError) as caught:
            told.session.prepare_turn(GO, expect_conversation="conv-9")
        assert (caught.value.expected, caught.value.actual) == ("conv-9", None)
        told.run()
        with pytest.raises(ContinuityError) as caught:
            told.session.prepare_turn(GO, expect_conversation="conv-9")
        assert (caught.value.expected, caught.value.actual) == ("conv-9", "conv-1")
        assert told.run(expect_conversation="conv-1").continuity is Continuity.CONTINUED

    def test_a_refusal_leaves_an_earlier_ticket_runnable(self) -> None:
        told, _ = local()
        ticket = told.session.prepare_turn(GO)
        with pytest.raises(ContinuityError):
            told.session.prepare_turn(GO, expect_conversation="conv-9")
        assert told.session.run(ticket).result.text == "ok"

    def test_a_strict_turn_that_another_conversation_answers_fails_and_the_session_keeps_its_own(self) -> None:
        told, _ = local([FakeTurn(), FakeTurn(conversation_id="conv-elsewhere")])
        told.run()
        with pytest.raises(ContinuityError) as caught:
            told.run(expect_conversation="conv-1")
        assert (caught.value.expected, caught.value.actual) == ("conv-1", "conv-elsewhere")
        assert told.session.conversation_id == "conv-1"

    def test_renewal_resets_and_the_next_turn_starts_cold(self) -> None:
        transport = FakeTransport(profile=fake_profile(renewal=RenewalBudget(max_turns=2)))
        told, _ = local(transport)
        assert [told.run().continuity.value for _ in range(4)] == ["continued", "reset", "continued", "reset"]
        assert (told.session.conversation_id, told.session.last_turn_conversation_id) == (None, "conv-2")
        assert [each.resume_id for each in transport.specs] == [None, None]
        assert [each.close_calls for each in transport.conversations] == [1, 1]

    def test_a_provider_without_resume_keeps_its_conversation_as_long_as_its_connection(self) -> None:
        told, transport = local(FakeTransport(profile=fake_profile(supports_resume=False)))
        assert [told.run().conversation_id for _ in range(2)] == ["conv-1", "conv-1"]
        assert not told.session.adopt("conv-9")
        assert len(transport.conversations) == 1


class TestRecovery:
    def test_transient_failures_are_tried_again_after_each_delay(self) -> None:
        told, transport = local([*[turn_failed(TRANSIENT)] * 5, FakeTurn(text="done")])
        assert told.run().result.text == "done"
        assert told.clock.waits == [30, 60, 120, 240, 480]  # type: ignore[attr-defined]
        assert len(transport.conversations) == 1
        assert told.rules == [Rule.RETRY] * 5
        assert [each.wait for each in told.decided] == [30, 60, 120, 240, 480]

    def test_after_the_last_delay_the_error_propagates(self) -> None:
        told, _ = local([turn_failed(TRANSIENT)] * 2, retry=RetryPolicy((1.5,)))
        with pytest.raises(TurnFailedError):
            told.run()
        assert told.rules == [Rule.RETRY, Rule.EXHAUSTED]

    def test_a_refused_resume_is_replaced_once_and_costs_no_retry_twice(self) -> None:
        script = [FakeTurn(), turn_failed(TRANSIENT), resume_refused("conv-1"), turn_failed(TRANSIENT)]
        told, transport = local(script, retry=RetryPolicy((1.0, 2.0)))
        told.run()
        assert told.run().continuity is Continuity.REPLACED
        assert told.clock.waits == [1.0, 2.0]  # type: ignore[attr-defined]
        assert [each.resume_id for each in transport.specs] == [None, None]

    def test_a_second_refusal_propagates_and_a_strict_turn_is_not_replaced(self) -> None:
        told, _ = local([resume_refused("conv-7"), resume_refused("conv-8")], resume_id="conv-7")
        with pytest.raises(SessionResumeError):
            told.run()
        assert told.session.conversation_id is None
        told, _ = local([resume_refused("conv-7"), FakeTurn()], resume_id="conv-7")
        with pytest.raises(SessionResumeError):
            told.run(expect_conversation="conv-7")
        assert told.session.conversation_id == "conv-7"

    def test_an_unknown_failure_of_a_resumed_turn_forgets_the_conversation(self) -> None:
        told, _ = local([FakeTurn(), turn_failed(), FakeTurn(), turn_failed()])
        told.run()
        with pytest.raises(TurnFailedError):
            told.run()
        assert told.session.conversation_id is None
        told.run()
        with pytest.raises(TurnFailedError):
            told.run(pin=True)
        assert told.session.conversation_id == "conv-2"

    def test_an_idle_connection_is_reopened_by_its_id(self) -> None:
        told, transport = local(idle=60)
        told.run()
        told.clock.advance(59)  # type: ignore[attr-defined]
        told.run()
        told.clock.advance(60)  # type: ignore[attr-defined]
        assert told.run().continuity is Continuity.CONTINUED
        assert [each.resume_id for each in transport.specs] == [None, "conv-1"]
        told.session.release()
        told.run()
        assert [each.resume_id for each in transport.specs] == [None, "conv-1", "conv-1"]

    def test_a_tool_is_seen_in_the_events(self) -> None:
        failing = FakeTurn(events=[ToolCall("t", "bash", {})], fails=turn_failed(TRANSIENT))
        told, _ = local([failing], retry=RetryPolicy((1.0,), after_tool="fail"))
        with pytest.raises(TurnFailedError) as caught:
            told.run()
        assert told.rules == [Rule.RETRY_UNSAFE]
        assert "after_tool" in caught.value.__notes__[0]


class TestDeadlines:
    def test_a_deadline_covers_all_retries(self) -> None:
        told, _ = local([turn_failed(TRANSIENT)] * 5)
        with pytest.raises(TurnTimeoutError) as caught:
            told.run(deadline=100)
        assert told.clock.waits == [30, 60]  # type: ignore[attr-defined]
        assert caught.value.timeout == 100
        assert isinstance(caught.value.__cause__, TurnFailedError)
        assert told.run().continuity is Continuity.CONTINUED

    def test_an_attempt_gets_what_is_left(self) -> None:
        told, transport = local([turn_failed(TRANSIENT), FakeTurn(), FakeTurn()])
        told.run(deadline=100)
        told.session.run(told.session.prepare_turn(TurnRequest("go", timeout=5)), deadline=100)
        assert [request.timeout for request in transport.conversations[0].turns] == [100, 70, 5]

    def test_a_stalled_turn_ends_at_its_deadline(self) -> None:
        clock = FakeClock()
        told, _ = local(FakeTransport([FakeTurn(stalls=True)], clock=clock), clock=clock)
        with pytest.raises(TurnTimeoutError):
            told.run(deadline=10)
        assert told.run().continuity is Continuity.CONTINUED

    @pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
    def test_a_deadline_is_a_number_of_seconds(self, seconds: float) -> None:
        told, _ = local()
        with pytest.raises(ValueError, match="deadline"):
            told.run(deadline=seconds)


class TestCheckpoints:
    USAGE = ProviderUsage(TokenUsage(7, 1, turns=1), provider="fake")

    def test_a_session_goes_on_where_the_last_one_was(self) -> None:
        store = FakeCheckpointStore()
        told, _ = local([FakeTurn(input_tokens=7, output_tokens=1)], store=store)
        told.run()
        assert store.kept["key"] == Checkpoint("conv-1", self.USAGE)
        told, transport = local(store=store)
        assert told.run().continuity is Continuity.CONTINUED
        assert (transport.specs[0].resume_id, transport.specs[0].previous_usage) == ("conv-1", self.USAGE)

    def test_resume_id_wins_and_a_retired_conversation_is_cleared(self) -> None:
        store = FakeCheckpointStore({"key": Checkpoint("conv-8")})
        told, transport = local(
            FakeTransport(profile=fake_profile(renewal=RenewalBudget(max_turns=1))), store=store, resume_id="conv-7"
        )
        told.run()
        assert transport.specs[0].resume_id == "conv-7"
        assert store.calls == [("clear", "key")]

    @pytest.mark.parametrize("is_file", [False, True])
    def test_of_two_sessions_over_one_key_the_earlier_is_refused_by_name(self, tmp_path: Path, is_file: bool) -> None:
        memory = FakeCheckpointStore()
        earlier, transport = local(store=FileCheckpointStore(tmp_path) if is_file else memory)
        earlier.run()
        later, _ = local(store=FileCheckpointStore(tmp_path) if is_file else memory)
        assert later.run().conversation_id == "conv-1"
        for _ in range(2):
            with pytest.raises(SessionStateError, match="checkpoint key 'key'"):
                earlier.run()
            later.session.close()
        assert len(transport.conversations) == 1

    def test_a_key_is_left_to_others_when_the_last_turn_under_it_is_over(self, tmp_path: Path) -> None:
        began, may_end = threading.Event(), threading.Event()
        store = FileCheckpointStore(tmp_path)
        owner = store.path("key").with_suffix(".owner")
        told, _ = local(
            [FakeTurn(during=lambda: (began.set(), may_end.wait(20)))], store=store, limits=SupervisorLimits(close=0.01)
        )
        turn = start(told.run)
        assert began.wait(20)
        told.session.close()
        assert owner.exists()
        may_end.set()
        turn.join(20)
        assert store.load("key") is not None
        assert not owner.exists()

    def test_the_turn_of_a_session_that_lost_its_key_keeps_its_result_and_overwrites_nothing(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        store = FakeCheckpointStore()
        earlier, _ = local(store=store)
        ticket = earlier.session.prepare_turn(GO)
        later, _ = local(store=store, resume_id="conv-7")
        later.run()
        assert earlier.session.run(ticket).conversation_id == "conv-1"
        assert store.kept["key"].conversation_id == "conv-7"
        assert "another session of this process went on under the checkpoint key 'key'" in caplog.text

    def test_one_key_after_the_other_and_keys_of_their_own_are_nobodys_business(self) -> None:
        store = FakeCheckpointStore()
        with local(store=store)[0].session as first:
            first.run(first.prepare_turn(GO))
        second, _ = local(store=store)
        other, _ = local(store=FakeCheckpointStore())
        for told in (second, other, second):
            assert told.run().conversation_id == "conv-1"

    def test_a_store_needs_a_key(self) -> None:
        told, _ = local()
        with pytest.raises(ValueError, match="checkpoint_key"):
            AgentSession(replace(told.session._core.parts, checkpoints=FakeCheckpointStore()))

    def test_adopt_takes_a_conversation_unless_something_newer_is_held(self) -> None:
        told, transport = local()
        ticket = told.session.prepare_turn(GO)
        assert not told.session.adopt("conv-7")
        told.session.interrupt(ticket)
        assert not told.session.adopt("")
        assert told.session.adopt("conv-7", previous_usage=self.USAGE)
        told.run()
        assert (transport.specs[0].resume_id, transport.specs[0].previous_usage) == ("conv-7", self.USAGE)
        assert not told.session.adopt("conv-7")
        told.session.release()
        assert told.session.adopt("conv-7")
        assert not told.session.adopt("conv-8")


class TestOnALoop:
    def test_a_turn_is_awaited_and_its_events_come_on_the_loop(self) -> None:
        async def work() -> None:
            async with told.session as session:
                turn = await session.arun(session.prepare_turn(GO))
                assert turn.result.text == "ok"
                await session.arelease()

        told, transport = local()
        asyncio.run(work())
        assert AssistantText("ok") in told.handler.events
        assert set(told.handler.threads) == {threading.get_ident()}
        assert transport.conversations[0].close_calls == 1

    def test_cancelling_interrupts_the_turn(self) -> None:
        async def work() -> None:
            turn = asyncio.ensure_future(told.session.arun(told.session.prepare_turn(GO)))
            await asyncio.to_thread(running.wait, 20)
            turn.cancel()
            with pytest.raises(asyncio.CancelledError):
                await turn

        running = threading.Event()
        told, transport = local([FakeTurn(during=running.set, stalls=True)])
        asyncio.run(work())
        assert transport.conversations[0].interrupts
        assert told.run().result.text == "ok"

    def test_errors_come_through(self) -> None:
        async def work() -> None:
            with pytest.raises(TurnFailedError):
                await told.session.arun(told.session.prepare_turn(GO))

        told, _ = local([turn_failed()])
        asyncio.run(work())
