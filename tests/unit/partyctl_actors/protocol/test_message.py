from __future__ import annotations

import copy
import dataclasses
import pickle
from enum import Enum
from typing import ClassVar, Literal

import pytest

from partyctl_actors.errors import ContentError, ProtocolError
from partyctl_actors.protocol import Message


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Ticket(Message):
    """A support question.

    Asked by anybody.
    """

    text: str


class Report(Message):
    title: str
    ticket: Ticket
    colour: Colour = Colour.RED
    tags: list[str] = dataclasses.field(default_factory=list)
    scores: dict[str, float | None] = dataclasses.field(default_factory=dict)
    level: Literal["low", 3, None] = None
    others: list[Ticket] | None = None


class Ship(Message):
    """Ship it."""


WIRE = {
    "title": "t",
    "ticket": {"text": "q"},
    "colour": "blue",
    "tags": ["a"],
    "scores": {"x": 1.5, "y": None},
    "level": 3,
    "others": [{"text": "r"}],
}


def test_fields_go_by_position_and_by_name() -> None:
    assert Ticket("q") == Ticket(text="q")
    assert Report("t", Ticket("q")).ticket.text == "q"


def test_label_and_intent_are_the_class_name_and_its_docstring() -> None:
    assert (Ticket.label, Ticket.intent) == ("Ticket", "A support question.\n\nAsked by anybody.")
    assert (Report.label, Report.intent) == ("Report", "")


def test_a_message_of_every_kind_of_field_comes_back_equal_from_the_wire() -> None:
    report = Report("t", Ticket("q"), Colour.BLUE, ["a"], {"x": 1.5, "y": None}, 3, [Ticket("r")])
    assert report.to_wire() == WIRE
    assert Report.from_wire(WIRE) == report


def test_a_message_without_fields_is_an_empty_map() -> None:
    assert Ship().to_wire() == {}
    assert Ship.from_wire({}) == Ship()


def test_a_field_with_a_default_may_be_missing_on_the_wire() -> None:
    assert Report.from_wire({"title": "t", "ticket": {"text": "q"}}) == Report("t", Ticket("q"))


def test_the_wire_form_shares_nothing_with_the_message() -> None:
    tags = ["a"]
    report = Report("t", Ticket("q"), tags=tags, scores={"x": 1.0})
    tags.append("b")
    wire = report.to_wire()
    wire["tags"].append("c")
    wire["scores"]["z"] = 1.0
    assert (report.tags, report.scores) == (["a"], {"x": 1.0})


def test_a_message_cannot_be_changed() -> None:
    ticket = Ticket("q")
    with pytest.raises(dataclasses.FrozenInstanceError):
        ticket.text = "other"  # type: ignore[misc]


def test_a_message_can_be_copied_pickled_hashed_and_replaced() -> None:
    ticket = Ticket("q")
    assert copy.deepcopy(ticket) == pickle.loads(pickle.dumps(ticket)) == ticket
    assert hash(ticket) == hash(Ticket("q"))
    assert dataclasses.replace(ticket, text="r") == Ticket("r")


