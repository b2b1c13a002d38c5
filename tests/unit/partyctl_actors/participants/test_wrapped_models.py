from __future__ import annotations

import asyncio

import pytest
from fakes.runs import A, B, Ping, Pong, jumping, rally, request_reply

from partyctl_actors.errors import AllowanceExceeded, ConformanceError, ModelError, ModelRefused, ModelUnavailable
from partyctl_actors.participants import (
    Agent,
    Answer,
    LanguageModel,
    ModelAnswered,
    ModelAsked,
    ModelFailed,
    ModelRequest,
    Offer,
    Script,
    fallback,
    metered,
    replies,
    retrying,
    traced,
)
from partyctl_actors.participants.models import complete
from partyctl_actors.participants.wrapped_models import pause
from partyctl_actors.runs import Reported, Session, watching
from partyctl_base.clock import StopSignal

REQUEST = ModelRequest("", (), Offer(B, A, (Pong,)))


class Model:
    """Raises or answers with these, one after the other."""

    def __init__(self, *outcomes: Exception | str, tokens: int = 10) -> None:
        self.outcomes = list(outcomes)
        self.tokens = tokens
        self.closed = 0

    async def complete(self, request: ModelRequest) -> Answer:
        await asyncio.sleep(1.0)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return Answer(outcome, self.tokens)

    def close(self) -> None:
        self.closed += 1


class Clock:
    def __init__(self) -> None:
        self.waited: list[float] = []

    def monotonic(self) -> float:
        return 0.0

    def wait(self, seconds: float, stop: StopSignal) -> bool:
        self.waited.append(seconds)
        return False


def busy(after: float | None = None) -> ModelUnavailable:
    return ModelUnavailable("busy", retry_after=after)


def ask(model: LanguageModel) -> object:
    return jumping(complete(model, REQUEST)).content


@pytest.mark.parametrize(
    ("attempt", "after", "seconds"),
    [(0, None, 0.5), (1, None, 1.0), (3, None, 4.0), (9, None, 30.0), (5000, None, 30.0), (4, 0.0, 0.0), (0, 60, 60)],
)
def test_the_pause_is_what_the_service_wants_or_doubles(attempt: int, after: float | None, seconds: float) -> None:
    assert pause(attempt, busy(after)) == seconds


def test_a_service_that_wants_too_long_is_not_waited_for() -> None:
    assert pause(0, busy(61.0)) is None
    model = Model(busy(3600.0), "never")
    with pytest.raises(ModelUnavailable):
        ask(retrying(model, 5))
    assert model.outcomes == ["never"]


def test_an_unavailable_model_is_asked_again_on_the_loop_or_by_a_clock() -> None:
    assert ask(retrying(Model(busy(), busy(9.0), "yes"), 2)) == "yes"
    clock = Clock()
    assert asyncio.run(complete(retrying(Model(busy(), busy(9.0), "yes"), 2, clock=clock), REQUEST)).content == "yes"
    assert clock.waited == [0.5, 9.0]


def test_it_is_asked_no_more_often_than_it_may_and_only_if_unavailable() -> None:
    with pytest.raises(ModelUnavailable):
        ask(retrying(Model(busy(), busy(), "never"), 1))
    for error in (ModelRefused("no"), ModelError("no"), ValueError("no")):
        with pytest.raises(type(error)):
            ask(retrying(Model(error, "never")))


def test_a_wait_that_is_given_up_stops_the_clock() -> None:
    stopped = []

    class Patient(Clock):
        def wait(self, seconds: float, stop: StopSignal) -> bool:
            stopped.append(stop.wait(30))
            return True

    async def test() -> None:
        asking = asyncio.ensure_future(complete(retrying(Model(busy(), "x"), clock=Patient()), REQUEST))
        await asyncio.wait({asking}, timeout=1.5)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        while not stopped:
            await asyncio.sleep(0.001)

    asyncio.run(test())
    assert stopped == [True]


