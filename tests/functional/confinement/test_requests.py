"""What clients and the host may ask for, and what becomes of nonsense and of those who do not listen."""

import os
import signal
import socket
import time

import msgpack
import pytest

from partyctl_base.channel import Channel, ChannelClosed

SPAWN = {"t": "spawn", "id": "w-1", "name": "one", "main": "worker_mains:echo", "labels": {}}


class RawClient:
    """A client that says what it likes."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.ends: list[int] = []

    def close(self) -> None:
        self.channel.close()
        for fd in self.ends:
            os.close(fd)

    def tell(self, message: object) -> None:
        self.channel.send(msgpack.packb(message), timeout=5)

    def hear(self) -> dict[str, object] | None:
        received = self.channel.receive(timeout=5)
        if received is None:
            return None
        self.ends += received.fds
        return msgpack.unpackb(received.data)

    def ask(self, message: object) -> dict[str, object] | None:
        self.tell(message)
        return self.hear()

    def hung_up(self, within: float = 3.0) -> bool:
        stop_at = time.monotonic() + within
        while time.monotonic() < stop_at:
            if self.channel.receive(timeout=within) is None:
                return True
        return False


@pytest.fixture
def client(launcher):
    raw = RawClient(launcher.add_client("raw"))
    yield raw
    raw.close()


@pytest.fixture
def other(launcher):
    raw = RawClient(launcher.add_client("other"))
    yield raw
    raw.close()


def _works(client: RawClient) -> bool:
    answer = client.ask({**SPAWN, "id": f"w-{time.monotonic_ns()}"})
    return answer is not None and answer["t"] == "spawned"


def test_a_second_worker_of_the_same_id_is_refused(client, other) -> None:
    assert client.ask(SPAWN)["t"] == "spawned"
    for asking in (client, other):
        answer = asking.ask(SPAWN)
        assert (answer["t"], answer["id"], answer["request"]) == ("refused", "w-1", "spawn")
        assert "alive" in answer["why"]


def test_an_id_is_free_again_after_the_exit_notice(client) -> None:
    client.ask(SPAWN)
    assert client.ask({"t": "kill", "id": "w-1"})["t"] == "exited"
    assert client.ask(SPAWN)["t"] == "spawned"


def test_a_worker_can_be_killed_by_its_own_client_only(client, other) -> None:
    client.ask(SPAWN)
    answer = other.ask({"t": "kill", "id": "w-1"})
    assert (answer["t"], answer["request"]) == ("refused", "kill")
    assert client.ask(SPAWN)["t"] == "refused"  # it is still alive


def test_the_answer_says_how_the_worker_is_confined(client) -> None:
    assert client.ask(SPAWN)["confinement"] == "unconfined"


NONSENSE = [
    b"",
    b"\xc1",
    b"\xff" * 1000,
    b"\x91" * 10_000,
    msgpack.packb([1, 2]),
    msgpack.packb({}),
    msgpack.packb({"t": "stop"}),
    msgpack.packb({"t": ["spawn"]}),
    msgpack.packb({"t": "spawn"}),
    msgpack.packb({"t": "kill", "id": {"a": 1}}),
    msgpack.packb({**SPAWN, "id": ""}),
    msgpack.packb({**SPAWN, "id": "x" * 1000}),
    msgpack.packb({**SPAWN, "name": "line\nbreak"}),
    msgpack.packb({**SPAWN, "main": "os:system -rf"}),
    msgpack.packb({**SPAWN, "main": "no colon"}),
    msgpack.packb({**SPAWN, "labels": {"a": 1}}),
    msgpack.packb({**SPAWN, "labels": [1]}),
    msgpack.packb({**SPAWN, "labels": {str(n): "x" for n in range(100)}}),
    msgpack.packb({**SPAWN, "name": msgpack.ExtType(5, b"x")}),
]


@pytest.mark.parametrize("data", NONSENSE, ids=range(len(NONSENSE)))
def test_nonsense_is_refused_and_the_client_goes_on(client, data) -> None:
    client.channel.send(data)
    assert client.hear()["t"] == "refused"
    assert _works(client)


@pytest.mark.parametrize(
    "record", [b"", b"\x07flag", b"\x01", b"\x01" + b"x" * 65535, b"\x00" + b"x" * 65535], ids=range(5)
)
def test_a_broken_channel_costs_its_client_its_workers_and_nobody_else_anything(
    launcher, client, other, record
) -> None:
    assert client.ask(SPAWN)["t"] == "spawned"
    client.channel.socket.setblocking(True)
    client.channel.socket.send(record)
    assert client.hung_up()
    assert _works(other)
    assert _eventually(lambda: [row.client for row in launcher.workers()] == ["other"])


def test_descriptors_that_no_request_asked_for_are_closed(launcher, client) -> None:
    reading, writing = os.pipe()
    client.channel.send(msgpack.packb({"t": "kill", "id": "none"}), [writing])
    os.close(writing)
    assert client.hear()["t"] == "refused"
    os.set_blocking(reading, True)
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_a_client_that_never_reads_is_dropped_with_its_workers_and_blocks_nobody(launcher, client, other) -> None:
    client.channel.send(msgpack.packb(SPAWN))
    assert _eventually(lambda: [row.id for row in launcher.workers()] == ["w-1"])
    pid = launcher.workers()[0].pid
    told = 0
    while _still_heard(client, {"t": "no such request"}):
        told += 1
        assert told < 20_000
        if told % 100 == 0:
            start = time.monotonic()
            assert _works(other)
            assert time.monotonic() - start < 1.0
    assert _eventually(lambda: not os.path.exists(f"/proc/{pid}"))


def test_a_client_whose_notices_pile_up_is_dropped_with_the_rest_of_its_workers(launcher, client, other) -> None:
    """It asks for workers that end at once, and reads none of the notices."""
    client.channel.send(msgpack.packb({**SPAWN, "id": "sleeper"}))
    number = 0
    while _still_heard(client, {**SPAWN, "id": f"e-{number}", "main": "worker_mains:leaves_at_once"}):
        number += 1
        assert number < 2000
        if number % 50 == 0:
            assert _works(other)
    assert _eventually(lambda: {row.client for row in launcher.workers()} == {"other"})
    assert _works(other)


def test_the_host_sees_who_is_alive(launcher, client) -> None:
    before = time.time()
    answer = client.ask({**SPAWN, "labels": {"run": "r-1", "role": "Writer"}})
    (row,) = launcher.workers()
    assert (row.id, row.name, row.client, row.pid) == ("w-1", "one", "raw", answer["pid"])
    assert row.labels == {"run": "r-1", "role": "Writer"}
    assert before - 1 <= row.started <= time.time() + 1


def test_the_hosts_own_nonsense_is_refused(launcher) -> None:
    reading, writing = os.pipe()
    plain, _peer = socket.socketpair()
    for message, fds in (
        ({"t": "client", "name": "x"}, ()),
        ({"t": "client", "name": "x"}, (reading,)),
        ({"t": "client", "name": "x"}, (plain.fileno(),)),
        ({"t": "client", "name": ""}, (reading,)),
        ({"t": "client", "name": "x"}, (reading, writing)),
        ({"t": "what"}, ()),
    ):
        launcher.control.send(msgpack.packb(message), fds)
        assert msgpack.unpackb(launcher.control.receive(timeout=5).data)["t"] == "refused"
    assert launcher.workers() == []
    for end in (plain, _peer):
        end.close()
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_from_a_terminal_does_not_reach_the_launcher(launcher, client, number) -> None:
    assert os.getsid(launcher.pid) == launcher.pid
    os.kill(launcher.pid, number)
    assert _works(client)


def test_a_launcher_whose_host_closes_the_channel_ends(launcher, client) -> None:
    assert _works(client)
    launcher.control.close()
    assert _eventually(lambda: launcher.poll() == 0)


def _still_heard(client: RawClient, message: object) -> bool:
    try:
        client.tell(message)
    except ChannelClosed:
        return False
    return True


def _eventually(condition, within: float = 5.0) -> bool:
    stop_at = time.monotonic() + within
    while not condition():
        if time.monotonic() > stop_at:
            return False
        time.sleep(0.02)
    return True
