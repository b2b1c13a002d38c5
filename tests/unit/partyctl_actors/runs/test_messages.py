from __future__ import annotations

import contextlib

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partyctl_actors.runs import messages
from partyctl_actors.runs.messages import (
    Cancel,
    Cancelled,
    Deliver,
    End,
    Failed,
    Grant,
    Join,
    Malformed,
    Recalled,
    RunMessage,
    Sent,
    Welcome,
    decode,
    encode,
)

EVERY: list[RunMessage] = [
    Join("0123"),
    Welcome(),
    Grant(1, None),
    Grant(2, 0.5),
    Sent(3, "B", "Ping", b"\x80", 7),
    Deliver(4, "A", "Ping", b"\x80", True, 5),
    Deliver(5, "A", "Ping", b"", False, None),
    Recalled(6, "B", "Ping", b"\x80"),
    Cancel("because \udc00"),
    Cancelled(),
    End(),
    Failed(7, "ValueError", "no", "", "", "", "", "shop.py:7, in answer"),
]


@pytest.mark.parametrize("message", EVERY, ids=lambda message: type(message).__name__)
def test_what_is_encoded_is_decoded(message: RunMessage) -> None:
    assert decode(encode(message)) == message
    assert type(decode(encode(message))) is type(message)


def test_every_kind_is_tried_here() -> None:
    assert {type(message) for message in EVERY} == {kind for kind, _ in messages._KINDS.values()}


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"t": "grant", "turn": True, "within": None}, "turn"),
        ({"t": "grant", "turn": 1, "within": "1"}, "within"),
        ({"t": "sent", "turn": 1, "receiver": "B", "label": "Ping", "payload": "text", "tokens": 0}, "payload"),
        ({"t": "join"}, "protocol"),
    ],
)
def test_a_field_of_another_type_is_named(fields: dict[str, object], place: str) -> None:
    with pytest.raises(Malformed) as caught:
        decode(msgpack.packb(fields))
    assert caught.value.where == place


@pytest.mark.parametrize("data", [b"", b"\xc1", msgpack.packb([1]), msgpack.packb({}), msgpack.packb({"t": ["end"]})])
def test_bytes_of_no_kind_are_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        decode(data)


@given(st.binary(max_size=100))
def test_any_bytes_are_a_message_or_malformed(data: bytes) -> None:
    with contextlib.suppress(Malformed):
        decode(data)
