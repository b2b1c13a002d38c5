"""Who gets through the handshake, by the frames of the question."""

import pytest

from partyctl_broker.auth import Principal, Roll
from partyctl_broker.zap import DOMAIN, LATER, REFUSED, Verdict, judge, reply

SECRET = b"s" * 32
KEY = b"k" * 32


@pytest.fixture
def roll():
    roll = Roll()
    roll.add(Principal("local", SECRET, ("run/*",)))
    roll.add(Principal("far", b"", ("run/*",), KEY))
    return roll


def question(mechanism, *credentials):
    return [b"1.0", b"7", DOMAIN, b"localhost", b"", mechanism, *credentials]


def plain(name=b"local", secret=SECRET):
    return question(b"PLAIN", name, secret.hex().encode())


def test_a_principal_with_its_secret_is_let_in_by_name(roll):
    assert judge(plain(), roll, crowded=False) == Verdict(200, "", "local")


def test_a_principal_with_its_key_is_let_in_by_name(roll):
    assert judge(question(b"CURVE", KEY), roll, crowded=False) == Verdict(200, "", "far")


@pytest.mark.parametrize(
    "request_frames",
    [
        plain(secret=b"x" * 32),
        plain(secret=b""),
        plain(name=b"nobody"),
        plain(name=b"\xff"),
        plain(name=b"far", secret=b""),
        plain(name=b"far", secret=KEY),
        question(b"PLAIN", b"local", SECRET),
        question(b"PLAIN", b"local"),
        question(b"CURVE", SECRET),
        question(b"CURVE"),
        question(b"NULL"),
        question(b"GSSAPI", b"local"),
        [b"2.0", *plain()[1:]],
        plain()[:5],
        [],
    ],
)
def test_nobody_else_is(roll, request_frames):
    verdict = judge(request_frames, roll, crowded=False)
    assert (verdict.status, verdict.principal) == (REFUSED, "")
    assert reply(request_frames, verdict)[2] == b"400"


def test_a_crowded_broker_says_so_to_those_it_knows_alone(roll):
    assert judge(plain(), roll, crowded=True) == Verdict(LATER, "descriptors")
    assert judge(plain(name=b"nobody"), roll, crowded=True).status == REFUSED


def test_who_was_shown_out_is_not_let_in_and_the_others_are(roll):
    assert judge(plain(), roll, crowded=False, banned={"local"}) == Verdict(LATER, "shown out")
    assert judge(question(b"CURVE", KEY), roll, crowded=False, banned={"local"}).status == 200


def test_an_answer_repeats_the_number_of_its_question(roll):
    assert reply(plain(), judge(plain(), roll, crowded=False)) == [b"1.0", b"7", b"200", b"", b"local", b""]


def test_a_revoked_key_and_a_replaced_secret_are_good_no_more(roll):
    roll.remove("far")
    roll.remove("nobody")
    roll.add(Principal("local", b"t" * 32, ()))
    assert judge(question(b"CURVE", KEY), roll, crowded=False).status == REFUSED
    assert judge(plain(), roll, crowded=False).status == REFUSED
    assert judge(plain(secret=b"t" * 32), roll, crowded=False).status == 200
