import socket

import pytest

from partyctl_broker.endpoint import clear_stale, ipc_path, split_tcp, unlink_own
from partyctl_broker.errors import EndpointError


def bind(path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    return listener


def test_an_ipc_endpoint_names_its_path_and_tcp_has_none():
    assert ipc_path("ipc:///tmp/x") == "/tmp/x"
    assert ipc_path("tcp://127.0.0.1:1") is None


@pytest.mark.parametrize("endpoint", ["", "ipc://", "inproc://x", "/tmp/x", "http://x"])
def test_an_endpoint_of_another_kind_is_refused_with_what_to_write(endpoint):
    with pytest.raises(EndpointError, match="Use ipc://PATH"):
        ipc_path(endpoint)


def test_a_path_is_measured_in_bytes_against_the_kernels_limit():
    assert ipc_path("ipc://" + "x" * 107)
    with pytest.raises(EndpointError, match="108 bytes"):
        ipc_path("ipc://" + "ä" * 54)


def test_a_stale_socket_is_removed_and_a_missing_one_is_fine(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    bind("s").close()
    clear_stale("s")
    assert not (tmp_path / "s").exists()
    clear_stale("s")


def test_anything_else_than_a_socket_is_left_alone(tmp_path):
    path = tmp_path / "s"
    path.write_text("mine")
    with pytest.raises(EndpointError, match="something else"):
        clear_stale(str(path))
    assert path.read_text() == "mine"


def test_only_the_own_socket_is_removed_at_the_end(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "s"
    with bind("s"):
        inode = path.stat().st_ino
        unlink_own("s", inode + 1)
        assert path.exists()
        unlink_own("s", inode)
        assert not path.exists()
        unlink_own("s", inode)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("tcp://127.0.0.1:7333", ("127.0.0.1", 7333)),
        ("tcp://[::1]:*", ("::1", 0)),
        ("tcp://0.0.0.0:65535", ("0.0.0.0", 65_535)),
    ],
)
def test_a_url_to_listen_at_is_an_address_and_a_port(url, expected):
    assert split_tcp(url) == expected


@pytest.mark.parametrize("url", ["tcp://localhost:1", "tcp://*:1", "tcp://:1", "tcp://::1", "tcp://1"])
def test_a_name_is_not_looked_up(url):
    with pytest.raises(EndpointError, match="address in numbers"):
        split_tcp(url)


@pytest.mark.parametrize("port", ["", "x", "-1", "65536", "1.5"])
def test_what_is_no_port_is_refused(port):
    with pytest.raises(EndpointError, match="no port"):
        split_tcp(f"tcp://127.0.0.1:{port}")
