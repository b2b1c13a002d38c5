import contextlib

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partyctl_broker.control import CLAIMS_MAX, Bye, Gone, Hello, Nack, Refusal, Welcome
from partyctl_broker.errors import Malformed

addresses = st.text("abcäß/", min_size=1, max_size=20)
claims = st.lists(addresses, max_size=5).map(tuple)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)

MESSAGES = [
    Hello("p", b"s" * 32, b"i" * 16, ("run/a",)),
    Welcome(("run/a",), {"run/b": Refusal("taken", "a living peer has it")}, 2**63),
    Nack("run/b", "unknown", "nobody has it", 8),
    Gone("run/b", "it was closed", (3, 5)),
    Bye(("run/a",), "why"),
]


@given(texts, st.binary(max_size=40), st.binary(min_size=1, max_size=64), claims)
def test_a_hello_comes_back_whole(principal, secret, incarnation, claims):
    hello = Hello(principal, secret, incarnation, claims)
    assert Hello.decode(hello.encode()) == hello


@given(claims, st.dictionaries(addresses, st.builds(Refusal, texts, texts), max_size=4))
def test_a_welcome_comes_back_whole(claimed, refused):
    assert Welcome.decode(Welcome(claimed, refused).encode()) == Welcome(claimed, refused)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
class TestEveryMessage:
    def test_comes_back_whole(self, message):
        assert type(message).decode(message.encode()) == message

    def test_ignores_keys_it_does_not_know(self, message):
        content = msgpack.unpackb(message.encode()) | {"later": [1]}
        assert type(message).decode(msgpack.packb(content)) == message

    def test_is_malformed_without_any_one_of_its_keys_but_the_version(self, message):
        content = msgpack.unpackb(message.encode())
        for key in content:
            if key == "version" and not isinstance(message, Hello):
                continue
            with pytest.raises(Malformed):
                type(message).decode(msgpack.packb({k: v for k, v in content.items() if k != key}))

    @pytest.mark.parametrize("wrong", [None, 1.5, [[]], {"a": 1}, [b"\xff"], [-1]])
    def test_is_malformed_with_a_value_of_another_type(self, message, wrong):
        for key in msgpack.unpackb(message.encode()):
            if key == "refused" or (key == "version" and not isinstance(message, Hello)):
                continue
            with pytest.raises(Malformed):
                type(message).decode(msgpack.packb(msgpack.unpackb(message.encode()) | {key: wrong}))

    def test_any_other_bytes_are_malformed(self, message):
        for payload in [b"", b"\xc1", msgpack.packb([1]), message.encode()[:-1], message.encode() + b"x"]:
            with pytest.raises(Malformed):
                type(message).decode(payload)


@given(st.binary(max_size=60), st.sampled_from([Hello, Welcome, Nack, Gone, Bye]))
def test_no_bytes_raise_anything_else(payload, kind):
    with contextlib.suppress(Malformed):
        kind.decode(payload)


def test_a_hello_claims_a_bounded_number_of_real_addresses():
    for claims in [("x",) * (CLAIMS_MAX + 1), ("",), ("a\0b",), ("x" * 256,)]:
        with pytest.raises(Malformed):
            Hello.decode(Hello("p", b"s", b"i", claims).encode())


def test_a_secret_is_never_shown():
    assert "sss" not in repr(Hello("p", b"s" * 32, b"i" * 16))
