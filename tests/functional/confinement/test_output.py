"""What workers print, on its way to the host."""

import asyncio
import contextlib
import os
import signal
import time

import msgpack
import pytest


@pytest.fixture
def forwarding(start_launcher):
    return start_launcher(forward_output=True)


class Listener:
    """The host's end, reading what is forwarded."""

    def __init__(self, launcher) -> None:
        self._control = launcher.control
        self.heard = []

    def listen(self, enough) -> None:
        stop_at = time.monotonic() + 30
        while not enough(self.heard):
            assert time.monotonic() < stop_at, f"not enough: {self.heard[-3:]}"
            with contextlib.suppress(TimeoutError):
                self.heard.append(msgpack.unpackb(self._control.receive(timeout=0.5).data))


def _printed(heard, worker_id):
    return b"".join(each["data"] for each in heard if each["t"] == "output" and each["id"] == worker_id)


def _accounted(heard, worker_id):
    lost = sum(each["bytes"] for each in heard if each["t"] == "dropped" and each["id"] == worker_id)
    return len(_printed(heard, worker_id)) + lost


def _play(scenario):
    return asyncio.run(asyncio.wait_for(scenario, 60))


def test_the_host_hears_what_a_worker_prints_and_who_it_is(forwarding, connect) -> None:
    async def play():
        listener = Listener(forwarding)
        async with connect(forwarding) as client:
            hired = await client.spawn(name="Writer", main="worker_mains:talks", labels={"role": "Writer"})
            await hired.channel.send(b"a line\n")
            await asyncio.to_thread(listener.listen, lambda heard: _printed(heard, hired.id) == b"a line\n")
            await hired.channel.send(b"its last words")
            hired.channel.close()
            notice = await hired.exited()
            await asyncio.to_thread(listener.listen, lambda heard: _printed(heard, hired.id).endswith(b"last words"))
            assert notice.stderr == b"a line\nits last words"
            first = listener.heard[0]
            assert (first["name"], first["labels"]) == ("Writer", {"role": "Writer"})

    _play(play())


def test_the_host_hears_behind_its_output_how_a_worker_died_that_nobody_wanted_to_end(forwarding, connect) -> None:
    async def play():
        listener = Listener(forwarding)
        async with connect(forwarding) as client:
            for name, main in (
                ("Killed", "talks"),
                ("Wanted", "talks"),
                ("Left", "talks"),
                ("Bad", "leaves_by_system_exit"),
            ):
                hired = await client.spawn(name=name, main=f"worker_mains:{main}", labels={"run": "run-1"})
                if name == "Killed":
                    os.kill(hired.pid, signal.SIGKILL)
                elif name == "Wanted":
                    await hired.kill()
                hired.channel.close()
                await hired.exited()
            await asyncio.to_thread(listener.listen, lambda heard: heard[-1:] and heard[-1].get("name") == "Bad")
            await asyncio.to_thread(listener.listen, lambda heard: heard[-1]["t"] == "died")
            return listener.heard

    heard = _play(play())
    deaths = [each for each in heard if each["t"] == "died"]
    assert [(each["name"], each["status"], each["signal"]) for each in deaths] == [
        ("Killed", None, 9),
        ("Bad", 5, None),
    ]
    assert deaths[0]["labels"] == {"run": "run-1"}
    assert [each["t"] for each in heard if each["id"] == deaths[1]["id"]] == ["output", "died"]


def test_a_launcher_that_was_not_asked_to_forwards_nothing(launcher, connect) -> None:
    async def play():
        async with connect(launcher) as client:
            hired = await client.spawn(name="Writer", main="worker_mains:leaves_by_system_exit")
            assert (await hired.exited()).stderr == b"last words\n"
            hired.channel.close()

    _play(play())
    with pytest.raises(TimeoutError):
        launcher.control.receive(timeout=0.1)


def test_a_host_that_does_not_read_blocks_nobody_and_hears_later_how_much_it_missed(forwarding, connect, hire) -> None:
    """A worker prints 50 MB while nobody listens."""

    async def play():
        before = _resident(forwarding.pid)
        async with connect(forwarding) as client, hire(client, "floods") as flooding:
            async with hire(client, "echo") as neighbour:
                await neighbour.channel.send(b"hello")
                assert (await neighbour.channel.receive()).data == b"hello"
            assert (await flooding.exited()).status == 4
            assert _resident(forwarding.pid) - before < 6 * 1024
            listener = Listener(forwarding)
            printed = 50_000_000 // 65536 * 65536 + len(b"the last line\n")
            await asyncio.to_thread(listener.listen, lambda heard: _accounted(heard, flooding.id) == printed)
            assert len(_printed(listener.heard, flooding.id)) < 4 * 1024 * 1024
            assert max(len(each.get("data", b"")) for each in listener.heard) <= 16 * 1024

    _play(play())


def test_an_answer_to_the_host_comes_though_a_flood_is_on_its_way(forwarding, connect, hire) -> None:
    async def play():
        async with connect(forwarding) as client, hire(client, "floods"), hire(client, "echo") as neighbour:
            rows = await asyncio.to_thread(forwarding.workers)
            assert neighbour.id in {row.id for row in rows}

    _play(play())


def _resident(pid: int) -> int:
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return int(next(line for line in status if line.startswith("VmRSS")).split()[1])
