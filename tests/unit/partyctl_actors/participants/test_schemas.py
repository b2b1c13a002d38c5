"""The output schema of a role."""

from __future__ import annotations

import json

import pytest
from fakes.runs import A, B, Ping, Pong, Stop, rally

from partyctl_actors.participants import Offer
from partyctl_actors.participants.answers import read
from partyctl_actors.participants.schemas import output_schema, sendable, union
from partyctl_actors.protocol import Message
from partyctl_actors.protocol.projection import project
from partyctl_plugins.contract import ProviderProfile, SchemaDialect, SchemaMechanism
from partyctl_plugins.dialects import schema_problems


class Step(Message):
    """One thing to do."""

    what: str
    times: int = 1


class Table(Message):
    rows: dict[str, int]


def profile(dialect: SchemaDialect | None) -> ProviderProfile:
    return ProviderProfile("p", output_schema=SchemaMechanism.INLINE_JSON, schema_dialect=dialect)


def test_a_role_has_all_that_it_may_ever_send_and_nothing_else() -> None:
    assert set(sendable(rally, project(rally, B))) == {Pong, Stop}
    assert Ping in sendable(rally, project(rally, A))
    assert Pong not in sendable(rally, project(rally, A))


@pytest.mark.parametrize("dialect", [SchemaDialect.STRICT, None])
def test_a_strict_provider_must_give_fields_that_have_defaults_too(dialect: SchemaDialect | None) -> None:
    schema = output_schema([Step, Pong], profile(dialect))
    assert schema is not None
    assert schema_problems(schema.schema, SchemaDialect.STRICT) == ()
    step = schema.schema["$defs"]["Step"]  # type: ignore[index]
    assert step["required"] == ["what", "times"]
    assert "default" not in step["properties"]["times"]


def test_an_open_provider_may_leave_them_out_and_gives_maps() -> None:
    schema = output_schema([Step, Table], profile(SchemaDialect.OPEN))
    assert schema is not None
    assert schema.schema["$defs"]["Step"]["required"] == ["what"]  # type: ignore[index]


def test_a_schema_that_the_provider_does_not_take_is_left_to_the_prompt() -> None:
    assert output_schema([Pong, Table], profile(SchemaDialect.STRICT)) is None


def test_a_provider_without_schemas_gets_none() -> None:
    assert output_schema([Pong], ProviderProfile("p")) is None


def test_a_payload_belongs_to_its_label() -> None:
    forms = union([Step, Pong], is_strict=True)["properties"]["message"]["anyOf"]
    assert [(form["properties"]["label"]["enum"], form["properties"]["payload"]) for form in forms] == [
        (["Step"], {"$ref": "#/$defs/Step"}),
        (["Pong"], {"$ref": "#/$defs/Pong"}),
    ]


@pytest.mark.parametrize("structured", [True, False])
def test_an_answer_by_the_schema_is_read(structured: bool) -> None:
    answer = {"message": {"label": "Pong", "payload": {"text": "yo"}}}
    offer = Offer(B, A, (Pong, Stop))
    assert read("" if structured else json.dumps(answer), offer, answer if structured else None) == Pong("yo")