def test_the_next_model_is_asked_after_a_model_error_and_after_nothing_else() -> None:
    assert ask(fallback(Model(ModelRefused("no")), Model(busy()), Model("yes"))) == "yes"
    with pytest.raises(ModelUnavailable):
        ask(fallback(Model(ModelRefused("no")), Model(busy())))
    with pytest.raises(ValueError, match="a bug"):
        ask(fallback(Model(ValueError("a bug")), Model("never")))


def test_a_meter_belongs_to_the_model_and_not_to_a_run() -> None:
    model = metered(replies(lambda offer: Pong()), tokens=0)
    with pytest.raises(AllowanceExceeded):
        ask(model)
    answering = metered(Model(*['{"label": "Pong", "payload": {}}'] * 3, tokens=10), tokens=15)
    session = Session(request_reply, {A: Script([Ping()]), B: Agent(answering)})
    session.run()
    session.run()
    with pytest.raises(AllowanceExceeded) as caught:
        session.run()
    assert (caught.value.limit, caught.value.spent, caught.value.allowed) == ("tokens", 20, 15)


def test_a_tracer_hears_of_each_question_and_can_harm_nobody() -> None:
    events: list[object] = []

    class Tracer:
        def record(self, event: object) -> None:
            events.append(event)
            raise RuntimeError("a broken tracer")

    assert ask(traced(Model("yes"), Tracer())) == "yes"
    with pytest.raises(ModelRefused):
        ask(traced(Model(ModelRefused("no")), Tracer()))
    assert events == [
        ModelAsked("B", 0),
        ModelAnswered("B", 1.0, 10),
        ModelAsked("B", 0),
        ModelFailed("B", 1.0, "no"),
    ]


def test_without_a_tracer_of_its_own_the_runs_tracer_hears_of_it() -> None:
    events: list[object] = []
    agent = Agent(traced(replies([Pong()])))
    Session(request_reply, {A: Script([Ping()]), B: agent}, tracer=watching(events.append)).run()
    assert next(e.event for e in events if isinstance(e, Reported)) == ModelAsked("B", 0)


def test_what_a_model_uses_up_is_used_up_in_its_run_whatever_is_around_it() -> None:
    model = traced(metered(retrying(fallback(replies([Pong("1"), Pong("2")]))), tokens=1))
    session = Session(request_reply, {A: Script([Ping()]), B: Agent(model)})
    assert session.run().last(Pong) == session.run().last(Pong) == Pong("1")


def test_a_model_is_closed_with_its_role_whatever_is_around_it() -> None:
    model = Model('{"label": "Pong", "payload": {}}')
    Session(request_reply, {A: Script([Ping()]), B: Agent(traced(retrying(fallback(model))))}).run()
    assert model.closed == 1


def test_the_lines_of_a_wrapped_list_are_checked_against_the_role() -> None:
    with pytest.raises(ConformanceError):
        Session(rally, {A: Script([Ping()]), B: Agent(retrying(replies([Ping()])))})


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: fallback("gpt"), TypeError),  # type: ignore[arg-type]
        (lambda: retrying(Model), TypeError),  # type: ignore[arg-type]
        (lambda: retrying(Model(), True), TypeError),
        (lambda: retrying(Model(), -1), ValueError),
        (lambda: metered(Model(), tokens=1.5), TypeError),  # type: ignore[arg-type]
        (lambda: metered(Model(), tokens=-1), ValueError),
        (lambda: traced(Model(), print), TypeError),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_model_or_no_limit_is_refused(make: object, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        make()  # type: ignore[operator]


def test_an_answer_is_an_answer() -> None:
    class Wrong:
        def complete(self, request: ModelRequest) -> str:
            return "yes"

    with pytest.raises(ModelError, match=r"with Answer\(...\)"):
        asyncio.run(complete(Wrong(), REQUEST))  # type: ignore[arg-type]
