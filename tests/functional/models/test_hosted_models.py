"""The real client libraries against fakes of their services."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from fakes.runs import A, B, Ping, Pong, Stop, rally

import partyctl as ap
from partyctl_actors.errors import ModelNotFound, ModelRefused, ModelUnavailable
from partyctl_actors.participants import LanguageModel
from partyctl_base.clock import StopSignal

Serve = Callable[[str], str]
SERVICES = ["openai", "anthropic"]


class Question(ap.Message):
    text: str


class Article(ap.Message):
    text: str


written = ap.Protocol(ap.send(A, B, Question), ap.send(B, A, Article))


class NoTime:
    def __init__(self) -> None:
        self.waited: list[float] = []

    def monotonic(self) -> float:
        return sum(self.waited)

    def wait(self, seconds: float, stop: StopSignal) -> bool:
        self.waited.append(seconds)
        return False


@pytest.fixture(params=SERVICES)
def reached(request: pytest.FixtureRequest, serve: Serve) -> LanguageModel:
    return ap.model(f"{request.param}:fake", api_key="right", base_url=serve(request.param))


def asked(model: LanguageModel, text: str) -> Article:
    return ap.Session(written, {B: ap.Agent(model, "Be brief.")}).ask(A, Question(text), expect=Article)


def test_a_role_is_played_by_a_model_behind_a_service(reached: LanguageModel) -> None:
    assert asked(reached, "tea") == Article('Article on "tea"')


def test_each_run_has_a_client_of_its_own_so_that_a_session_runs_twice(reached: LanguageModel) -> None:
    session = ap.Session(written, {A: ap.Script([Question("tea")]), B: ap.Agent(reached)})
    assert session.run() == session.run()


def test_what_it_costs_is_counted_without_any_wrapping(reached: LanguageModel) -> None:
    cast = {A: ap.Script([Ping("1"), Ping("2")]), B: ap.Agent(reached)}
    with pytest.raises(ap.AllowanceExceeded) as caught:
        ap.Session(rally, cast, allowance=ap.Allowance(tokens=1)).run()
    assert (caught.value.limit, caught.value.allowed) == ("tokens", 1)
    assert caught.value.spent >= 12


def test_an_answer_that_cannot_be_used_is_put_right(reached: LanguageModel) -> None:
    assert asked(reached, "[[say:neither JSON nor a label]]").text.startswith("Article on")


def test_a_busy_service_is_asked_again_after_the_time_it_wants(reached: LanguageModel) -> None:
    clock = NoTime()
    model = ap.retrying(reached, 2, clock=clock)
    assert asked(model, "[[fail:429:1]] [[retryafter:7]]").text.startswith("Article on")
    assert clock.waited == [7.0]


def test_a_busy_service_that_nobody_waits_for_is_unavailable(reached: LanguageModel) -> None:
    with pytest.raises(ModelUnavailable, match="HTTP 503") as caught:
        asked(reached, "[[fail:503]]")
    assert caught.value.retry_after is None


def test_a_request_that_is_refused_is_not_repeated(reached: LanguageModel) -> None:
    clock = NoTime()
    with pytest.raises(ModelRefused, match="HTTP 400"):
        asked(ap.retrying(reached, clock=clock), "[[fail:400]]")
    assert clock.waited == []


def test_the_next_model_answers_for_one_that_cannot(serve: Serve) -> None:
    first = ap.model("openai:fake", api_key="wrong", base_url=serve("openai"))
    second = ap.model("anthropic:fake", api_key="any", base_url=serve("anthropic"))
    assert asked(ap.fallback(first, second), "tea") == Article('Article on "tea"')
    with pytest.raises(ModelRefused, match="OPENAI_API_KEY"):
        asked(first, "tea")


def test_a_slow_service_is_given_up_at_the_deadline_of_the_step(reached: LanguageModel) -> None:
    protocol = ap.Protocol(ap.send(A, B, Ping), ap.send(B, A, Pong, within=timedelta(seconds=0.5)))
    session = ap.Session(protocol, {A: ap.Script([Ping("[[delay:20]]")]), B: ap.Agent(reached)})
    began = time.monotonic()
    with pytest.raises(ap.DeadlineExceeded):
        session.run()
    assert time.monotonic() - began < 10


def test_a_service_that_cannot_be_reached_is_unavailable() -> None:
    for service in SERVICES:
        with pytest.raises(ModelUnavailable, match="cannot be reached"):
            asked(ap.model(f"{service}:fake", api_key="right", base_url="http://127.0.0.1:9"), "tea")


def test_a_service_slower_than_its_limit_is_unavailable(serve: Serve) -> None:
    model = ap.model("openai:fake", api_key="right", base_url=serve("openai"), timeout=0.3)
    with pytest.raises(ModelUnavailable, match="too long"):
        asked(model, "[[delay:20]]")


def test_a_model_that_will_not_and_one_that_broke_are_told_apart(serve: Serve) -> None:
    model = ap.model("openai:fake", api_key="right", base_url=serve("openai"))
    with pytest.raises(ModelRefused, match="not that"):
        asked(model, "[[refuse:not that]]")
    with pytest.raises(ModelUnavailable, match="it broke"):
        asked(model, "[[broken]]")


def test_without_a_key_it_says_where_one_is_looked_for(monkeypatch: pytest.MonkeyPatch, serve: Serve) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ModelNotFound, match="Set OPENAI_API_KEY"):
        asked(ap.model("openai:fake", base_url=serve("openai")), "tea")


def test_a_model_that_blocks_ends_with_its_time_and_not_with_itself() -> None:
    release = threading.Event()

    class Blocking:
        def complete(self, request: object) -> object:
            threading.current_thread().name += " blocked"
            release.wait(60)
            raise AssertionError("too late")

    protocol = ap.Protocol(ap.send(A, B, Ping), ap.send(B, A, Stop, within=timedelta(milliseconds=20)))
    with pytest.raises(ap.DeadlineExceeded):
        ap.Session(protocol, {A: ap.Script([Ping()]), B: ap.Agent(Blocking())}).run()  # type: ignore[call-overload]
    (left,) = [each for each in threading.enumerate() if each.name == "partyctl model of B blocked"]
    assert left.daemon
    release.set()
    left.join(30)
