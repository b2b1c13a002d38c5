import json
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter

from partyctl_actors.errors import ContentError, ProtocolError
from partyctl_actors.protocol import Message, Protocol, between, definition, load, roles, send, where

A, B = roles("A", "B")


class Verdict(Message):
    stars: Annotated[int, between(1, 5)]
    title: Annotated[str, where("one line", lambda text: "\n" not in text)] = "none"
    weights: list[Annotated[float, between(0, 1), where("no half", lambda weight: weight != 0.5)]] | None = None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ((0,), "stars: .*greater than or equal to 1, got 0"),
        ((6,), "stars: .*less than or equal to 5, got 6"),
        ((3, "a\nb"), "title: it must be one line"),
        ((3, "a", [0.2, 0.5]), "weights.1: it must be no half"),
        ((3, "a", [1.5]), "weights.0: .*less than or equal to 1"),
    ],
)
def test_a_message_whose_fields_do_not_meet_them_is_not_made(fields: tuple[Any, ...], words: str) -> None:
    with pytest.raises(ContentError, match=words):
        Verdict(*fields)
    with pytest.raises(ContentError, match=words):
        Verdict.from_wire(dict(zip(Verdict.field_types, fields, strict=False)))


def test_a_message_whose_fields_meet_them_is_made() -> None:
    message = Verdict(5, "good", [0.0, 1.0])
    assert Verdict.from_wire(message.to_wire()) == message


def test_a_requirement_that_cannot_be_told_refuses_the_value() -> None:
    class Odd(Message):
        text: Annotated[str, where("long", lambda text: 1 / (len(text) - 1))]

    assert Odd("ab")
    with pytest.raises(ContentError, match="whether it is long cannot be told: ZeroDivisionError"):
        Odd("a")


def test_a_json_schema_has_the_bounds_and_the_words() -> None:
    fields = TypeAdapter(Verdict).json_schema()["properties"]
    assert (fields["stars"]["minimum"], fields["stars"]["maximum"]) == (1, 5)
    assert fields["title"]["description"] == "one line"


def test_a_definition_carries_bounds_and_says_what_it_cannot_carry() -> None:
    described = definition(Protocol(send(A, B, Verdict)))
    types = {field["name"]: field["type"] for field in described["messages"]["Verdict"]["fields"]}
    assert types["stars"] == {"between": {"of": "int", "low": 1, "high": 5}}
    assert types["title"] == {"where": {"of": "str", "requirement": "one line", "transferable": False}}


def test_a_loaded_message_checks_its_bounds_and_takes_the_rest_for_good() -> None:
    protocol = Protocol(send(A, B, Verdict))
    loaded = load(json.loads(json.dumps(definition(protocol))))
    assert loaded == protocol
    assert definition(loaded) == definition(protocol)
    kind: Any = loaded.messages["Verdict"]
    assert kind(3, "a\nb")
    with pytest.raises(ContentError, match="less than or equal to 5"):
        kind(6)


def test_bounds_and_requirements_are_part_of_what_was_declared() -> None:
    def rated(marker: object) -> Protocol:
        kind: type[Message] = type("Rated", (Message,), {"__annotations__": {"stars": Annotated[int, marker]}})
        return Protocol(send(A, B, kind))

    assert rated(between(1, 5)) == rated(between(1, 5))
    assert rated(between(1, 5)) != rated(between(1, 6))
    assert rated(where("even", bool)) == rated(where("even", lambda number: number))
    assert rated(where("even", bool)) != rated(where("odd", bool))


def message_of(annotation: object, **names: object) -> type[Message]:
    return type("M", (Message,), {"__annotations__": {"x": annotation}, **names})


MISUSES: dict[str, tuple[Callable[[], object], str]] = {
    "no words": (lambda: where(" ", bool), "requirement in words"),
    "no function": (lambda: where("even", None), "needs a function"),  # type: ignore[arg-type]
    "bounds the wrong way round": (lambda: between(5, 1), r"Write between\(1, 5\)"),
    "a bound without end": (lambda: between(0, float("inf")), "no finite number"),
    "a bound that is no number": (lambda: between(False, 1), "False is no finite number"),
    "bounds of text": (lambda: message_of(Annotated[str, between(1, 5)]), "of int and float"),
    "bounds of what may be None": (lambda: message_of(Annotated[int | None, between(1, 5)]), r"between\(1, 5\)\] \|"),
    "a foreign marker": (lambda: message_of(Annotated[int, "stars"]), "not 'stars'"),
    "a default out of bounds": (lambda: message_of(Annotated[int, between(1, 5)], x=9), "default does not fit"),
}


@pytest.mark.parametrize("name", MISUSES)
def test_misuse_is_refused_in_words(name: str) -> None:
    misuse, words = MISUSES[name]
    with pytest.raises(ProtocolError, match=words):
        misuse()