def test_a_wrong_type_is_refused_where_the_message_is_made() -> None:
    with pytest.raises(ContentError, match=r"no Ticket: text: .* string, got 5\. Ticket has text") as caught:
        Ticket(5)  # type: ignore[arg-type]
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"title": 7}, "title"),
        ({"title": "\ud800"}, "surrogate"),
        ({"ticket": {"text": 4}}, r"ticket\): .*text"),
        ({"ticket": {"txet": "q"}}, "txet"),
        ({"ticket": "q"}, "ticket"),
        ({"colour": "green"}, "colour"),
        ({"colour": 1}, "colour"),
        ({"tags": "a"}, "tags"),
        ({"tags": [1]}, "tags"),
        ({"scores": {"x": "1.5"}}, "scores"),
        ({"scores": {"x": True}}, "scores"),
        ({"scores": {"x": float("nan")}}, "finite"),
        ({"level": 4}, "level"),
        ({"others": [{}]}, r"others\): .*text"),
        ({"surplus": 1}, "surplus"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_name_of_its_field(changes: dict[str, object], problem: str) -> None:
    with pytest.raises(ContentError, match=problem):
        Report.from_wire({**WIRE, **changes})


@pytest.mark.parametrize("data", [None, "text", ["text"], {1: "q"}])
def test_what_is_no_mapping_of_names_is_refused(data: object) -> None:
    with pytest.raises(ContentError, match="mapping from their names"):
        Ticket.from_wire(data)  # type: ignore[arg-type]


def test_every_missing_and_surplus_argument_is_told() -> None:
    with pytest.raises(ContentError, match=r"title: .*; ticket: .*"):
        Report()  # type: ignore[call-arg]
    with pytest.raises(ContentError, match="unexpected positional"):
        Ticket("q", "r")  # type: ignore[call-arg]


def test_an_integer_beyond_the_wire_is_refused_and_its_limits_are_not() -> None:
    class Count(Message):
        n: int

    assert [Count(n).n for n in (-(2**63), 2**64 - 1)] == [-(2**63), 2**64 - 1]
    for n in (-(2**63) - 1, 2**64):
        with pytest.raises(ContentError, match="64 bits"):
            Count(n)


def test_a_whole_number_is_a_float_and_a_truth_value_is_no_number() -> None:
    class Score(Message):
        value: float

    assert Score(1).value == 1.0
    with pytest.raises(ContentError):
        Score(True)


def test_class_variables_and_methods_are_no_fields() -> None:
    class Reply(Message):
        limit: ClassVar[int] = 3
        text: str

        def short(self) -> str:
            return self.text[: self.limit]

    assert list(Reply.field_types) == ["text"]
    assert Reply("abcdef").short() == "abc"


def test_types_local_to_a_function_or_to_the_class_are_found() -> None:
    class Shade(Enum):
        DARK = 1

    class Paint(Message):
        class Finish(Enum):
            MATT = True

        shade: Shade
        finish: Finish

    assert Paint(Shade.DARK, Paint.Finish.MATT).to_wire() == {"shade": 1, "finish": True}
    with pytest.raises(ContentError):
        Paint.from_wire({"shade": True, "finish": 1})


def test_the_base_class_cannot_be_made() -> None:
    with pytest.raises(ProtocolError, match="Message itself"):
        Message()


def test_a_message_class_cannot_be_derived_from_another() -> None:
    with pytest.raises(ProtocolError, match="Ticket is a message itself"):

        class Urgent(Ticket):
            level: int


def test_a_message_cannot_hold_itself() -> None:
    with pytest.raises(ProtocolError, match=r"Tree\.children.*hold itself"):

        class Tree(Message):
            children: list[Tree]


@pytest.mark.parametrize("name", ["label", "intent", "to_wire", "_hidden"])
def test_a_field_name_that_is_taken_or_private_is_refused(name: str) -> None:
    with pytest.raises(ProtocolError, match=rf"Bad\.{name}"):
        type("Bad", (Message,), {"__annotations__": {name: str}})


@pytest.mark.parametrize(
    "annotation",
    [
        tuple[int],
        set[str],
        bytes,
        list,
        dict,
        dict[int, str],
        object,
        int | str,
        int | str | None,
        Literal[b"x"],
        "Nowhere",
        Enum("Weekday", {"MONDAY": 1.5}),
        Message,
    ],
)
def test_a_type_that_cannot_be_sent_is_refused_at_the_definition(annotation: object) -> None:
    with pytest.raises(ProtocolError, match="Bad"):
        type("Bad", (Message,), {"__annotations__": {"field": annotation}})


@pytest.mark.parametrize(
    "default", ["a", float("inf"), [], dataclasses.field(default="a"), dataclasses.field(init=False)]
)
def test_a_default_that_does_not_fit_is_refused_at_the_definition(default: object) -> None:
    with pytest.raises(ProtocolError, match="Bad"):
        type("Bad", (Message,), {"__annotations__": {"field": float}, "field": default})
