import copy
import json
from collections.abc import Callable
from dataclasses import field
from datetime import timedelta
from enum import Enum, IntEnum, StrEnum
from typing import Any, Literal

import msgpack
import pytest

from partyctl_actors.errors import ContentError, ProtocolError
from partyctl_actors.protocol import (
    Message,
    Protocol,
    Step,
    choose,
    definition,
    load,
    loop,
    project,
    repeat,
    roles,
    send,
)

A, B, C = roles("A", "B", "C")


class Mood(StrEnum):
    GOOD = "good"
    BAD = "bad"


class Level(IntEnum):
    LOW = 1


class Odd(Enum):
    ONE = 1
    YES = "yes"
    ALSO_YES = "yes"  # noqa: PIE796


class Place(Message):
    """Where."""

    path: str
    line: int = 1


class Finding(Message):
    """What was found.

    And where.
    """

    place: Place
    mood: Mood = Mood.GOOD
    level: Level | None = None
    odd: list[Odd] = field(default_factory=lambda: [Odd.YES])
    seen: dict[str, list[Place]] = field(default_factory=dict)
    kind: Literal["a", 2, True, None] = "a"
    nothing: None = None
    at: Place = Place("main.py", 3)


class Ok(Message):
    pass


def example() -> Protocol:
    again = choose(B, A, {Ok: [send(B, C, Ok)], Finding: [send(B, C, Finding), repeat()]}, within=timedelta(minutes=1))
    return Protocol(loop(send(A, B, Place, within=timedelta(microseconds=7)), again), send(A, C, Ok))


def through_json(protocol: Protocol) -> Protocol:
    return load(json.loads(json.dumps(definition(protocol))))


def test_a_loaded_protocol_is_equal_and_can_be_followed() -> None:
    protocol = example()
    loaded = through_json(protocol)
    assert loaded == protocol
    assert (loaded.id, hash(loaded), str(loaded)) == (protocol.id, hash(protocol), str(protocol))
    assert loaded.roles == protocol.roles
    assert [project(loaded, role) for role in loaded.roles] == [project(protocol, role) for role in protocol.roles]
    assert definition(loaded) == definition(protocol)


def test_a_definition_goes_through_message_pack() -> None:
    assert load(msgpack.unpackb(msgpack.packb(definition(example())))) == example()


def test_loaded_message_classes_take_and_give_the_same_wire_form() -> None:
    finding = Finding(Place("a.py"), Mood.BAD, Level.LOW, [Odd.ONE, Odd.YES], {"x": [Place("b.py", 2)]}, 2)
    rebuilt = through_json(example()).messages["Finding"]
    assert rebuilt is not Finding
    assert (rebuilt.label, rebuilt.intent) == (Finding.label, Finding.intent)
    assert rebuilt.from_wire(finding.to_wire()).to_wire() == finding.to_wire()


def test_loaded_message_classes_have_the_defaults_that_stay_the_same() -> None:
    rebuilt = through_json(example()).messages["Finding"]
    wire = {"place": {"path": "a.py"}, "odd": [1]}
    assert rebuilt.from_wire(wire).to_wire() == Finding.from_wire(wire).to_wire()
    with pytest.raises(ContentError, match="odd: field required"):
        rebuilt.from_wire({"place": {"path": "a.py"}})
    first, second = rebuilt.from_wire(wire), rebuilt.from_wire(wire)
    first.seen["y"] = []  # type: ignore[attr-defined]
    assert second.seen == {}  # type: ignore[attr-defined]


def test_a_deep_or_shared_declaration_has_a_flat_and_short_definition() -> None:
    step: Step = send(A, B, Ok)
    for _ in range(3_000):
        step = choose(A, B, {Ok: [step], Place: [step]})
    protocol = Protocol(step)
    assert len(definition(protocol)["rows"]) == 3_001
    assert through_json(protocol) == protocol


def renamed(old: str, new: str) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        text = json.dumps(data).replace(f'"{old}"', f'"{new}"')
        data.clear()
        data.update(json.loads(text))

    return change


