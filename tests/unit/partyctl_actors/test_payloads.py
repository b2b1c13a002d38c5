from __future__ import annotations

import contextlib

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partyctl_actors.errors import ContentError
from partyctl_actors.payloads import pack, unpack

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=8), VALUES, max_size=5))
def test_what_is_packed_is_unpacked(fields: dict[str, object]) -> None:
    assert unpack(pack(fields)) == fields


@pytest.mark.parametrize("value", ["\udc00", "a\u2028b\0", 2**64, -(2**200), 10**4000, ""])
def test_the_edges_of_text_and_numbers_survive(value: object) -> None:
    assert unpack(pack({"value": value})) == {"value": value}


@pytest.mark.parametrize("value", [object(), {1, 2}, b"".__class__])
def test_a_value_that_cannot_be_carried_is_a_content_error(value: object) -> None:
    with pytest.raises(ContentError, match="cannot be carried"):
        pack({"value": value})


def test_what_is_nested_too_deep_is_a_content_error() -> None:
    deep: list[object] = []
    for _ in range(2000):
        deep = [deep]
    with pytest.raises(ContentError, match="cannot be carried"):
        pack({"value": deep})


@given(st.binary(max_size=200))
def test_any_bytes_are_fields_or_a_content_error(data: bytes) -> None:
    with contextlib.suppress(ContentError):
        assert isinstance(unpack(data), dict)


@pytest.mark.parametrize(
    "data",
    [
        msgpack.packb([1]),
        msgpack.packb({"n": msgpack.ExtType(2, b"1")}),
        msgpack.packb({"n": msgpack.ExtType(1, b"1" * 5000)}),
        msgpack.packb({"n": msgpack.ExtType(1, b"x")}),
        b"",
    ],
)
def test_bytes_that_are_no_fields_are_refused(data: bytes) -> None:
    with pytest.raises(ContentError, match="cannot be read"):
        unpack(data)
