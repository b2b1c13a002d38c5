from __future__ import annotations

import pytest

import partyctl as ap
from partyctl.serving import Access, waiting_place
from partyctl_broker.endpoint import Target
from partyctl_broker.errors import EndpointError, KeyRefused
from partyctl_broker.keys import encode_z85

SECRET = bytes(range(32))
TCP = Target.write("tcp://127.0.0.1:7333", b"b" * 32)


@pytest.mark.parametrize("secret", [SECRET.hex(), encode_z85(SECRET)])
def test_a_key_is_a_name_and_a_secret(secret: str) -> None:
    access = Access.parse(TCP, f"laptop:{secret}")
    assert (access.url, access.name, access.secret) == (TCP, "laptop", SECRET)
    assert secret not in repr(access)


def test_a_secret_may_hold_what_divides_it_from_the_name() -> None:
    secret = bytes([0x31, 0x12, 0x47, 0xB5]) * 8
    text = next(text for n in range(256) if ":" in (text := encode_z85(bytes([n, *secret[1:]]))))
    assert encode_z85(Access.parse(TCP, f"laptop:{text}").secret) == text


@pytest.mark.parametrize("key", ["", "laptop", "laptop:", f":{SECRET.hex()}", "laptop:abc", "laptop:" + "\x00" * 40])
def test_what_is_no_key_is_refused_without_telling_it(key: str) -> None:
    with pytest.raises(KeyRefused, match="NAME:SECRET") as caught:
        Access.parse(TCP, key)
    secret = key.partition(":")[2]
    assert not secret or secret not in str(caught.value)


def test_an_endpoint_is_looked_at_before_anything_is_connected() -> None:
    with pytest.raises(EndpointError):
        ap.Remote("writer", url="http://127.0.0.1", key=f"laptop:{SECRET.hex()}")


def test_a_peer_is_the_name_of_a_key_or_an_address() -> None:
    key = f"laptop:{SECRET.hex()}"
    assert ap.Remote("writer", url=TCP, key=key).peer == waiting_place("writer") == "session/writer"
    assert ap.Remote("desk/anna", url=TCP, key=key).peer == "desk/anna"
    assert SECRET.hex() not in repr(ap.Remote("writer", url=TCP, key=key))


@pytest.mark.parametrize(("peer", "patience", "error"), [("", 1.0, TypeError), ("w", 0.0, ValueError)])
def test_a_peer_without_a_name_and_no_patience_are_refused(peer: str, patience: float, error: type[Exception]) -> None:
    with pytest.raises(error):
        ap.Remote(peer, url=TCP, key=f"laptop:{SECRET.hex()}", patience=patience)


class Hello(ap.Message):
    """A greeting."""


class Bye(ap.Message):
    """A farewell."""


@pytest.mark.parametrize(
    ("role", "line", "error", "text"),
    [
        ("Asker", Bye(), ap.ConformanceError, "never on offer"),
        ("Nobody", Hello(), ap.ProjectionError, "no role Nobody"),
    ],
)
def test_who_serves_is_checked_against_the_protocol_before_anything_is_connected(
    role: str, line: ap.Message, error: type[Exception], text: str
) -> None:
    asker, answerer = ap.roles("Asker", "Answerer")
    protocol = ap.Protocol(ap.send(asker, answerer, Hello), ap.send(answerer, asker, Bye))
    with pytest.raises(error, match=text):
        ap.serve(
            ap.Role(role), ap.Script([line]), url="ipc:///nowhere", key=f"laptop:{SECRET.hex()}", protocol=protocol
        )
