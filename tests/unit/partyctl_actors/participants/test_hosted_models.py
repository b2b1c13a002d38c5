from __future__ import annotations

import sys

import pytest
from fakes.runs import A, B, Notice, Ping, Pong, Stop, rally

from partyctl_actors.errors import ModelNotFound
from partyctl_actors.participants import Correction, ModelRequest, Offer, model
from partyctl_actors.participants.hosted_models import conversation, retry_after
from partyctl_actors.transcript import Envelope, Log

OFFER = Offer(B, A, (Pong, Stop))


def history(*envelopes: Envelope) -> Log:
    log = Log(rally.messages)
    for envelope in envelopes:
        log.add(envelope)
    return log


def test_what_the_role_said_is_the_assistants_and_all_else_the_users() -> None:
    log = history(Envelope(A, B, Ping("1")), Envelope(B, A, Pong("2")), Envelope(A, B, Ping("3")))
    system, turns = conversation(ModelRequest("Be brief.", log.snapshot(), OFFER))
    assert system.startswith("You are B")
    assert system.endswith("Be brief.")
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert turns[1]["content"] == '{"label": "Pong", "payload": {"text": "2"}}'
    assert turns[2]["content"].startswith('A to B: Ping {"text": "3"}')
    assert '"label": "Stop"' in turns[2]["content"]


def test_it_begins_and_ends_with_the_user_whoever_spoke_first() -> None:
    log = history(Envelope(B, A, Pong("1")), Envelope(B, A, Pong("2")))
    _, turns = conversation(ModelRequest("", log.snapshot(), OFFER))
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert turns[0]["content"] == "Begin."


def test_answers_that_could_not_be_used_are_shown_with_the_reason() -> None:
    corrections = (Correction("", "it is empty"), Correction("yes", "no JSON"))
    _, turns = conversation(ModelRequest("", (), OFFER, corrections))
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user", "assistant", "user"]
    assert turns[1]["content"] == "(nothing)"
    assert "it is empty" in turns[2]["content"]
    assert "no JSON" in turns[4]["content"]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
    ],
)
def test_the_time_that_a_service_wants_is_read_from_its_answer(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("opneai:gpt-5", 'Did you mean "openai:gpt-5"?'),
        ("Anthropic:claude", 'Did you mean "anthropic:claude"?'),
        ("anthropic", 'Name one of its models: "anthropic:NAME"'),
        ("openai:", 'Name one of its models: "openai:NAME"'),
        ("gpt-5", 'Use "openai:NAME", "anthropic:NAME"'),
    ],
)
def test_a_wrong_name_is_told_the_nearest(name: str, fix: str) -> None:
    with pytest.raises(ModelNotFound) as caught:
        model(name)
    assert caught.value.fix == fix


@pytest.mark.parametrize("service", ["openai", "anthropic"])
def test_a_missing_extra_is_told_how_to_install_it(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, service, None)
    with pytest.raises(ModelNotFound) as caught:
        model(f"{service}:any")
    assert caught.value.fix == f'Install it: pip install "partyctl[{service}]"'


def test_a_model_shows_no_key() -> None:
    shown = repr(model("openai:any", api_key="secret"))
    assert shown == 'model("openai:any")'
    assert "secret" not in shown


def test_limits_are_above_zero_and_a_name_is_text() -> None:
    for wrong in ({"timeout": 0.0}, {"timeout": float("nan")}, {"timeout": float("inf")}, {"max_tokens": 0}):
        with pytest.raises(ValueError, match="above zero"):
            model("openai:any", **wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="is text"):
        model(Notice)  # type: ignore[arg-type]
