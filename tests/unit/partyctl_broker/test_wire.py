import contextlib

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partyctl_broker import wire
from partyctl_broker.errors import LetterRefused, Malformed, VersionMismatch
from partyctl_broker.wire import Envelope, Kind

counts = st.integers(0, 2**64 - 1)
addresses = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=60)


@given(st.sampled_from(Kind), counts, counts, counts, st.binary(max_size=50), st.binary(max_size=30), counts)
def test_an_envelope_comes_apart_into_what_it_was_made_of(kind, stream, sequence, correlation, payload, trace, since):
    sealed = wire.seal(kind, sequence, correlation, payload, stream=stream, trace=trace, since=since)
    assert wire.unseal(sealed) == Envelope(kind, stream, sequence, correlation, trace, payload, since)


@given(st.sampled_from(Kind), counts, counts, counts)
def test_our_fixed_header_is_the_msgpack_array_of_the_specification(kind, stream, sequence, correlation):
    unpacker = msgpack.Unpacker()
    unpacker.feed(wire.seal(kind, sequence, correlation, b"payload", stream=stream))
    assert unpacker.unpack() == [wire.VERSION, kind, stream, sequence, correlation, None]


@given(counts, st.binary(max_size=20))
def test_a_header_of_any_other_encoding_is_read_too(sequence, payload):
    header = msgpack.packb([wire.VERSION, 0, 9, sequence, 0, None])
    assert wire.unseal(header + payload) == Envelope(0, 9, sequence, 0, b"", payload)


def test_elements_that_a_later_version_appends_are_ignored():
    header = msgpack.packb([wire.VERSION, 3, 9, 1, 2, None, 7, "window", {"more": 1}])
    assert wire.unseal(header + b"x") == Envelope(3, 9, 1, 2, b"", b"x", 7)


def test_an_unknown_kind_is_no_reason_to_fail():
    assert wire.unseal(msgpack.packb([wire.VERSION, 99, 9, 1, 2, None])).kind == 99


def test_another_version_is_named():
    with pytest.raises(VersionMismatch) as caught:
        wire.unseal(msgpack.packb([7, 0, 0, 1, 2, None]))
    assert caught.value.version == 7


@pytest.mark.parametrize(
    "header",
    [
        [],
        [1],
        [1, 0, 0, 0, 0],
        "text",
        7,
        None,
        {},
        ["1", 0, 0, 0, 0, None],
        [1, -1, 0, 0, 0, None],
        [1, 0, 0, 1.5, 0, None],
        [1, 0, 0, 0, True, None],
        [1, 0, 0, 0, 0, "text"],
        [1, 0, 0, 0, 0, None, "text"],
        [True, 0, 0, 0, 0, None],
        [[1], 0, 0, 0, 0, None],
    ],
)
def test_a_header_of_another_form_is_malformed(header):
    with pytest.raises(Malformed):
        wire.unseal(msgpack.packb(header))


@given(st.binary(max_size=80))
def test_any_bytes_are_an_envelope_or_malformed(data):
    with contextlib.suppress(Malformed):
        wire.unseal(data)


@given(addresses, addresses)
def test_a_road_has_two_ends(destination, source):
    assert wire.ends(wire.road(destination, source)) == (destination, source)


def test_the_broker_is_the_empty_address():
    assert wire.ends(wire.TO_BROKER) == ("", "")
    assert wire.ends(wire.road("run/a", "")) == ("run/a", "")


@given(st.binary(max_size=600))
def test_any_bytes_are_an_address_frame_or_malformed(frame):
    try:
        destination, source = wire.ends(frame)
    except Malformed:
        return
    assert wire.road(destination, source) == frame


@pytest.mark.parametrize("frame", [b"", b"no nul", b"a\0b\0c", b"\xff\0a", b"a" * 256 + b"\0b", b"\0" + b"a" * 256])
def test_what_is_not_two_addresses_is_malformed(frame):
    with pytest.raises(Malformed):
        wire.ends(frame)


@pytest.mark.parametrize("address", ["", "a\0", "ä" * 128, "\ud800"])
def test_what_cannot_be_an_address_is_refused(address):
    with pytest.raises(LetterRefused):
        wire.check_address(address)


def test_an_address_may_fill_its_bytes():
    assert wire.check_address("x" * wire.ADDRESS_MAX) == b"x" * 255
