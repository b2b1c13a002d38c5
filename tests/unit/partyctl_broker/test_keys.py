import stat

import pytest
import zmq.utils.z85
from hypothesis import given
from hypothesis import strategies as st

from partyctl_broker.errors import KeyRefused, Malformed
from partyctl_broker.keys import KeyStore, KnownKey, decode_public, decode_z85, encode_z85, new_pair


@given(st.binary(max_size=40).filter(lambda data: len(data) % 4 == 0))
def test_z85_there_and_back(data):
    assert encode_z85(data).encode() == zmq.utils.z85.encode(data)
    assert decode_z85(encode_z85(data)) == data


@pytest.mark.parametrize("text", ["abcd", "ab'de", "#####", "ab\xe9de", "a b c"])
def test_what_is_no_z85_is_said_to_be_none(text):
    with pytest.raises(ValueError, match="it"):
        decode_z85(text)


@pytest.mark.parametrize("text", ["", "0" * 35, "0" * 45, "'" * 40, None, 7])
def test_what_is_no_public_key_is_refused(text):
    with pytest.raises(Malformed):
        decode_public(text, "name")


@pytest.fixture
def store(tmp_path):
    return KeyStore(tmp_path / "keys")


def test_a_pair_is_shown_once_and_only_its_public_half_is_kept(store, tmp_path):
    pair = store.add("laptop", ("desk/*",))
    assert zmq.curve_public(pair.secret.encode()).decode() == pair.public
    assert len(pair.secret_bytes) == 32
    assert pair.secret not in repr(pair)
    [path] = (tmp_path / "keys").iterdir()
    assert pair.secret not in path.read_text()
    assert store.known() == [KnownKey("laptop", pair.public, ("desk/*",))]


def test_a_key_that_the_peer_made_itself_is_taken_as_it_is(store):
    public = new_pair().public
    assert store.add("laptop", (), public).secret == ""
    assert store.known()[0].public == public
    with pytest.raises(KeyRefused, match="Z85"):
        store.add("other", (), "no key")


def test_files_are_their_owners_alone(store, tmp_path):
    store.add("laptop", ())
    store.broker()
    directory = tmp_path / "keys"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}


def test_a_name_has_one_key(store):
    first = store.add("laptop", ())
    with pytest.raises(KeyRefused, match="revoke laptop"):
        store.add("laptop", ())
    assert store.known()[0].public == first.public


def test_a_revoked_name_is_free_again(store):
    store.add("laptop", ())
    store.revoke("laptop")
    assert store.known() == []
    with pytest.raises(KeyRefused, match="no key"):
        store.revoke("laptop")
    store.add("laptop", ())


@pytest.mark.parametrize("name", ["", "a/b", "../x", ".x", "a b", "x" * 65, "\xe9", "a\n"])
def test_a_name_that_is_no_file_name_is_refused(store, name):
    with pytest.raises(KeyRefused, match="name"):
        store.add(name, ())


def test_the_brokers_own_pair_stays_the_same(store):
    pair = store.broker()
    assert store.broker() == pair
    assert store.known() == []


@pytest.mark.parametrize("content", ["", "x\ny\n", "{}", '{"name": 1, "public": "x", "claims": []}'])
def test_a_damaged_file_is_named(store, tmp_path, content):
    directory = tmp_path / "keys"
    directory.mkdir()
    (directory / "laptop.key").write_text(content)
    (directory / "broker.secret").write_text(content)
    with pytest.raises(KeyRefused, match=r"laptop\.key"):
        store.known()
    with pytest.raises(KeyRefused, match=r"broker\.secret"):
        store.broker()


def test_a_key_has_one_name(store):
    public = new_pair().public
    store.add("laptop", (), public)
    with pytest.raises(KeyRefused, match=r"laptop has it(.|\n)*partyctl key revoke laptop"):
        store.add("desktop", (), public)


@pytest.mark.parametrize("name", ["laptop.key", "broker.secret"])
def test_a_file_that_is_no_text_is_named(store, tmp_path, name):
    store.broker()
    (tmp_path / "keys" / name).write_bytes(b"\xff\xfe")
    with pytest.raises(KeyRefused, match=rf"{name}(.|\n)*UTF-8"):
        store.broker() if name == "broker.secret" else store.known()


def test_what_the_system_refuses_is_said_of_the_file(tmp_path):
    (tmp_path / "keys").write_text("in the way")
    store = KeyStore(tmp_path / "keys")
    for attempt in (lambda: store.add("laptop", ()), store.broker, lambda: store.revoke("laptop")):
        with pytest.raises(KeyRefused, match="keys") as caught:
            attempt()
        assert caught.value.fix
    (tmp_path / "keys").unlink()
    (tmp_path / "keys" / "laptop.key").mkdir(parents=True)
    with pytest.raises(KeyRefused, match=r"laptop\.key"):
        store.known()
