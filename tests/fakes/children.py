"""Children of a host without processes: each is a task at the other end of a real channel."""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence

from partyctl.errors import HostError
from partyctl.host.children import Child
from partyctl.maps import Map, pack, unpack
from partyctl_base.aio import AsyncChannel
from partyctl_base.channel import Channel


class FakeChild(Child):
    """The host's view of a fake child; dies when it is killed."""

    __slots__ = ("arguments", "environment", "far", "heard", "lent")

    def __init__(self, name: str, pid: int, far: AsyncChannel, near: AsyncChannel) -> None:
        super().__init__(name, pid, near, asyncio.get_running_loop().create_future())
        self.far = far
        self.heard: list[Map] = []
        self.lent = 0
        self.arguments: Sequence[str] = ()
        self.environment: Mapping[str, str] | None = None

    def wake(self) -> None:
        """Nobody is ever stopped here."""

    def kill(self) -> None:
        self.exits(-signal.SIGKILL)

    def exits(self, code: int) -> None:
        """The process ends."""
        if not self.exited.done():
            self.exited.set_result(code)
            self.far.close()

    def of_kind(self, kind: str) -> list[Map]:
        """What it was told of one kind."""
        return [message for message in self.heard if message["t"] == kind]


class FakeChildren:
    """Starts fake children.

    Args:
        scripts: for each name, what its children do, the first first: "ready" (also when the list is used up), "hang",
            "die", "refuse" (there is no room for a process), "stubborn" (ready, but ignores stop).
        answers: what they answer when they are asked, a message of the same kind unless it says otherwise; the others
            do not answer.
    """

    def __init__(
        self, scripts: Mapping[str, Sequence[str]] | None = None, answers: Mapping[str, Map] | None = None
    ) -> None:
        self.scripts = {name: list(script) for name, script in (scripts or {}).items()}
        self.answers = dict(answers or {})
        self.started: list[FakeChild] = []
        self.ended: list[str] = []
        self.closed = False

    def start(
        self, name: str, module: str, arguments: Sequence[str] = (), *, environment: Mapping[str, str] | None = None
    ) -> Child:
        assert not self.closed, f"{name} was started after the end"
        script = self.scripts.get(name, [])
        does = script.pop(0) if script else "ready"
        if does == "refuse":
            raise HostError(f"the {name} could not be started", why="no room")
        near, far = Channel.pair()
        child = FakeChild(name, 100_000_000 + len(self.started), AsyncChannel(far), AsyncChannel(near))
        child.arguments, child.environment = arguments, environment
        child.exited.add_done_callback(lambda _: self.ended.append(name))
        self.started.append(child)
        self._task = asyncio.ensure_future(self._live(child, does))
        return child

    def close(self) -> None:
        self.closed = True
        for child in self.started:
            child.kill()
            child.channel.close()

    def named(self, name: str) -> list[FakeChild]:
        """All children of this name, the first first."""
        return [child for child in self.started if child.name == name]

    async def _live(self, child: FakeChild, does: str) -> None:
        if does == "die":
            child.exits(3)
            return
        if does != "hang":
            await child.far.send(pack({"t": "ready"}))
        while (received := await child.far.receive()) is not None:
            for fd in received.fds:
                child.lent += 1
                os.close(fd)
            message = unpack(received.data)
            child.heard.append(message)
            if message["t"] == "stop" and does != "stubborn":
                child.exits(0)
            elif message["t"] in self.answers:
                number = {"number": message["number"]} if "number" in message else {}
                await child.far.send(pack({"t": message["t"]} | number | self.answers[str(message["t"])]))
