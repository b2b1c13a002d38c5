import json
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from partyctl.masking import MASK, is_secret_name, masked, masked_value

SECRET = "s3cr3tS3cr3tS3cr3t0"
LETTERS = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", min_size=24, max_size=60)
PIECES = [
    "token", "=", ": ", '"', "'", "\\", "://", "@", "/", "bearer ", "Authorization", "sk-", "api_key", "--", "key ",
    "\n", "***", "aB3" * 8, "eyJ", ".", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "A_KEY", "null",
    "digest ", "é", " ", "{", "}", ",", "&", "?", "run-0123456789abcdef",
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("key sk-1234567890abcdef!", "key sk-***!"),
        ("sk-ant-api03-abc_DEF-123", "sk-ant-***"),
        ("got sk-proj-aaaaBBBB1111 back", "got sk-proj-*** back"),
        ("Authorization: Bearer abc.def", "Authorization: ***"),
        ("authorization: Basic dXNlcjpwYXNz\nnext line", "authorization: ***\nnext line"),
        ('Authorization: Digest username="x", response="y"', "Authorization: ***"),
        ('{"Authorization": "Bearer xyz", "a": "b"}', '{"Authorization": "***", "a": "b"}'),
        ("curl -H 'Authorization: Bearer xyz' /x", "curl -H 'Authorization: ***' /x"),
        ('["Authorization", "Bearer xyz123"]', '["Authorization", "Bearer ***"]'),
        ("OPENAI_API_KEY=abc123 next", "OPENAI_API_KEY=*** next"),
        ("STRIPE_KEY=abc MYSQL_PWD=x PWD=/home/a", "STRIPE_KEY=*** MYSQL_PWD=*** PWD=/home/a"),
        ("x-api-key: abc", "x-api-key: ***"),
        ("password = 'a b c' more", "password = '***' more"),
        ('{"token": "abc\\"def", "n": 1}', '{"token": "***", "n": 1}'),
        ('{\\"token\\": \\"abc\\", \\"n\\": 1}', '{\\"token\\": \\"***\\", \\"n\\": 1}'),
        ("https://user:p@ss@host/x?token=abc&x=1", "https://***@host/x?token=***&x=1"),
        ("postgres://u:p@db:5432/x", "postgres://***@db:5432/x"),
        ("GET /x?key=abc&n=1", "GET /x?key=***&n=1"),
        ("run --api-key hunter2 --x", "run --api-key *** --x"),
        ("the secret is QUJDREVGR0hJSktMTU5PUFFSU1RVVg1==", "the secret is ***"),
        ("jwt eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSM", "jwt eyJ***"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----",
         "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----"),
        ("password: Bearer xyz123", "password: ***"),
        ("Basic dXNlcjpwYXNz", "Basic ***"),
        ("ghp_0123456789abcdef", "ghp_***"),
    ],
)  # fmt: skip
def test_a_secret_is_hidden_and_what_stands_around_it_is_not(text: str, shown: str) -> None:
    assert masked(text) == shown
    assert masked(text.encode()) == shown.encode()


@pytest.mark.parametrize(
    "text",
    [
        "run-0123456789abcdef ended",
        "the key run-0123456789abcdef of a session",
        "token turn-0123456789abcdef",
        "max_tokens=4096 input_tokens: 123 token_count=7",
        "sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "123e4567-e89b-12d3-a456-426614174000",
        "git@github.com:a/b and http://host:80/a@b",
        "basic validation of the basic password rules",
        "Missing Bearer token; basic authentication failed",
        "unexpected token: }",
        '"token": null, "secret": true',
        "a task-oriented risk-free mask",
        "the broker was killed by SIGKILL; starting it again",
        "",
    ],
)
def test_what_is_no_secret_is_left_alone(text: str) -> None:
    assert masked(text) == text


@example(value="A1" * 12, before="BASIC", after="")
@given(value=LETTERS, before=st.text(max_size=20), after=st.text(max_size=20))
@pytest.mark.parametrize(
    "name", ["api_key=", "ANTHROPIC_AUTH_TOKEN=", "password: ", "Authorization: Bearer ", "sk-ant-"]
)
def test_a_secret_is_found_in_any_surroundings(name: str, value: str, before: str, after: str) -> None:
    assert value not in masked(f"{before} {name}{value} {after}")


@given(
    st.text("0123456789abcdef", min_size=16, max_size=16), st.sampled_from(["run", "turn", "session", "conversation"])
)
def test_no_id_is_ever_hidden(digits: str, kind: str) -> None:
    text = f"the key {kind}-{digits}, token {kind}-{digits} and {kind}-{digits}"
    assert masked(text) == text


@given(st.lists(st.sampled_from(PIECES), max_size=24).map("".join))
@example("://a@b@c")
def test_masking_twice_changes_nothing(text: str) -> None:
    once = masked(text)
    assert masked(once) == once


@given(st.text())
def test_text_and_its_bytes_are_masked_alike(text: str) -> None:
    encoded = text.encode("utf-8", "surrogatepass")
    assert masked(encoded) == masked(text).encode("utf-8", "surrogatepass")


@given(st.binary())
def test_any_bytes_can_be_masked(data: bytes) -> None:
    assert isinstance(masked(data), bytes)


@pytest.mark.parametrize(
    "piece", [*PIECES, "a", "://a@", "token=", 'key="', "key aaaaaaaaaa", "--a-", "bearer a", "eyJaaaaaaaaa"]
)
def test_the_time_is_linear_in_the_length(piece: str) -> None:
    text = (piece * 300_000)[:300_000]
    begun = time.process_time()
    masked(text)
    # About 0.3 s; one pattern with a quadratic path takes minutes.
    assert time.process_time() - begun < 10


def test_values_are_masked_by_their_names_and_by_what_they_are() -> None:
    value = {
        "env": {"LANG": "C", "MY_API_KEY": SECRET, "EMPTY_TOKEN": ""},
        "args": ["--url", "http://a:b@c"],
        "token": [SECRET, 3],
        "n": 3,
    }
    shown = masked_value(value)
    assert SECRET not in json.dumps(shown)
    assert shown == {
        "env": {"LANG": "C", "MY_API_KEY": MASK, "EMPTY_TOKEN": ""},
        "args": ["--url", f"http://{MASK}@c"],
        "token": [MASK, 3],
        "n": 3,
    }
    assert value["token"] == [SECRET, 3]


@pytest.mark.parametrize(
    ("name", "secret"), [("API_KEY", 1), ("apiKey", 1), ("password", 1), ("max_tokens", 0), ("LANG", 0)]
)
def test_names_of_secrets(name: str, secret: int) -> None:
    assert is_secret_name(name) == bool(secret)
