"""The host's own children: how they are started, heard, waited for and ended.

Children are started from the main thread, each in a session of its own, so that a Ctrl-C at the terminal reaches the
host alone. The host is a child subreaper: a child it did not start is the orphan of a dead launcher, and is killed.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from partyctl.maps import pack
from partyctl_base.aio import AsyncChannel
from partyctl_base.channel import Channel, ChannelClosed
from partyctl_base.process import children
from partyctl_confinement import reaper


@dataclass(slots=True)
class Child:
    """One living or dead child process and the channel to it."""

    name: str
    pid: int
    channel: AsyncChannel
    started: float
    exited: asyncio.Future[int]
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    restarts: int = 0

    async def send(self, message: Mapping[str, object], fds: Sequence[int] = ()) -> None:
        """Send one message; a child that is gone is not an error here, its exit is seen elsewhere."""
        try:
            await self.channel.send(pack(message), fds)
        except ChannelClosed:
            return

    def kill(self) -> None:
        """SIGKILL, if it still runs."""
        if not self.exited.done():
            os.kill(self.pid, signal.SIGKILL)


class Children:
    """Starts children and collects their exits. Needs a running event loop on the main thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._known: dict[int, Child] = {}
        self._loop.add_signal_handler(signal.SIGCHLD, self._collect)

    def start(
        self,
        name: str,
        module: str,
        arguments: Sequence[str] = (),
        *,
        restarts: int = 0,
        environment: Mapping[str, str] | None = None,
    ) -> Child:
        """Start `python -m module --control-fd N --host-pid PID arguments...` with one end of a channel as N.

        Args:
            environment: the child's whole environment; None for the host's own.
        """
        ours, theirs = Channel.pair()
        fd = theirs.fileno()
        argv = [sys.executable, "-m", module, "--control-fd", str(fd), "--host-pid", str(os.getpid()), *arguments]
        actions = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, fd, fd)]
        pid = os.posix_spawn(sys.executable, argv, environment or os.environ, file_actions=actions, setsid=True)
        theirs.close()
        child = Child(name, pid, AsyncChannel(ours), self._loop.time(), self._loop.create_future(), restarts=restarts)
        self._known[pid] = child
        return child

    def _collect(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            child = self._known.pop(pid, None)
            if child is not None:
                child.exited.set_result(os.waitstatus_to_exitcode(status))
        self.sweep_orphans()

    def sweep_orphans(self) -> None:
        """Kill every child that was not started here, with its tree: orphans of a dead launcher."""
        if any(pid not in self._known for pid in children(os.getpid())):
            reaper.sweep_children(self._known.keys())

    async def end(self, child: Child, *, grace: float) -> None:
        """Ask a child to stop; kill it if it has not ended within `grace` seconds."""
        try:
            async with asyncio.timeout(grace):
                await child.send({"t": "stop"})
                await asyncio.shield(child.exited)
        except TimeoutError:
            child.kill()
            await child.exited
        child.channel.close()

    def close(self) -> None:
        """Kill whatever is left and stop listening for exits."""
        self._loop.remove_signal_handler(signal.SIGCHLD)
        for child in list(self._known.values()):
            child.kill()
            child.channel.close()
        reaper.sweep_children(())
