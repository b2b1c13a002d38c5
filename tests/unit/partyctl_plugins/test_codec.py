"""Dataclasses to maps and back: both directions check."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

import pytest

from partyctl_plugins.codec import Codec, Mismatch, codec, pack, tagged, unpack
from partyctl_plugins.errors import RecordError


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


@dataclass(frozen=True)
class Shape:
    name: str
    points: tuple[Point, ...] = ()
    colours: frozenset[Colour] = frozenset()
    size: Literal["big", "small"] = "big"
    notes: Mapping[str, str] = field(default_factory=dict)
    extra: object = None
    parent: "Point | None" = None

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a shape has a name")


WHOLE = Shape("s", (Point(1), Point(2, 3)), frozenset(Colour), "small", {"a": "b"}, {"k": [1, 2.5, None]}, Point(9))


def test_a_value_comes_back_equal() -> None:
    shape = codec(Shape)
    assert shape.decode(unpack(pack(shape.encode(WHOLE)))) == WHOLE


def test_a_field_with_its_simple_default_is_left_out() -> None:
    assert codec(Point).encode(Point(1)) == {"x": 1}


def test_sets_are_written_in_order() -> None:
    assert codec(frozenset[Colour]).encode(frozenset(Colour)) == ["blue", "red"]


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, True),
        (int, 1.0),
        (float, "1"),
        (bool, 1),
        (str, b"text"),
        (Point, {"x": 1}),
        (tuple[int, ...], [1]),
        (frozenset[Colour], {Colour.RED}),
        (Colour, "red"),
        (Literal["a"], "b"),
        (Mapping[str, int], [1]),
        (Mapping[str, int], {1: 1}),
        (object, Path("/")),
        (object, {"deep": [object()]}),
    ],
)
def test_what_does_not_fit_is_not_encoded(hint: Any, value: object) -> None:
    with pytest.raises(Mismatch):
        codec(hint).encode(value)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Point, [1]),
        (Point, {}),
        (Point, {"x": 1, "z": 2}),
        (Point, {"x": "1"}),
        (Shape, {"name": ""}),
        (Colour, "green"),
        (Colour, ["red"]),
        (tuple[int, ...], "12"),
        (Point | None, 3),
    ],
)
def test_what_does_not_fit_is_not_decoded(hint: Any, value: object) -> None:
    with pytest.raises(Mismatch):
        codec(hint).decode(value)


def test_a_mismatch_names_the_place() -> None:
    with pytest.raises(Mismatch) as caught:
        codec(Shape).decode({"name": "s", "parent": {"x": "one"}})
    assert caught.value.describe() == "parent.x: a whole number expected, not 'one'"


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(Mismatch) as caught:
        codec(int).decode("x" * 1000)
    assert len(caught.value.describe()) < 150


class TestTagged:
    union: Codec = tagged([Point, Shape], "is")

    def test_the_class_is_named(self) -> None:
        assert self.union.encode(Point(1)) == {"is": "Point", "x": 1}

    def test_an_instance_of_a_subclass_goes_as_its_nearest_member(self) -> None:
        class Dot(Point):
            pass

        assert self.union.encode(Dot(1)) == {"is": "Point", "x": 1}

    @pytest.mark.parametrize("value", [{}, {"is": "Line"}, {"is": ["Point"]}, "Point", None])
    def test_an_unknown_member_is_refused(self, value: object) -> None:
        with pytest.raises(Mismatch):
            self.union.decode(value)

    def test_a_stranger_is_not_encoded(self) -> None:
        with pytest.raises(Mismatch, match="Point, Shape expected, not a PosixPath"):
            self.union.encode(Path("/"))


def test_a_hint_that_is_not_understood_is_an_error_at_once() -> None:
    with pytest.raises(TypeError, match="no codec"):
        codec(dict)


@pytest.mark.parametrize("value", [2**64, {"deep": Path("/")}])
def test_what_msgpack_cannot_carry_is_a_record_error(value: object) -> None:
    with pytest.raises(RecordError):
        pack(value)


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x81\x01\x02", b"\xa5ab", b"\x01\x02", b"\x91" * 5000])
def test_bytes_that_are_not_msgpack_are_a_record_error(data: bytes) -> None:
    with pytest.raises(RecordError):
        unpack(data)


def test_lone_surrogates_survive() -> None:
    assert unpack(pack("a\ud800b")) == "a\ud800b"
