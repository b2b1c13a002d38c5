"""`Run.events`, and callers that say more than their opening."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest
from fakes.runs import A, B, C, Hanging, Notice, Ping, Pong, Stop, jumping, rally, request_reply, scripted

from partyctl_actors.errors import Cancelled, ProjectionError
from partyctl_actors.participants import Desk, Human, Script
from partyctl_actors.protocol import Protocol, choose, send
from partyctl_actors.runs import MemoryJournal, MemoryTracer, RunEvent, Session, Transcript, watching
from partyctl_actors.runs.feed import Feed
from partyctl_actors.runs.tracing import RunEnded

WHOLE = ["RunStarted", "TurnGranted", "Delivered", "TurnGranted", "Delivered", "RunEnded"]


async def heard(run: object) -> list[str]:
    return [type(event).__name__ async for event in run.events()]  # type: ignore[attr-defined]


def test_every_listener_hears_everything_from_the_moment_it_listens() -> None:
    async def test() -> None:
        run = scripted().start()
        early = [run.events(), run.events()]
        assert await heard(run) == WHOLE
        assert [[type(event).__name__ async for event in events] for events in early] == [WHOLE, WHOLE]
        assert await heard(run) == []

    jumping(test())


def test_listeners_follow_a_run_while_it_goes_on_each_at_its_own_pace() -> None:
    async def test() -> None:
        desk = Desk()
        run = Session(request_reply, {B: Human(desk)}).start(A, Ping())
        slow, quick = run.events(), asyncio.ensure_future(heard(run))
        first = await anext(slow)
        while not desk.offered:
            await asyncio.sleep(0)
        late = asyncio.ensure_future(heard(run))
        await asyncio.sleep(1)
        await desk.submit(Pong())
        assert await quick == WHOLE
        assert await late == WHOLE[4:]
        assert [type(event).__name__ for event in [first, *[event async for event in slow]]] == WHOLE

    jumping(test())


def test_a_failed_run_ends_its_events_and_raises_in_its_result() -> None:
    async def test() -> None:
        run = Session(request_reply, {A: Script([]), B: Script([])}).start()
        assert (await heard(run))[-1] == "RunFailed"
        with pytest.raises(Exception, match="no line left"):
            await run.result()

    jumping(test())


def test_a_listener_that_gives_up_leaves_the_others_and_nothing_behind() -> None:
    async def test() -> None:
        feed = Feed()
        listener = feed.listen()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(listener), 1)
        event = RunEnded("r", 1)
        feed.record(event)
        assert await anext(listener) is event
        feed.close()
        assert [one async for one in listener] == []

    jumping(test())


def test_what_every_listener_has_heard_is_not_kept() -> None:
    class Event:
        pass

    feed, event = Feed(), Event()
    gone = weakref.ref(event)
    listener = feed.listen()
    feed.record(event)  # type: ignore[arg-type]
    del event
    gc.collect()
    assert gone() is not None
    del listener
    gc.collect()
    assert gone() is None


def test_a_session_with_a_tracer_tells_both_and_the_tracer_cannot_hurt_the_listeners() -> None:
    tracer = MemoryTracer()

    def raising(event: RunEvent) -> None:
        tracer.record(event)
        raise RuntimeError("it breaks")

    async def test() -> None:
        cast = {A: Script([Ping()]), B: Script([Pong()])}
        assert await heard(Session(request_reply, cast, tracer=watching(raising)).start()) == WHOLE

    jumping(test())
    assert tracer.names() == WHOLE


def test_a_run_is_cancelled_at_the_end_of_its_block() -> None:
    player = Hanging()

    async def test() -> None:
        async with Session(request_reply, {A: player, B: Script([])}).start() as run:
            while not player.asked:
                await asyncio.sleep(0)
        assert run.done
        with pytest.raises(Cancelled, match="its block was left"):
            await run.result()
        async with scripted().start() as run:
            assert len(await run.result()) == 2

    jumping(test())
    assert player.cancelled == ["its block was left"]


# --- callers that speak more than once ---


async def played(session: Session, desk: Desk) -> Transcript:
    run = session.start(A, Ping("1"))
    while not run.done:
        if desk.offered:
            await desk.submit(Ping("2"))
        await asyncio.sleep(0)
    return await run.result()


def test_a_caller_that_is_a_person_says_its_opening_and_then_what_it_is_asked_for() -> None:
    desk = Desk()
    session = Session(rally, {A: Human(desk), B: Script([Pong(), Stop()])})
    for _ in range(2):
        transcript = jumping(played(session, desk))
        assert [envelope.message for envelope in transcript] == [Ping("1"), Pong(), Ping("2"), Stop()]


def test_such_a_caller_that_is_resumed_does_not_open_again() -> None:
    journal, desk = MemoryJournal(), Desk()

    async def test() -> None:
        run = Session(rally, {A: Human(desk), B: Script([Pong()])}, journal=journal, id="r").start(A, Ping("1"))
        while not desk.offered:
            await asyncio.sleep(0)
        await run.cancel()
        cast = {A: Human(desk), B: Script([Pong(), Stop()])}
        transcript = await played(Session(rally, cast, journal=journal, id="r"), desk)
        assert [envelope.message for envelope in transcript] == [Ping("1"), Pong(), Ping("2"), Stop()]

    jumping(test())


def test_such_a_caller_may_open_with_any_message_on_offer_and_with_no_other() -> None:
    protocol = Protocol(choose(A, B, {Ping: [], Pong: []}), send(B, A, Stop), send(A, B, Notice))

    async def test() -> None:
        desk = Desk()
        session = Session(protocol, {A: Human(desk), B: Script([Stop()])})
        async with session.start(A, Pong()) as run:
            while not desk.offered:
                await asyncio.sleep(0)
            await desk.submit(Notice())
            assert [kind.label for kind in (await run.result()).messages] == ["Pong", "Stop", "Notice"]
        with pytest.raises(ProjectionError, match="opens with Ping or Pong"):
            session.start(A, Notice())
        with pytest.raises(ProjectionError, match="does not speak first"):
            Session(protocol, {A: Script([]), B: Human(desk)}).start(B, Stop())

    jumping(test())


def test_a_caller_that_something_else_plays_cannot_be_opened() -> None:
    async def test() -> None:
        with pytest.raises(ProjectionError, match="played by the cast already"):
            Session(request_reply, {A: Script([Ping()]), B: Script([])}).start(A, Ping())
        with pytest.raises(ProjectionError, match=r"speaks more than once.*Human at a Desk") as caught:
            Session(
                Protocol(send(A, B, Ping), send(B, C, Ping), send(A, C, Pong)), {B: Script([]), C: Script([])}
            ).start(A, Ping())
        assert caught.value.where == "start()"

    jumping(test())
