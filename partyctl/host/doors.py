"""The host's control socket: who may come in, and what they may ask.

One SOCK_SEQPACKET socket in the 0700 runtime directory; a caller of another uid is turned away. Every connection
begins with a hello that carries the version of this protocol and the release of partyctl. The requests:

    status                  one status document
    wait                    ready, once everything is
    down {timeout, now}     progress lines, then done
    enter                   for one run: its id, an address, a secret (by descriptor) and the node to talk to
    keys {revoked}          the keys have changed: answered when the broker knows, with where it listens

A request that is none, or is none of these, is answered by failed.
"""

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from partyctl.control import CONTROL_NAME, CONTROL_VERSION, release
from partyctl.errors import HostError
from partyctl.maps import Map, pack, unpack
from partyctl_base.aio import AsyncChannel
from partyctl_base.channel import Channel, ChannelClosed
from partyctl_base.errors import PartyError
from partyctl_base.paths import socket_path

CALLERS_MAX = 256
"""Conversations at once. Below the usual limit of descriptors, so that a new one can always be turned away."""

_UCRED = struct.Struct("3i")
_HELLO_LIMIT = 5.0
_MESSAGE_MAX = 8 * 1024 * 1024


class BadRequest(PartyError):
    """A request does not have the shape it should."""

    whose = "peer"


@dataclass(frozen=True, slots=True)
class Caller:
    """One connection, to answer on."""

    pid: int
    channel: AsyncChannel

    async def hear(self) -> bytes | None:
        """The caller's next message; None when it has left. Nobody is asked for descriptors, so any are closed."""
        received = await self.channel.receive()
        if received is None:
            return None
        for fd in received.fds:
            os.close(fd)
        return received.data

    async def reply(self, message: Map, fds: Sequence[int] = ()) -> None:
        """Send one reply; a caller that has left is not an error."""
        with contextlib.suppress(ChannelClosed):
            await self.channel.send(pack(message), fds)


Answer = Callable[[Caller, Map], Awaitable[None]]


class Doors:
    """Serves the control socket until closed.

    Args:
        directory: the runtime directory.
        party: the party's name, told in the hello.
        answers: what to do for each kind of request; a PartyError is told to the caller.
        config: the fingerprint of the party's configuration, told in the hello.

    Raises:
        HostError: the socket cannot be made.
    """

    def __init__(self, directory: Path, party: str, answers: Mapping[str, Answer], *, config: str = "") -> None:
        self._path = socket_path(directory, CONTROL_NAME)
        self._hello: Map = {"t": "hello", "version": CONTROL_VERSION, "release": release(), "pid": os.getpid()}
        self._hello |= {"party": party, "config": config}
        self._answers = answers
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        try:
            self._path.unlink(missing_ok=True)
            self._socket.bind(str(self._path))
            self._path.chmod(0o600)
            self._socket.listen(64)
        except OSError as error:
            self._socket.close()
            why = error.strerror or str(error)
            raise HostError("the control socket cannot be made", where=str(self._path), why=why) from error
        self._loop.add_reader(self._socket.fileno(), self._accept)

    async def close(self) -> None:
        """Stop listening, remove the socket, end every conversation."""
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self._path.unlink(missing_ok=True)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except OSError:
            return
        pid, uid, _gid = _UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
        if uid not in (os.getuid(), 0) or len(self._tasks) >= CALLERS_MAX:
            connection.close()
            return
        caller = Caller(pid, AsyncChannel(Channel(connection, max_message=_MESSAGE_MAX)))
        task = self._loop.create_task(self._serve(caller))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, caller: Caller) -> None:
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_HELLO_LIMIT):
                    if await caller.hear() is None:
                        return
                    await caller.reply(self._hello)
                while (data := await caller.hear()) is not None:
                    await self._answer(caller, data)
        finally:
            caller.channel.close()

    async def _answer(self, caller: Caller, data: bytes) -> None:
        try:
            request = unpack(data)
            answer = self._answers[str(request["t"])]
        except (ValueError, TypeError, KeyError):
            await caller.reply({"t": "failed", "error": f"no such request; known are {', '.join(self._answers)}"})
            return
        try:
            await answer(caller, request)
        except PartyError as error:
            await caller.reply({"t": "failed", "error": str(error)})
