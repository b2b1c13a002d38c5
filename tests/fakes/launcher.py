"""A launcher and its workers without processes: the client's own records over real channels, the workers are tasks."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgpack

from partyctl_base.aio import AsyncChannel
from partyctl_base.channel import Channel
from partyctl_confinement.client import LauncherClient

Play = Callable[["FakeWorker"], Awaitable[object]]
"""What a worker does; it exits with status 0 when this returns, unless it said how it exits."""


class FakeWorker:
    """One worker, from its own side."""

    def __init__(self, launcher: "FakeLauncher", spawn: Mapping[str, Any], channel: AsyncChannel, pid: int) -> None:
        self.id = spawn["id"]
        self.spawn = spawn
        self.pid = pid
        self.channel = channel
        self.heard: list[Any] = []
        self._launcher = launcher
        self.exited = False

    async def says(self, *messages: bytes) -> None:
        """Send these to whoever hired it."""
        for message in messages:
            await self.channel.send(message)

    async def exits(self, status: int | None = 0, *, signal: int | None = None, stderr: bytes = b"") -> None:
        """End, with an exit notice."""
        if not self.exited:
            self.exited = True
            self.channel.close()
            notice = {"status": status, "signal": signal, "stderr": stderr, "cause": "exit"}
            await self._launcher.tell({"t": "exited", "id": self.id, "pid": self.pid} | notice)


class FakeLauncher:
    """Forks nobody. Make it on a running loop, close it at the end.

    Args:
        play: what each worker does.
        refuses: say no to every spawn.
        deaf: obey no kill.

    Attributes:
        attaches: session and epoch of each order to attach; it knows of no worker to hand over.
    """

    def __init__(self, play: Play, *, refuses: bool = False, deaf: bool = False) -> None:
        near, far = Channel.pair()
        self.client = LauncherClient(AsyncChannel(near))
        self.workers: list[FakeWorker] = []
        self.kills: list[str] = []
        self.attaches: list[tuple[str, int]] = []
        self._channel = AsyncChannel(far)
        self._play = play
        self._refuses = refuses
        self._deaf = deaf
        self._playing: dict[str, asyncio.Task[None]] = {}
        self._serving = asyncio.get_running_loop().create_task(self._serve())

    async def tell(self, message: Mapping[str, object], fds: tuple[int, ...] = ()) -> None:
        await self._channel.send(msgpack.packb(message), fds)

    async def close(self) -> None:
        """End everybody; the client hears that its launcher is gone."""
        tasks = [self._serving, *self._playing.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for worker in self.workers:
            worker.channel.close()
        self._channel.close()
        await self.client.close()

    async def _serve(self) -> None:
        while (received := await self._channel.receive()) is not None:
            request = msgpack.unpackb(received.data)
            if request["t"] == "spawn" and self._refuses:
                await self.tell({"t": "refused", "id": request["id"], "request": "spawn", "why": "it is full"})
            elif request["t"] == "spawn":
                await self._spawn(request)
            elif request["t"] == "attach":
                self.attaches.append((request["session"], request["epoch"]))
                await self.tell({"t": "unknown", "id": request["id"]})
            elif request["t"] == "kill":
                self.kills.append(request["id"])
                if not self._deaf:
                    await self._kill(request["id"])

    async def _spawn(self, request: Mapping[str, Any]) -> None:
        near, far = Channel.pair()
        worker = FakeWorker(self, request, AsyncChannel(far), 1000 + len(self.workers))
        self.workers.append(worker)
        spawned = {"t": "spawned", "id": worker.id, "pid": worker.pid, "confinement": "unconfined"}
        await self.tell(spawned, (near.fileno(),))
        near.close()
        self._playing[worker.id] = asyncio.get_running_loop().create_task(self._live(worker))

    async def _live(self, worker: FakeWorker) -> None:
        await self._play(worker)
        await worker.exits()

    async def _kill(self, worker_id: str) -> None:
        self._playing[worker_id].cancel()
        for worker in self.workers:
            if worker.id == worker_id:
                await worker.exits(None, signal=9)
