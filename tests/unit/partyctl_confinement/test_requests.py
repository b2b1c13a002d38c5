import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partyctl_confinement import messages, requests
from partyctl_confinement.requests import Attach, BadRequest, Expect, Kill, Leave, ListWorkers, NewClient, Spawn, Stop

SPAWN = {"t": "spawn", "id": "w", "name": "Writer", "main": "a.b:c", "labels": {"role": "Writer", "empty": ""}}


def _client(message: object) -> Spawn | Attach | Expect | Kill | Leave | BadRequest:
    return requests.parse_client(msgpack.packb(message))


def test_requests_of_a_client() -> None:
    assert _client(SPAWN) == Spawn("w", "Writer", "a.b:c", {"role": "Writer", "empty": ""})
    assert _client({**SPAWN, "epoch": 3}) == Spawn("w", "Writer", "a.b:c", {"role": "Writer", "empty": ""}, epoch=3)
    assert _client({"t": "kill", "id": "w"}) == Kill("w")
    assert _client({"t": "attach", "id": "a", "session": "s", "epoch": 2}) == Attach("a", "s", 2)
    assert _client({"t": "expect", "label": "run", "text": "r"}) == Expect("run", "r")
    assert _client({"t": "expect", "label": 5}) == Expect("", "")
    assert _client({"t": "leave"}) == Leave()


@pytest.mark.parametrize("change", [{"session": ""}, {"session": 5}, {"epoch": -1}, {"epoch": True}, {"epoch": "2"}])
def test_what_is_no_request_to_attach(change: dict[str, object]) -> None:
    refused = _client({"t": "attach", "id": "a", "session": "s", "epoch": 2, **change})
    assert isinstance(refused, BadRequest)
    assert (refused.id, refused.request) == ("a", "attach")
    assert next(iter(change)) in refused.why


def test_labels_may_be_left_out() -> None:
    assert _client({key: SPAWN[key] for key in ("t", "id", "name", "main")}) == Spawn("w", "Writer", "a.b:c", {})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"id": 5}, "id"),
        ({"epoch": -1}, "epoch"),
        ({"id": "x" * 129}, "id"),
        ({"id": "a\nb"}, "id"),
        ({"name": None}, "name"),
        ({"name": ""}, "name"),
        ({"main": "a.b"}, "module:function"),
        ({"main": "a b:c"}, "module:function"),
        ({"main": "a:b.c"}, "module:function"),
        ({"main": "a:b\n"}, "module:function"),
        ({"main": ".a:b"}, "module:function"),
        ({"labels": None}, "labels"),
        ({"labels": {"a": 1}}, "labels"),
        ({"labels": {b"a": "x"}}, "labels"),
        ({"labels": {"a": "x" * 257}}, "labels"),
        ({"labels": {str(n): "" for n in range(33)}}, "labels"),
    ],
)
def test_a_request_out_of_form_is_refused_and_says_why(change, why) -> None:
    bad = _client({**SPAWN, **change})
    assert isinstance(bad, BadRequest)
    assert why in bad.why
    assert bad.request == "spawn"


def test_a_refusal_names_the_worker_if_the_request_did() -> None:
    bad = _client({**SPAWN, "main": "nonsense"})
    assert isinstance(bad, BadRequest)
    assert msgpack.unpackb(messages.refused(bad)) == {"t": "refused", "id": "w", "request": "spawn", "why": bad.why}


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_are_an_error(data) -> None:
    requests.parse_client(data)
    requests.parse_host(data)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from([*SPAWN]), inner),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from([*SPAWN, "mode", "argv", "limits"]), VALUES), st.sampled_from(["spawn", "kill"]))
def test_no_map_is_an_error_and_what_passes_is_in_form(message, kind) -> None:
    request = _client({**message, "t": kind})
    if isinstance(request, Spawn):
        assert 0 < len(request.id) <= requests.ID_MAX
        assert all(isinstance(text, str) for pair in request.labels.items() for text in pair)


def test_requests_of_the_host() -> None:
    assert requests.parse_host(msgpack.packb({"t": "client", "name": "node/1"})) == NewClient("node/1")
    assert requests.parse_host(msgpack.packb({"t": "workers"})) == ListWorkers()
    assert requests.parse_host(msgpack.packb({"t": "stop"})) == Stop()
    assert isinstance(requests.parse_host(msgpack.packb({"t": "spawn"})), BadRequest)


EXEC = {**SPAWN, "main": "", "mode": "exec", "argv": ["/bin/true", "it's"]}


def test_a_request_may_ask_for_a_fresh_program_and_limits() -> None:
    fresh = _client({**SPAWN, "mode": "exec", "limits": {"nofile": 64}})
    assert isinstance(fresh, Spawn)
    assert (fresh.main, fresh.mode, fresh.argv, fresh.limits) == ("a.b:c", "exec", (), {"nofile": 64})
    program = _client(EXEC)
    assert isinstance(program, Spawn)
    assert program.argv == ("/bin/true", "it's")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"mode": "clone"}, "mode"),
        ({"mode": ["exec"]}, "mode"),
        ({"mode": "fork"}, "mode exec"),
        ({"main": "a:b"}, "without a main"),
        ({"argv": []}, "module:function"),
        ({"argv": "/bin/true"}, "argv"),
        ({"argv": ["true"]}, "absolute"),
        ({"argv": ["/bin/true", 5]}, "argv"),
        ({"argv": ["/bin/true", "a\0b"]}, "argv"),
        ({"argv": ["/bin/true"] * 257}, "256"),
        ({"limits": ["core"]}, "limits"),
        ({"limits": {b"core": 5}}, "limits"),
        ({"limits": {"nofiles": 5}}, "'nofiles'; nofile is the nearest"),
        ({"limits": {"cpu_seconds": 0}}, "cpu_seconds"),
        ({"limits": {"cpu_seconds": 1.5}}, "cpu_seconds"),
        ({"limits": {"core": True}}, "core"),
        ({"limits": {"core": 2**63}}, "core"),
    ],
)
def test_a_program_or_a_limit_out_of_form_is_refused_and_named(change, why) -> None:
    bad = _client({**EXEC, **change})
    assert isinstance(bad, BadRequest)
    assert why in bad.why
