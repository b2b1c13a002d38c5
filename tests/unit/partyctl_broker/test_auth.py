import pytest

from partyctl_broker.auth import Principal, Roll, covers
from partyctl_broker.errors import Malformed


@pytest.mark.parametrize(
    ("pattern", "address", "covered"),
    [
        ("desk/anna", "desk/anna", True),
        ("desk/anna", "desk/anna/x", False),
        ("run/*", "run/1", True),
        ("run/*", "run/1/Writer", True),
        ("run/1/*", "run/1", False),
        ("run/1/*", "run/10/Writer", False),
        ("run/*", "run/", False),
        ("run/*", "running/1", False),
        ("*", "anything", False),
        ("/*", "anything", False),
        ("ru*", "run", False),
    ],
)
def test_a_pattern_covers_the_same_text_or_what_is_below_its_prefix(pattern, address, covered):
    assert covers(pattern, address) is covered


def test_a_principal_is_proven_by_its_secret_alone():
    principal = Principal("p", b"s" * 32, ())
    assert principal.is_proven_by(b"s" * 32)
    assert not principal.is_proven_by(b"s" * 31)
    assert not principal.is_proven_by(b"")


def test_a_principal_may_claim_what_any_of_its_rules_covers():
    principal = Principal("p", b"s" * 32, ("run/*", "desk/anna"))
    assert principal.may_claim("desk/anna")
    assert principal.may_claim("run/x")
    assert not principal.may_claim("node/1")
    assert not Principal("p", b"s" * 32, ()).may_claim("run/x")


def test_a_secret_is_never_shown():
    assert "sss" not in repr(Principal("p", b"s" * 32, ()))


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": 1},
        {"secret": b"short"},
        {"secret": "s" * 32},
        {"claims": "run/*"},
        {"claims": [1]},
        {"claims": None},
    ],
)
def test_a_message_of_another_form_is_no_principal(change):
    message = {"t": "principal", "name": "p", "secret": b"s" * 32, "claims": ["run/*"]}
    assert Principal.decode(message) == Principal("p", b"s" * 32, ("run/*",))
    with pytest.raises(Malformed):
        Principal.decode(message | change)


def test_a_key_is_one_principals():
    roll = Roll()
    roll.add(Principal("p", b"", (), b"k" * 32))
    roll.add(Principal("p", b"", ("run/*",), b"k" * 32))
    with pytest.raises(Malformed, match="p has it"):
        roll.add(Principal("q", b"", (), b"k" * 32))
    assert (roll.by_key(b"k" * 32), roll.get("q")) == ("p", None)
    roll.remove("p")
    roll.add(Principal("q", b"", (), b"k" * 32))
    assert roll.by_key(b"k" * 32) == "q"
