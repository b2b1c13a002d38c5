"""The host's own children: how they are started, heard, asked and ended.

Children are started from the main thread, each in a session of its own, so that a Ctrl-C at the terminal reaches the
host alone. The host is a child subreaper: a child it did not start is the orphan of a dead launcher, and is killed.
"""

import asyncio
import contextlib
import itertools
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from partyctl.errors import HostError
from partyctl.maps import Map, pack
from partyctl_base.aio import AsyncChannel
from partyctl_base.channel import Channel, ChannelClosed
from partyctl_base.process import children
from partyctl_confinement import reaper
from partyctl_confinement.tail import Tail

LAST_LINES = 2048
"""Bytes of what a child wrote last that its death may quote a line of."""

_PIECE = 64 * 1024
_PIECES = 16
"""A pipe holds one piece; more than so many is somebody who goes on writing after the child's end."""

Wrote = Callable[[str, bytes], None]

KILL_LIMIT = 5.0
"""Seconds until a killed child must be gone; only one that waits in the kernel takes longer, and is left to it."""


@dataclass(slots=True, eq=False)
class Child:
    """One child process, living or dead, and the channel to it.

    Attributes:
        name: what it is called in `status`.
        pid: its process id.
        channel: the host's end of the channel to it.
        exited: its exit code, as `os.waitstatus_to_exitcode` gives it; wait for it shielded, many do.
        ready: set when it said so.
        launcher: the launcher it was lent, if it is a node.
        wrote: the last of what it wrote to its standard output and error, if that is read here.
    """

    name: str
    pid: int
    channel: AsyncChannel
    exited: asyncio.Future[int]
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    launcher: "Child | None" = None
    wrote: Tail = field(default_factory=lambda: Tail(LAST_LINES))
    _asked: dict[str, list[tuple[int, asyncio.Future[Map]]]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def send(self, message: Mapping[str, object], fds: Sequence[int] = ()) -> None:
        """Send one message; a child that is gone is not an error here, its exit is seen elsewhere."""
        try:
            await self.channel.send(pack(message), fds)
        except ChannelClosed:
            return

    async def ask(self, question: str, *, limit: float) -> Map | None:
        """The child's answer to `question`, a message of the same kind; None if none comes within `limit` seconds."""
        return await self.call({"t": question}, (question,), limit=limit)

    async def caught_up(self, *, limit: float) -> bool:
        """Whether the broker has heard all that it was sent before, within `limit` seconds. The answer to what somebody
        else asked a moment ago says nothing about that, so this question has a number."""
        number = next(self._numbers)
        return await self.call({"t": "stats", "number": number}, ("stats",), limit=limit, number=number) is not None

    async def call(
        self, order: Mapping[str, object], answers: Sequence[str], *, limit: float, number: int = 0
    ) -> Map | None:
        """The first message of one of the kinds `answers` after an order; None if none comes within `limit` seconds, or
        the child ends.

        Args:
            order: what it is told.
            answers: the kinds of message that answer it.
            limit: seconds.
            number: the least `number` that an answer must have; 0 for any, also none.
        """
        answer: asyncio.Future[Map] = asyncio.get_running_loop().create_future()
        waiting, mine = [self._asked.setdefault(kind, []) for kind in answers], (number, answer)
        for queue in waiting:
            queue.append(mine)
        try:
            # A stopped child reads nothing, so the order itself may find no room.
            async with asyncio.timeout(limit):
                await self.send(order)
                await asyncio.wait((answer, self.exited), return_when=asyncio.FIRST_COMPLETED)
                return answer.result() if answer.done() else None
        except TimeoutError:
            return None
        finally:
            for queue in waiting:
                if mine in queue:
                    queue.remove(mine)

    def answered(self, message: Map) -> None:
        """Give an answer to all whose question it answers."""
        number = message.get("number")
        reached = number if isinstance(number, int) else 0
        waiting = self._asked.get(str(message["t"]), [])
        for least, answer in waiting:
            if least <= reached and not answer.done():
                answer.set_result(message)
        waiting[:] = [each for each in waiting if each[0] > reached]

    def last_line(self) -> str:
        """The last line it wrote; empty if it wrote none."""
        lines = self.wrote.bytes().decode("utf-8", "replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def wake(self) -> None:
        """SIGCONT, if it still runs: one that somebody stopped would hear of nothing."""
        if not self.exited.done():
            os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, if it still runs."""
        if not self.exited.done():
            os.kill(self.pid, signal.SIGKILL)

    async def end(self, *, grace: float) -> None:
        """Ask it to stop; kill it if it has not ended within `grace` seconds."""
        try:
            self.wake()
            async with asyncio.timeout(grace):
                await self.send({"t": "stop"})
                await asyncio.shield(self.exited)
        except TimeoutError:
            self.kill()
            await asyncio.wait((self.exited,), timeout=KILL_LIMIT)
        self.channel.close()


class Children:
    """Starts children and collects their exits. Needs a running event loop on the main thread.

    Args:
        wrote: called with a child's name and a piece of what it wrote to its standard output and error, and with b"" at
            the end of it. None: the children write where the host writes.
    """

    def __init__(self, wrote: Wrote | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._wrote = wrote
        self._outputs: dict[Child, int] = {}
        self._known: dict[int, Child] = {}
        self._loop.add_signal_handler(signal.SIGCHLD, self._collect)

    def start(
        self, name: str, module: str, arguments: Sequence[str] = (), *, environment: Mapping[str, str] | None = None
    ) -> Child:
        """Start `python -m module --control-fd N --host-pid PID arguments...` with one end of a channel as N.

        Args:
            environment: the child's whole environment; None for the host's own.

        Raises:
            HostError: the machine has no room for another process.
        """
        ours, theirs = Channel.pair()
        fd = theirs.fileno()
        argv = [sys.executable, "-P", "-m", module, "--control-fd", str(fd), "--host-pid", str(os.getpid()), *arguments]
        actions: list[tuple[int, ...] | tuple[int, int, str, int, int]]
        actions = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, fd, fd)]
        env = os.environ if environment is None else environment
        with contextlib.ExitStack() as failed, contextlib.ExitStack() as started:
            failed.callback(ours.close)
            started.callback(theirs.close)
            output = -1
            try:
                if self._wrote is not None:
                    output, writing = os.pipe2(os.O_CLOEXEC)
                    failed.callback(os.close, output)
                    started.callback(os.close, writing)
                    actions += [(os.POSIX_SPAWN_DUP2, writing, 1), (os.POSIX_SPAWN_DUP2, writing, 2)]
                pid = os.posix_spawn(sys.executable, argv, env, file_actions=actions, setsid=True)
            except OSError as error:
                raise HostError(f"the {name} could not be started", why=error.strerror or str(error)) from error
            failed.pop_all()
        child = self._known[pid] = Child(name, pid, AsyncChannel(ours), self._loop.create_future())
        if output >= 0:
            os.set_blocking(output, False)
            self._outputs[child] = output
            self._loop.add_reader(output, self._read, child)
        return child

    def close(self) -> None:
        """Kill whatever is left and stop listening for exits."""
        self._loop.remove_signal_handler(signal.SIGCHLD)
        for child in self._known.values():
            child.kill()
            child.channel.close()
        reaper.sweep_children(())
        for child in list(self._outputs):
            self._read_rest(child)

    def _collect(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            child = self._known.pop(pid, None)
            if child is not None and not child.exited.done():
                self._read_rest(child)  # before its end is known, for it may say why
                child.exited.set_result(os.waitstatus_to_exitcode(status))
        if any(pid not in self._known for pid in children(os.getpid())):
            reaper.sweep_children(self._known.keys())

    def _read(self, child: Child) -> bool:
        """Take what it wrote; whether there may be more."""
        output = self._outputs.get(child)
        if output is None or self._wrote is None:
            return False
        try:
            data = os.read(output, _PIECE)
        except BlockingIOError:
            return False
        child.wrote.feed(data)
        self._wrote(child.name, data)
        if not data:
            self._loop.remove_reader(output)
            os.close(self._outputs.pop(child))
        return bool(data)

    def _read_rest(self, child: Child) -> None:
        """A child has ended. Nobody waits for a descendant of it that holds its output."""
        pieces = 0
        while self._read(child) and pieces < _PIECES:
            pieces += 1
        if child in self._outputs and self._wrote is not None:
            output = self._outputs.pop(child)
            self._loop.remove_reader(output)
            os.close(output)
            self._wrote(child.name, b"")