@pytest.mark.parametrize(
    "change",
    [
        renamed("path", "file"),
        lambda d: d["messages"]["Place"]["fields"][1].update(type="float"),
        lambda d: d["messages"]["Place"]["fields"][1].update(default=2),
        lambda d: d["messages"]["Place"].update(intent="Elsewhere."),
        lambda d: d["messages"]["Finding"]["fields"][1]["type"]["enum"]["members"].pop(),
        lambda d: d["rows"][-1][1].update(to="B", **{"from": "C"}),
        lambda d: d["rows"][-2][0].update(within=8),
        lambda d: d["rows"][-1].pop(),
        renamed("Ok", "Fine"),
    ],
)
def test_the_id_depends_on_all_that_is_declared(change: Callable[[dict[str, Any]], None]) -> None:
    data = definition(example())
    change(data)
    assert load(data).id != example().id


def test_the_id_does_not_depend_on_the_order_of_branches_or_on_the_process() -> None:
    one = Protocol(choose(A, B, {Ok: [], Place: [send(B, A, Ok)]}))
    other = Protocol(choose(A, B, {Place: [send(B, A, Ok)], Ok: []}))
    assert one == other
    assert one.id == "c107f7c95ce0393e7d128e0253c2df82"


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(schema="other/v1"),
        lambda d: d.pop("rows"),
        lambda d: d.update(start=99),
        lambda d: d.update(start=-1),
        lambda d: d.update(start="0"),
        lambda d: d["rows"][-1].append({"loop": len(d["rows"]) - 1}),
        lambda d: d["rows"][-1].append({"repeat": True}),
        lambda d: d["rows"][-1].append(None),
        lambda d: d["rows"][-1].append({"from": "A", "to": "A", "branches": [["Ok", None]]}),
        lambda d: d["rows"][-1].append({"from": "A", "to": "B", "branches": [["Ok", None], ["Ok", None]]}),
        lambda d: d["rows"][-1].append({"from": "A", "to": "B", "branches": [["Nowhere", None]]}),
        lambda d: d["rows"][-1].append({"from": "A", "to": "B", "branches": [["Ok", None]], "within": 1e30}),
        lambda d: d["messages"]["Place"]["fields"].append({"name": "path", "type": "str"}),
        lambda d: d["messages"]["Place"]["fields"].append({"name": "__init__", "type": "str"}),
        lambda d: d["messages"]["Place"]["fields"].append({"name": "label", "type": "str"}),
        lambda d: d["messages"]["Place"]["fields"].append({"name": "x", "type": "object"}),
        lambda d: d["messages"]["Place"]["fields"].append({"name": "x", "type": {"message": "Place"}}),
        lambda d: d["messages"]["Place"]["fields"].append({"name": "x", "type": {"message": "Finding"}}),
        lambda d: d["messages"]["Place"]["fields"].append({"name": "x", "type": {"literal": []}}),
        lambda d: d["messages"]["Place"]["fields"].append({"name": "x", "type": {"literal": [[1]]}}),
        lambda d: d["messages"]["Place"]["fields"].append({"name": "x", "type": "int", "default": "a"}),
        lambda d: d["messages"]["Place"].update(intent=5),
        lambda d: d["messages"]["Finding"]["fields"][1]["type"]["enum"].update(members=[["mro", "x"]]),
        lambda d: d["messages"]["Finding"]["fields"][1]["type"]["enum"].update(base="type"),
    ],
)
def test_a_malformed_definition_is_refused(change: Callable[[dict[str, Any]], object]) -> None:
    data = copy.deepcopy(definition(example()))
    change(data)
    with pytest.raises(ProtocolError):
        load(data)


def test_a_field_type_nested_without_end_is_refused() -> None:
    data = definition(example())
    kind: Any = "str"
    for _ in range(5_000):
        kind = {"list": kind}
    data["messages"]["Place"]["fields"].append({"name": "x", "type": kind})
    with pytest.raises(ProtocolError, match="nested too deeply"):
        load(data)


def test_something_else_is_no_definition() -> None:
    wrong: list[Any] = [None, [], {}, {"schema": "partyctl.protocol/v1"}]
    for data in wrong:
        with pytest.raises(ProtocolError, match="no definition of a protocol"):
            load(data)
