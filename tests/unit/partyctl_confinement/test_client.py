import asyncio
import os

import msgpack
import pytest

from partyctl_base.aio import AsyncChannel
from partyctl_base.channel import Channel
from partyctl_confinement.client import ExitNotice, LauncherClient
from partyctl_confinement.errors import AttachRefused, LauncherLost, SpawnRefused


class FakeLauncher:
    """The launcher's end of a client's channel, in the test's hands."""

    def __init__(self) -> None:
        near, far = Channel.pair()
        self.channel = AsyncChannel(near)
        self.client = LauncherClient(AsyncChannel(far))

    async def request(self) -> dict[str, object]:
        return msgpack.unpackb((await self.channel.receive()).data)

    async def answer(self, message: dict[str, object], fds: tuple[int, ...] = ()) -> None:
        await self.channel.send(msgpack.packb(message), fds)

    async def spawned(self, worker_id: object) -> Channel:
        near, far = Channel.pair()
        await self.answer({"t": "spawned", "id": worker_id, "pid": 7, "confinement": "unconfined"}, (far.fileno(),))
        far.close()
        return near

    async def exited(self, worker_id: object) -> None:
        notice = {"t": "exited", "id": worker_id, "pid": 7, "status": 3, "signal": None}
        await self.answer({**notice, "stderr": b"", "cause": "exit"})

    async def close(self) -> None:
        await self.client.close()
        self.channel.close()


def _play(scenario) -> None:
    async def play():
        launcher = FakeLauncher()
        try:
            await scenario(launcher)
        finally:
            await launcher.close()

    asyncio.run(asyncio.wait_for(play(), 10))


def _ask(launcher: FakeLauncher) -> "asyncio.Task[object]":
    return asyncio.create_task(launcher.client.spawn(name="Writer", main="a:b", labels={"role": "Writer"}))


def test_a_spawn_gives_the_worker_with_its_channel() -> None:
    async def scenario(launcher) -> None:
        asking = _ask(launcher)
        request = await launcher.request()
        expected = {"t": "spawn", "id": request["id"], "name": "Writer", "main": "a:b", "labels": {"role": "Writer"}}
        assert request == expected
        end = await launcher.spawned(request["id"])
        hired = await asking
        assert (hired.id, hired.pid, hired.confinement) == (request["id"], 7, "unconfined")
        end.send(b"hello")
        assert (await hired.channel.receive()).data == b"hello"
        hired.channel.close()
        end.close()

    _play(scenario)


def test_answers_in_another_order_find_who_asked() -> None:
    async def scenario(launcher) -> None:
        asking = [_ask(launcher) for _ in range(3)]
        ids = [(await launcher.request())["id"] for _ in asking]
        ends = [await launcher.spawned(worker_id) for worker_id in reversed(ids)]
        hired = [await each for each in asking]
        assert [each.id for each in hired] == ids
        for each in (*ends, *(one.channel for one in hired)):
            each.close()

    _play(scenario)


def test_an_end_that_comes_with_the_beginning_is_not_missed() -> None:
    async def scenario(launcher) -> None:
        asking = _ask(launcher)
        request = await launcher.request()
        end = await launcher.spawned(request["id"])
        await launcher.exited(request["id"])
        hired = await asking
        assert (await hired.exited()).describe() == "exited with status 3"
        assert (await hired.kill()).status == 3
        hired.channel.close()
        end.close()

    _play(scenario)


def test_a_refusal_of_a_kill_does_not_disturb_a_spawn() -> None:
    async def scenario(launcher) -> None:
        asking = _ask(launcher)
        worker_id = (await launcher.request())["id"]
        await launcher.answer({"t": "refused", "id": worker_id, "request": "kill", "why": "unknown"})
        await launcher.answer({"t": "refused", "id": worker_id, "request": "spawn", "why": "no room"})
        with pytest.raises(SpawnRefused, match="no room"):
            await asking

    _play(scenario)


def test_a_worker_nobody_waits_for_any_more_is_turned_away() -> None:
    async def scenario(launcher) -> None:
        asking = _ask(launcher)
        worker_id = (await launcher.request())["id"]
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await launcher.request() == {"t": "kill", "id": worker_id}
        end = await launcher.spawned(worker_id)
        assert await asyncio.to_thread(end.receive, timeout=5) is None
        end.close()

    _play(scenario)


