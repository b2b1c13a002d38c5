"""Which claims a key may have, and what becomes of damaged, copied and unreadable files."""

import shutil
import stat
from pathlib import Path

import pytest

from partyctl.keys import PLACES, Keys, check_claim, default_claims, principal
from partyctl_broker.errors import KeyRefused
from partyctl_broker.keys import new_pair


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keys:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return Keys("p")


@pytest.mark.parametrize("pattern", ["desk/anna", "desk/*", "run/*", "run/1/Writer", "session/a/*", "desk/\xe4"])
def test_addresses_and_prefixes_below_the_open_places_can_be_claimed(pattern: str) -> None:
    check_claim(pattern)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("", "neither"),
        ("*", "neither"),
        ("/*", "neither"),
        ("desk", "no address"),
        ("desk/", "neither"),
        ("desk//x", "neither"),
        ("desk/*/x", "neither"),
        ("desk/x*", "neither"),
        ("desk/a\nb", "neither"),
        ("desk/" + "x" * 251, "1 to 255 bytes"),
        ("node/0", "none of"),
        ("node/*", "none of"),
        ("client/*", "none of"),
        ("dsek/anna", "did you mean desk/"),
    ],
)
def test_anything_else_cannot(pattern: str, why: str) -> None:
    with pytest.raises(KeyRefused, match=why):
        check_claim(pattern)


def test_without_more_a_key_may_claim_a_desk_and_a_session_of_its_own_name() -> None:
    assert default_claims("laptop") == ("desk/laptop", "session/laptop")
    for claim in default_claims("laptop"):
        check_claim(claim)
    assert {claim.partition("/")[0] for claim in default_claims("x")} <= set(PLACES)


def test_no_process_of_the_party_is_called_like_a_key() -> None:
    assert principal("code-1") not in ("code-1", "node/0", "client/1")


def test_a_claim_that_is_refused_adds_nothing(keys: Keys) -> None:
    with pytest.raises(KeyRefused):
        keys.add("laptop", ("desk/a", "node/0"))
    assert keys.known() == {}


def test_one_public_key_has_one_name(keys: Keys) -> None:
    public = new_pair().public
    keys.add("laptop", ("desk/a",), public)
    with pytest.raises(KeyRefused, match="laptop has it"):
        keys.add("other", ("desk/b",), public)
    assert list(keys.known()) == ["laptop"]


def test_a_copied_file_does_not_outlive_the_revocation_of_its_key(keys: Keys) -> None:
    keys.add("laptop", ("desk/a",))
    shutil.copy(keys.directory / "laptop.key", keys.directory / "other.key")
    keys.revoke("laptop")
    assert keys.known() == {}


def test_looking_at_the_keys_of_a_party_makes_none(keys: Keys) -> None:
    assert keys.known() == {}
    assert not keys.directory.exists()


def test_everything_is_the_owners_alone(keys: Keys) -> None:
    keys.add("laptop", ("desk/a",))
    keys.broker()
    assert stat.S_IMODE(keys.directory.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in keys.directory.iterdir()] == [0o600] * 2


def test_a_damaged_file_is_named_and_can_be_revoked(keys: Keys) -> None:
    keys.add("laptop", ("desk/a",))
    (keys.directory / "laptop.key").write_text("{")
    with pytest.raises(KeyRefused, match=r"laptop\.key"):
        keys.known()
    keys.revoke("laptop")
    assert keys.known() == {}


@pytest.mark.parametrize("content", [b"\xff\xfe", None])
def test_what_cannot_be_read_at_all_is_said_with_its_directory(keys: Keys, content: bytes | None) -> None:
    keys.add("laptop", ("desk/a",))
    path = keys.directory / "laptop.key"
    path.unlink()
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    with pytest.raises(KeyRefused, match=str(keys.directory)):
        keys.known()


def test_a_place_that_cannot_be_written_is_said(keys: Keys) -> None:
    keys.directory.write_text("in the way")
    with pytest.raises(KeyRefused, match="keys"):
        keys.add("laptop", ("desk/a",))
    with pytest.raises(KeyRefused, match="keys"):
        keys.broker()
