from __future__ import annotations

import json
from enum import Enum
from types import GenericAlias
from typing import Any, Literal, Optional

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from partyctl_actors.protocol import Message
from partyctl_actors.protocol.schema import Rebuilder, describe, with_nested


class Colour(Enum):
    RED = "red"
    TWO = 2
    YES = True


class Point(Message):
    """A point."""

    x: float
    name: str | None = None


Typed = tuple[Any, st.SearchStrategy[Any]]

TEXT = st.text(max_size=5)
LEAVES: list[Typed] = [
    (str, TEXT),
    (int, st.integers(-(2**63), 2**64 - 1)),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (bool, st.booleans()),
    (None, st.none()),
    (Literal["a", 1, None], st.sampled_from(["a", 1, None])),
    (Colour, st.sampled_from(Colour)),
    (Point, st.builds(Point, st.floats(-1, 1), TEXT)),
]


def wider(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    return st.one_of(
        inner.map(lambda t: (GenericAlias(list, (t[0],)), st.lists(t[1], max_size=3))),
        inner.map(lambda t: (GenericAlias(dict, (str, t[0])), st.dictionaries(TEXT, t[1], max_size=3))),
        inner.map(lambda t: (Optional[t[0]], st.none() | t[1])),  # noqa: UP045  (None | None is no type)
    )


TYPES = st.recursive(st.sampled_from(LEAVES), wider, max_leaves=4)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(TYPES, max_size=4), st.data())
def test_any_message_and_its_rebuilt_class_agree_on_the_wire(types: list[Typed], data: st.DataObject) -> None:
    kind: type[Message] = type("Any", (Message,), {"__annotations__": {f"f{i}": of for i, (of, _) in enumerate(types)}})
    message: Message = kind(*(data.draw(values) for _, values in types))
    wire = json.loads(json.dumps(message.to_wire()))
    assert kind.from_wire(wire) == message
    definitions = {label: describe(inner) for label, inner in with_nested([kind]).items()}
    rebuilt = Rebuilder(json.loads(json.dumps(definitions))).message("Any")
    assert rebuilt.from_wire(wire).to_wire() == message.to_wire()
    assert describe(rebuilt) == describe(kind)