def test_a_worker_is_attached_with_its_channel_and_its_end_is_told() -> None:
    async def scenario(launcher) -> None:
        asking = asyncio.ensure_future(launcher.client.attach("s", epoch=2))
        request = await launcher.request()
        assert request == {"t": "attach", "id": request["id"], "session": "s", "epoch": 2}
        near, far = Channel.pair()
        told = {"t": "attached", "request": request["id"], "id": "w-1", "pid": 9, "confinement": "unconfined"}
        await launcher.answer(told, (far.fileno(),))
        far.close()
        hired = await asking
        assert (hired.id, hired.pid) == ("w-1", 9)
        await launcher.answer({"t": "taken", "id": "w-1"})
        assert (await hired.exited()).describe() == "taken over by another client"
        hired.channel.close()
        near.close()

    _play(scenario)


def test_that_somebody_is_about_to_attach_is_told_and_not_answered() -> None:
    async def scenario(launcher) -> None:
        await launcher.client.expect("run", "r-1")
        assert await launcher.request() == {"t": "expect", "label": "run", "text": "r-1"}

    _play(scenario)


def test_what_is_answered_when_a_worker_cannot_be_had() -> None:
    async def scenario(launcher) -> None:
        asking = asyncio.ensure_future(launcher.client.attach("s", epoch=2))
        await launcher.answer({"t": "unknown", "id": (await launcher.request())["id"]})
        assert await asking is None
        asking = asyncio.ensure_future(launcher.client.attach("s", epoch=1))
        refused = {"t": "refused", "id": (await launcher.request())["id"], "request": "attach", "why": "not later"}
        await launcher.answer(refused)
        with pytest.raises(AttachRefused, match="not later"):
            await asking

    _play(scenario)


def test_a_worker_that_is_attached_when_nobody_waits_for_it_any_more_is_ended() -> None:
    async def scenario(launcher) -> None:
        asking = asyncio.ensure_future(launcher.client.attach("s", epoch=2))
        request = await launcher.request()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await launcher.request())["t"] == "kill"
        near, far = Channel.pair()
        told = {"t": "attached", "request": request["id"], "id": "w-1", "pid": 9, "confinement": "unconfined"}
        await launcher.answer(told, (far.fileno(),))
        far.close()
        assert await launcher.request() == {"t": "kill", "id": "w-1"}
        assert near.receive(timeout=5) is None
        near.close()

    _play(scenario)


def test_a_cancellation_in_the_moment_of_the_answer_turns_the_worker_away() -> None:
    async def scenario(launcher) -> None:
        asking = _ask(launcher)
        worker_id = (await launcher.request())["id"]
        near, far = Channel.pair()
        launcher.client._came(worker_id, worker_id, 7, "unconfined", (far.detach(),))
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await launcher.request() == {"t": "kill", "id": worker_id}
        assert near.receive(timeout=5) is None
        near.close()

    _play(scenario)


def test_the_loss_of_the_launcher_fails_who_asks_and_ends_who_was_hired() -> None:
    async def scenario(launcher) -> None:
        asking = _ask(launcher)
        end = await launcher.spawned((await launcher.request())["id"])
        hired = await asking
        waiting = _ask(launcher)
        await launcher.request()
        launcher.channel.close()
        with pytest.raises(LauncherLost):
            await waiting
        assert await hired.exited() == ExitNotice(7, None, None, b"", "launcher-lost")
        hired.channel.close()
        end.close()

    _play(scenario)


def test_a_launcher_that_talks_nonsense_counts_as_lost() -> None:
    async def scenario(launcher) -> None:
        asking = _ask(launcher)
        await launcher.request()
        reading, writing = os.pipe()
        await launcher.channel.send(b"\xc1", (writing,))
        os.close(writing)
        with pytest.raises(LauncherLost):
            await asking
        assert os.read(reading, 1) == b""
        os.close(reading)

    _play(scenario)


@pytest.mark.parametrize(
    ("status", "signal", "cause", "words"),
    [
        (0, None, "exit", "exited with status 0"),
        (None, 9, "killed", "killed by SIGKILL"),
        (None, 40, "exit", "killed by signal 40"),
        (None, None, "launcher-lost", "lost with its launcher"),
        (None, None, "client-closed", "ended with its client"),
    ],
)
def test_an_end_in_words(status, signal, cause, words) -> None:
    assert ExitNotice(1, status, signal, b"", cause).describe() == words
