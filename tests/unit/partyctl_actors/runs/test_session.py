"""Sessions in one process: what the constructor refuses, how runs begin and end, and what is left of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import ClassVar

import pytest
from fakes.runs import A, B, C, Hanging, Notice, Ping, Pong, Raising, Stop, jumping, rally, request_reply, triangle

from partyctl_actors.errors import (
    AllowanceExceeded,
    Cancelled,
    ConformanceError,
    DeadlineExceeded,
    ModelError,
    ProjectionError,
    SelectionError,
    SessionError,
)
from partyctl_actors.participants import Agent, Desk, Human, Offer, Participant, Player, Script, Seat, replies
from partyctl_actors.protocol import Message, Protocol, Role, choose, loop, repeat, send
from partyctl_actors.runs import Allowance, Delivered, MemoryJournal, RunEvent, RunFailed, Session, Transcript, watching

HOUR = timedelta(hours=1)


def scripted(text: str = "hi") -> Session:
    return Session(request_reply, {A: Script([Ping(text)]), B: Agent(replies([Pong("yo")]))})


# --- the constructor ---


class Counting:
    """Counts how often it is bound."""

    def __init__(self) -> None:
        self.bound = 0

    def bind(self, seat: Seat) -> Player:
        self.bound += 1
        return Script([]).bind(seat)


def test_making_a_session_calls_nobody() -> None:
    counting = Counting()
    Session(request_reply, {A: counting, B: counting})
    assert counting.bound == 0


@pytest.mark.parametrize("nobody", [object(), None, "Script", 5, Script])
def test_what_is_no_participant_is_a_type_error_that_names_it(nobody: object) -> None:
    with pytest.raises(TypeError, match="A is played by"):
        Session(request_reply, {A: nobody, B: Script([])})  # type: ignore[dict-item]


def test_a_role_that_the_protocol_does_not_have_is_named_with_the_nearest() -> None:
    with pytest.raises(ConformanceError, match=r"no role Bee.*roles are A, B"):
        Session(request_reply, {A: Script([]), B: Script([]), Role("Bee"): Script([])})


def test_one_role_may_be_missing_but_not_two() -> None:
    assert Session(triangle, {A: Script([]), B: Script([])}).missing == (C,)
    with pytest.raises(ConformanceError, match="Nobody plays B, C"):
        Session(triangle, {A: Script([])})


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"protocol": "A -> B"}, "protocol"),
        ({"cast": [Script([])]}, "cast"),
        ({"cast": {"A": Script([])}}, "keyed by roles"),
        ({"allowance": 5}, "allowance"),
        ({"journal": "file"}, "journal"),
        ({"tracer": print}, "watching"),
        ({"id": "a/b"}, "id"),
        ({"id": ""}, "id"),
    ],
)
def test_an_argument_of_another_kind_is_named(arguments: dict[str, object], named: str) -> None:
    usual: dict[str, object] = {"protocol": request_reply, "cast": {A: Script([]), B: Script([])}}
    with pytest.raises(TypeError, match=named):
        Session(**(usual | arguments))  # type: ignore[arg-type]


# --- run and arun ---


def test_two_runs_of_one_session_are_independent() -> None:
    session = scripted()
    first, second = session.run(), session.run()
    assert first == second
    assert [str(envelope) for envelope in first] == ["A -> B: Ping(text='hi')", "B -> A: Pong(text='yo')"]


def test_a_second_run_asks_its_participants_anew() -> None:
    asked: list[Offer] = []

    def answer(offer: Offer) -> Message:
        asked.append(offer)
        return Pong(str(len(asked)))

    session = Session(request_reply, {A: Script([Ping()]), B: Agent(replies(answer))})
    assert session.run().last(Pong) == Pong("1")
    assert session.run().last(Pong) == Pong("2")


def test_two_hundred_runs_of_one_session_at_once_do_not_mix() -> None:
    async def test() -> list[Transcript]:
        session = Session(rally, {A: Script([Ping(str(n)) for n in range(5)]), B: Script([Pong()] * 4 + [Stop()])})
        return await asyncio.gather(*(session.arun() for _ in range(200)))

    transcripts = jumping(test())
    assert all(transcript == transcripts[0] for transcript in transcripts)
    assert len(transcripts[0]) == 10


def test_a_missing_role_is_named_by_run() -> None:
    with pytest.raises(ConformanceError, match=r"Nobody plays B \(run\(\)\)"):
        Session(request_reply, {A: Script([])}).run()


def test_run_inside_a_loop_names_arun() -> None:
    async def test() -> None:
        with pytest.raises(RuntimeError, match="arun"):
            scripted().run()
        with pytest.raises(RuntimeError, match="aask"):
            Session(request_reply, {B: Script([Pong()])}).ask(A, Ping(), expect=Pong)

    jumping(test())


def test_a_long_line_of_sends_runs() -> None:
    steps = [send(A, B, Ping) if n % 2 == 0 else send(B, A, Pong) for n in range(2000)]
    session = Session(Protocol(*steps), {A: Script([Ping()] * 1000), B: Script([Pong()] * 1000)})
    assert len(session.run()) == 2000


def test_an_endless_run_leaves_the_loop_to_others() -> None:
    endless = Protocol(loop(send(A, B, Ping), send(B, A, Pong), repeat()))

    async def test() -> int:
        session = Session(endless, {A: Agent(replies(lambda offer: Ping())), B: Agent(replies(lambda offer: Pong()))})
        run = session.start()
        for _ in range(1000):
            await asyncio.sleep(0)
        assert not run.done
        await run.cancel()
        return len(run.transcript)

    assert jumping(test()) > 0


# --- the early end ---


def test_an_exception_of_a_participant_arrives_as_it_is_with_a_note() -> None:
    error = ZeroDivisionError("oops")
    session = Session(request_reply, {A: Script([Ping()]), B: Raising(error)})
    with pytest.raises(ZeroDivisionError) as caught:
        session.run()
    assert caught.value is error
    assert len(error.__notes__) == 1
    assert error.__notes__[0].startswith("raised by B, run run-")
    assert error.__notes__[0].endswith(", step 2")


@pytest.mark.parametrize(
    ("player", "kind"),
    [
        (Script([]), SessionError),
        (Script([Ping()]), SelectionError),
        (Agent(replies([])), ModelError),
        (Agent(replies([Ping()])), SelectionError),
        (Raising(KeyError("deaf"), at="hear"), KeyError),
        (lambda offer, heard: None, SelectionError),
    ],
)
def test_a_role_that_cannot_go_on_ends_the_run_with_its_error(player: Participant, kind: type[Exception]) -> None:
    with pytest.raises(kind) as caught:
        Session(request_reply, {A: Script([Ping()]), B: player}).run()
    assert "raised by B" in caught.value.__notes__[0]


def test_the_other_roles_are_told_when_one_fails() -> None:
    watching_role = Hanging()

    async def test() -> None:
        session = Session(triangle, {A: Script([Ping()]), B: Raising(ValueError("no")), C: watching_role})
        with pytest.raises(ValueError, match="no"):
            await session.arun()

    jumping(test())
    assert watching_role.cancelled == ["B: no"]
    assert watching_role.closed == 1


def test_what_a_participant_raises_when_it_is_bound_arrives_as_it_is() -> None:
    class Unbound:
        def bind(self, seat: Seat) -> Player:
            raise LookupError("no such model")

    async def test() -> None:
        with pytest.raises(LookupError, match="no such model"):
            await Session(request_reply, {A: Script([Ping()]), B: Unbound()}).arun()

    jumping(test())


def test_an_exhausted_allowance_has_limit_spent_and_allowed() -> None:
    session = Session(rally, {A: Script([Ping()] * 9), B: Script([Pong()] * 9)}, allowance=Allowance(steps=3))
    with pytest.raises(AllowanceExceeded) as caught:
        session.run()
    assert (caught.value.limit, caught.value.spent, caught.value.allowed) == ("steps", 3, 3)


def test_the_wall_clock_stops_the_step_after_a_long_one() -> None:
    async def slow(offer: Offer) -> Message:
        await asyncio.sleep(10)
        return offer.messages[0]()

    async def test() -> None:
        session = Session(rally, {A: Agent(replies(slow)), B: Agent(replies(slow))}, allowance=Allowance(wall_clock=25))
        with pytest.raises(AllowanceExceeded, match="30 of 25 spent"):
            await session.arun()

    jumping(test())


@pytest.mark.parametrize("player", [Hanging(), Hanging(stubborn=False), Human(Desk())])
def test_a_deadline_ends_the_run(player: Participant) -> None:
    timed = Protocol(send(A, B, Ping, within=timedelta(seconds=5)))

    async def test() -> None:
        with pytest.raises(DeadlineExceeded, match="A did not speak in time"):
            await Session(timed, {A: player, B: Script([])}).arun()
        assert asyncio.get_running_loop().time() == pytest.approx(5)

    jumping(test())


def test_a_function_that_blocks_its_thread_does_not_hold_up_the_deadline() -> None:
    release = threading.Event()

    def block(offer: Offer, heard: Sequence[object]) -> Message:
        release.wait(30)
        return Ping()

    timed = Protocol(send(A, B, Ping, within=timedelta(milliseconds=50)))
    try:
        with pytest.raises(DeadlineExceeded):
            Session(timed, {A: block, B: Script([])}).run()
    finally:
        release.set()


def test_sys_exit_in_a_participant_ends_the_program_after_the_run_was_cleared_away() -> None:
    other = Hanging()
    with pytest.raises(SystemExit) as caught:
        Session(request_reply, {A: Raising(SystemExit(3)), B: other}).run()
    assert caught.value.code == 3
    assert other.closed == 1


def test_cancelling_arun_stops_every_role_first() -> None:
    player = Hanging()

    async def test() -> None:
        running = asyncio.ensure_future(Session(request_reply, {A: player, B: Script([])}).arun())
        while not player.asked:
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    jumping(test())
    assert (player.cancelled, player.closed) == (["its caller was cancelled"], 1)


# --- ask ---


def test_ask_returns_what_was_expected() -> None:
    session = Session(request_reply, {B: Agent(replies([Pong("yo")]))})
    assert session.ask(A, Ping("hi"), expect=Pong) == Pong("yo")


def test_a_second_ask_gets_its_own_answer() -> None:
    def echo(offer: Offer, heard: Transcript) -> Message:
        question = heard.last(Ping)
        assert question is not None
        return Pong(question.text)

    session = Session(request_reply, {B: echo})
    assert session.ask(A, Ping("one"), expect=Pong) == Pong("one")
    assert session.ask(A, Ping("two"), expect=Pong) == Pong("two")


def test_ask_drives_the_run_to_its_end_and_returns_the_newest() -> None:
    twice = Protocol(send(A, B, Ping), send(B, A, Pong), send(B, A, Pong), send(B, C, Notice))
    session = Session(twice, {B: Script([Pong("1"), Pong("2"), Notice()]), C: Script([])})
    assert session.ask(A, Ping(), expect=Pong) == Pong("2")


@pytest.mark.parametrize(
    ("protocol", "role", "opening", "expect", "why"),
    [
        (request_reply, A, Pong(), Pong, "opens with Ping"),
        (request_reply, B, Pong(), Ping, "does not speak first"),
        (request_reply, A, Ping(), Notice, "can never be told Notice"),
        (request_reply, A, Ping(), Ping, "can never be told Ping"),
        (rally, A, Ping(), Stop, "speaks again in each turn of a loop"),
        (Protocol(send(A, B, Ping), send(A, B, Pong), send(B, A, Stop)), A, Ping(), Stop, "more than once"),
        (Protocol(choose(A, B, {Ping: [], Pong: []}), send(B, A, Stop)), A, Ping(), Stop, "opens with Ping or Pong"),
    ],
)
def test_ask_refuses_a_caller_that_is_more_than_one_opening(
    protocol: Protocol, role: Role, opening: Message, expect: type[Message], why: str
) -> None:
    counting = Counting()
    cast = {other: counting for other in protocol.roles if other != role}
    with pytest.raises(ProjectionError, match=why) as caught:
        Session(protocol, cast).ask(role, opening, expect=expect)
    assert (caught.value.role, caught.value.where, counting.bound) == (role, "ask()", 0)


def test_ask_refuses_a_role_that_is_cast() -> None:
    with pytest.raises(ProjectionError, match="played by the cast already"):
        scripted().ask(A, Ping(), expect=Pong)


def test_ask_names_what_is_wrong_with_its_arguments() -> None:
    session = Session(triangle, {B: Script([]), C: Script([])})
    with pytest.raises(ConformanceError, match="no role X"):
        session.ask(Role("X"), Ping(), expect=Pong)
    with pytest.raises(TypeError, match="opening is a message"):
        session.ask(A, Ping, expect=Pong)  # type: ignore[arg-type]
    with pytest.raises(ConformanceError, match="Nobody plays B"):
        Session(request_reply, {A: Script([])}).run()


def test_ask_says_what_arrived_when_the_expected_did_not() -> None:
    either = Protocol(send(A, B, Ping), choose(B, A, {Pong: [], Stop: []}))
    with pytest.raises(SessionError, match=r"without Pong for A.*told Stop"):
        Session(either, {B: Script([Stop()])}).ask(A, Ping(), expect=Pong)


# --- start ---


def test_start_returns_while_the_run_goes_on() -> None:
    async def test() -> None:
        desk = Desk()
        run = Session(request_reply, {B: Human(desk)}).start(A, Ping("hi"))
        while not desk.offered:
            await asyncio.sleep(0)
        assert not run.done
        assert [str(envelope) for envelope in run.transcript] == ["A -> B: Ping(text='hi')"]
        await desk.submit(Pong("yo"))
        assert (await run.result()).last(Pong) == Pong("yo")
        assert run.done
        await run.cancel()
        assert (await run.result()).last(Pong) == Pong("yo")

    jumping(test())


def test_start_runs_a_full_cast() -> None:
    async def test() -> Transcript:
        return await scripted().start().result()

    assert len(jumping(test())) == 2


def test_start_without_a_loop_is_a_runtime_error() -> None:
    with pytest.raises(RuntimeError, match="start"):
        scripted().start()


def test_start_with_half_of_its_arguments_says_which() -> None:
    async def test() -> None:
        with pytest.raises(TypeError, match="needs the message"):
            Session(request_reply, {B: Script([])}).start(A)
        with pytest.raises(TypeError, match="needs the role"):
            scripted().start(opening=Ping())
        with pytest.raises(ConformanceError, match="Nobody plays A"):
            Session(request_reply, {B: Script([])}).start()

    jumping(test())


@pytest.mark.parametrize("at_once", [True, False])
def test_a_cancelled_run_raises_cancelled_and_every_role_was_told(at_once: bool) -> None:
    player = Hanging()

    async def test() -> None:
        run = Session(request_reply, {A: player, B: Script([])}).start()
        while not at_once and not player.asked:
            await asyncio.sleep(0)
        await run.cancel("changed my mind")
        await run.cancel()
        assert run.done
        with pytest.raises(Cancelled, match="changed my mind"):
            await run.result()

    jumping(test())
    assert at_once or player.cancelled == ["changed my mind"]


def test_giving_up_the_wait_for_a_result_does_not_stop_the_run() -> None:
    async def test() -> None:
        desk = Desk()
        run = Session(request_reply, {A: Script([Ping()]), B: Human(desk)}).start()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run.result(), 1)
        assert not run.done
        await desk.submit(Pong())
        await run.result()

    jumping(test())


def test_a_failed_run_that_nobody_asks_about_is_no_warning() -> None:
    async def test() -> None:
        run = Session(request_reply, {A: Script([]), B: Script([])}).start()
        while not run.done:
            await asyncio.sleep(0)

    jumping(test())


# --- what is told and kept ---


def test_a_tracer_sees_each_delivery_as_it_happens() -> None:
    seen: list[str] = []

    def watch(event: RunEvent) -> None:
        if isinstance(event, Delivered):
            seen.append(str(event.envelope))

    transcript = Session(
        request_reply, {A: Script([Ping("hi")]), B: Script([Pong("yo")])}, tracer=watching(watch)
    ).run()
    assert seen == str(transcript).splitlines()


def test_a_tracer_that_raises_does_not_hurt_the_run(caplog: pytest.LogCaptureFixture) -> None:
    def fail(event: RunEvent) -> None:
        raise ValueError("tracer")

    session = Session(request_reply, {A: Script([Ping()]), B: Script([Pong()])}, tracer=watching(fail))
    assert len(session.run()) == 2
    assert "A tracer failed at RunStarted" in caplog.text


def test_a_failure_is_told_to_the_tracer_with_the_role() -> None:
    seen: list[RunEvent] = []
    session = Session(request_reply, {A: Script([]), B: Script([])}, tracer=watching(seen.append))
    with pytest.raises(SessionError):
        session.run()
    assert isinstance(seen[-1], RunFailed)
    assert (seen[-1].role, seen[-1].turn) == ("A", 1)
    assert "no line left" in seen[-1].reason


def test_an_id_with_a_journal_resumes_where_the_record_ends() -> None:
    journal = MemoryJournal()
    script = Script([Ping("1"), Ping("2")])
    first = Session(rally, {A: script, B: Script([Pong()])}, journal=journal, id="one")
    with pytest.raises(SessionError, match="no line left"):
        first.run()
    again = Session(rally, {A: script, B: Script([Pong("not said"), Stop()])}, journal=journal, id="one")
    assert [envelope.message for envelope in again.run()] == [Ping("1"), Pong(), Ping("2"), Stop()]
    nobody = Session(rally, {A: Hanging(), B: Hanging()}, journal=journal, id="one")
    assert len(nobody.run()) == 4


def test_a_journal_without_an_id_records_each_run_by_itself() -> None:
    journal = MemoryJournal()
    session = Session(request_reply, {A: Script([Ping()]), B: Agent(replies([Pong()]))}, journal=journal)
    assert session.run() == session.run()


# --- workers ---


class Workers:
    """A source of workers that remembers whether it was closed."""

    made: ClassVar[list[Workers]] = []

    def __init__(self) -> None:
        self.closed = False
        Workers.made.append(self)

    async def client(self) -> object:
        return "the launcher"

    async def close(self) -> None:
        self.closed = True


def test_a_source_of_workers_is_made_only_when_one_is_wanted_and_closed_with_the_run() -> None:
    class Embedded(Session):
        _workers = Workers  # type: ignore[assignment]

    class Working(Hanging):
        def bind(self, seat: Seat) -> Working:
            self.seat = seat
            return self

        async def author(self, offer: Offer) -> Message:
            assert self.seat.workers is not None
            assert await self.seat.workers.client() == await self.seat.workers.client()
            return Pong()

    Workers.made.clear()
    Embedded(request_reply, {A: Script([Ping()]), B: Script([Pong()])}).run()
    assert Workers.made == []
    Embedded(request_reply, {A: Script([Ping()]), B: Working()}).run()
    assert [source.closed for source in Workers.made] == [True]


def test_what_a_player_reports_is_told_to_the_tracer() -> None:
    seen: list[RunEvent] = []

    class Telling(Hanging):
        def bind(self, seat: Seat) -> Telling:
            seat.watch("thinking")
            return self

        async def author(self, offer: Offer) -> Message:
            return Ping()

    one = Protocol(send(A, B, Ping))
    Session(one, {A: Telling(), B: Script([])}, tracer=watching(seen.append)).run()
    assert getattr(seen[0], "event", None) == "thinking"
    assert getattr(seen[0], "role", None) == "A"


def test_tokens_that_players_report_are_charged_without_wrapping_them() -> None:
    class Spending(Hanging):
        def bind(self, seat: Seat) -> Spending:
            self.seat = seat
            return self

        async def author(self, offer: Offer) -> Message:
            self.seat.meter.add(50)
            return offer.messages[0]()

    session = Session(rally, {A: Spending(), B: Spending()}, allowance=Allowance(tokens=100))
    with pytest.raises(AllowanceExceeded) as caught:
        session.run()
    assert (caught.value.limit, caught.value.spent) == ("tokens", 100)
