"""Hiring workers from an event loop. The worker side never imports this module."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import msgpack

from partyctl_base.aio import AsyncChannel
from partyctl_base.channel import Channel, ChannelClosed, ChannelFault
from partyctl_base.ids import IdAllocator, RandomIds
from partyctl_confinement.errors import AttachRefused, LauncherLost, SpawnRefused, SpawnTimedOut

_NOTHING: Mapping[str, str] = MappingProxyType({})
_NO_LIMITS: Mapping[str, int] = MappingProxyType({})

LEAVE_LIMIT = 1.0
"""Seconds that a launcher may take to hear that a client goes; one that hangs keeps no worker alive for long."""


@dataclass(frozen=True, slots=True)
class ExitNotice:
    """How a worker ended. When it comes, its whole tree is gone.

    Attributes:
        pid: the worker's pid.
        status: its exit status; None if a signal killed it or nobody can tell.
        signal: the signal that killed it; None if it exited or nobody can tell.
        stderr: the last 16 KiB of its standard output and error.
        cause: "exit": it ended by itself or by a stranger's hand; "killed": its client had it killed; "stop": the
            launcher stopped; "unattached": its client had died, and no other came in time; "launcher-lost": the
            launcher is gone, and the worker with it; "client-closed": this client was closed; "taken": it lives, and is
            another client's.
        limit: the limit that ended it, by the name in its request, or "memory"; None if nothing says so.
        evidence: what says so, for people.
    """

    pid: int
    status: int | None
    signal: int | None
    stderr: bytes
    cause: str
    limit: str | None = None
    evidence: str = ""

    def describe(self) -> str:
        """The end in words: "exited with status 3", "killed by SIGXCPU: over its limit cpu_seconds = 1 seconds"."""
        end = self._end()
        return f"{end}: {self.evidence}" if self.evidence else end

    def _end(self) -> str:
        if self.status is not None:
            return f"exited with status {self.status}"
        if self.signal is not None:
            with contextlib.suppress(ValueError):
                return f"killed by {signal.Signals(self.signal).name}"
            return f"killed by signal {self.signal}"
        if self.cause == "taken":
            return "taken over by another client"
        return "ended with its client" if self.cause == "client-closed" else "lost with its launcher"


class Hired:
    """One worker, from its spawn on.

    Attributes:
        id: its id, unique in its launcher.
        pid: its pid.
        channel: this end of the pair; whoever hired the worker closes it.
        confinement: what it runs under.
    """

    def __init__(
        self, client: "LauncherClient", worker_id: str, pid: int, channel: AsyncChannel, confinement: str
    ) -> None:
        self._client = client
        self._notice: asyncio.Future[ExitNotice] = asyncio.get_running_loop().create_future()
        self.id = worker_id
        self.pid = pid
        self.channel = channel
        self.confinement = confinement

    async def exited(self) -> ExitNotice:
        """Wait until the worker and its whole tree are gone. Any number of tasks may wait."""
        return await asyncio.shield(self._notice)

    async def kill(self) -> ExitNotice:
        """Kill the worker with its whole tree and wait for its end; returns at once if it is gone already."""
        if not self._notice.done():
            with contextlib.suppress(LauncherLost):  # then the notice says so
                await self._client._send({"t": "kill", "id": self.id})
        return await self.exited()

    def _ended(self, notice: ExitNotice) -> None:
        if not self._notice.done():
            self._notice.set_result(notice)


class LauncherClient:
    """One client of the launcher. Closing it ends all workers it hired.

    Args:
        channel: the client's end of a channel whose other end the launcher has.
        ids: who names the workers; None: random ids.
    """

    def __init__(self, channel: AsyncChannel, *, ids: IdAllocator | None = None) -> None:
        self._channel = channel
        self._ids = ids or RandomIds()
        self._asked: dict[str, asyncio.Future[Hired | None]] = {}
        self._hired: dict[str, Hired] = {}
        self._declining: set[asyncio.Task[None]] = set()
        self._over = ""
        self._reader = asyncio.get_running_loop().create_task(self._read(), name="launcher-client")

    @property
    def is_over(self) -> bool:
        """Whether it can hire nobody any more: it was closed, or its launcher is gone."""
        return bool(self._over)

    async def spawn(
        self,
        *,
        name: str,
        main: str = "",
        labels: Mapping[str, str] = _NOTHING,
        timeout: float = 10.0,
        mode: Literal["fork", "exec"] = "fork",
        argv: Sequence[str] = (),
        limits: Mapping[str, int] = _NO_LIMITS,
        epoch: int = 0,
    ) -> Hired:
        """Hire a worker.

        Args:
            name: what people see in `ps` and `status`.
            main: "module:function", imported in the worker; the function takes its `Channel`.
            labels: texts that `status` shows with it. One whose label `session` is not empty outlives the death of
                this client for a while, for another one to `attach`.
            timeout: seconds until the launcher must have answered.
            mode: "fork": a copy of the launcher, up in milliseconds; "exec": a fresh interpreter, for mains that
                must not share the launcher's memory.
            argv: in place of a main, with mode "exec": a program by its absolute path, and its arguments. Its channel
                is descriptor 3. A process it loses to init is killed at once, for it is the launcher's then.
            limits: what it is held to, by the names in `limits.KINDS`: nofile, file_size_max (bytes), core (bytes, 0
                unless said), cpu_seconds, address_space (bytes), nproc.
            epoch: the number under which this client has it.

        Raises:
            SpawnRefused: the launcher would not.
            SpawnTimedOut: it did not answer in time.
            LauncherLost: it is gone, or this client was closed.
        """
        worker_id = self._ids.new_id("worker")
        request: dict[str, object] = {"t": "spawn", "id": worker_id, "name": name, "labels": dict(labels)}
        request |= {"argv": list(argv)} if argv else {"main": main}
        request |= {"mode": mode} if mode != "fork" else {}
        request |= {"limits": dict(limits)} if limits else {}
        request |= {"epoch": epoch} if epoch else {}
        late = f"the launcher did not start a worker within {timeout:g} s"
        hired = await self._answered(request, timeout, late, name)
        assert hired is not None  # only an attach is answered by none
        return hired

    async def attach(self, session: str, *, epoch: int, timeout: float = 10.0) -> Hired | None:
        """Take over the worker of an agent session whose client has died, or is to have it no longer.

        What the worker reports from now on comes here. One that has died meanwhile is attached too: its channel has
        ended, and its exit notice comes.

        Args:
            session: the label under which it was hired.
            epoch: the number under which this client will have it; greater than that of whoever had it.
            timeout: seconds until the launcher must have answered.

        Returns:
            The worker; None if there is none, and nothing is known of the end of one.

        Raises:
            AttachRefused: the epoch is not later than the one before, or the worker is stuck.
            SpawnTimedOut: the launcher did not answer in time.
            LauncherLost: it is gone, or this client was closed.
        """
        request = {"t": "attach", "id": self._ids.new_id("attach"), "session": session, "epoch": epoch}
        late = f"the launcher did not hand a worker over within {timeout:g} s"
        return await self._answered(request, timeout, late, f"session {session}")

    async def expect(self, label: str, text: str) -> None:
        """Say that somebody is about to attach to the workers with this label, so that they wait for it anew.

        Raises:
            LauncherLost: the launcher is gone, or this client was closed.
        """
        await self._send({"t": "expect", "label": label, "text": text})

    async def _answered(self, request: Mapping[str, object], timeout: float, late: str, where: str) -> Hired | None:
        asked = str(request["id"])
        answer: asyncio.Future[Hired | None] = asyncio.get_running_loop().create_future()
        self._asked[asked] = answer
        try:
            async with asyncio.timeout(timeout):
                await self._send(request)
                return await answer
        except TimeoutError as error:
            self._decline(asked, answer)
            why = "it is not responding: it is stopped, or the machine is overloaded"
            raise SpawnTimedOut(late, where=where, why=why) from error
        except asyncio.CancelledError:
            self._decline(asked, answer)
            raise
        finally:
            # An answer that comes later finds nobody who asked, and is turned away.
            del self._asked[asked]

    async def close(self) -> None:
        """End all workers of this client, and wait until the channel is closed. Idempotent."""
        if (self._hired or self._asked) and not self._over:
            # Otherwise those of agent sessions would wait for another client.
            with contextlib.suppress(LauncherLost, TimeoutError):
                async with asyncio.timeout(LEAVE_LIMIT):
                    await self._send({"t": "leave"})
        self._lose("client-closed")
        self._reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader

    async def _send(self, request: Mapping[str, object]) -> None:
        if self._over:
            raise _lost(self._over)
        try:
            await self._channel.send(msgpack.packb(request))
        except (ChannelClosed, ChannelFault) as error:
            raise LauncherLost("the launcher is gone", why=str(error)) from error

    async def _read(self) -> None:
        try:
            while (received := await self._channel.receive()) is not None:
                try:
                    self._hear(msgpack.unpackb(received.data), received.fds)
                except (ValueError, LookupError, TypeError):
                    # Not our launcher's words: whatever is at the other end, it starts no worker for us.
                    for fd in received.fds:
                        os.close(fd)
                    break
        finally:
            self._lose("launcher-lost")

    def _hear(self, message: Mapping[str, Any], fds: tuple[int, ...]) -> None:
        kind, worker_id = message["t"], message["id"]
        if kind == "spawned":
            self._came(worker_id, worker_id, message["pid"], message["confinement"], fds)
        elif kind == "attached":
            self._came(message["request"], worker_id, message["pid"], message["confinement"], fds)
        elif kind == "unknown":
            answer = self._asked.get(worker_id)
            if answer is not None and not answer.done():
                answer.set_result(None)
        elif kind == "taken":
            self._taken(worker_id)
        elif kind == "refused":
            self._refused(worker_id, message["request"], message["why"])
        elif kind == "exited":
            self._exited(worker_id, message)

    def _came(self, asked: str, worker_id: str, pid: int, confinement: str, fds: tuple[int, ...]) -> None:
        answer = self._asked.get(asked)
        if answer is None or answer.done():
            for fd in fds:  # whoever asked lost patience, and had it taken back
                os.close(fd)
            if asked != worker_id:
                self._give_back(worker_id)
            return
        channel = AsyncChannel(Channel(socket.socket(fileno=fds[0])))
        hired = Hired(self, worker_id, pid, channel, confinement)
        self._hired[worker_id] = hired
        answer.set_result(hired)

    def _decline(self, worker_id: str, answer: "asyncio.Future[Hired | None]") -> None:
        """Nobody waits for this worker any more: whether it still waits its turn or is there already, it must not be.

        It may have come in the very moment in which whoever asked for it was cancelled, or lost patience.
        """
        hired = answer.result() if answer.done() and not answer.cancelled() and answer.exception() is None else None
        if hired is not None:
            hired.channel.close()
            worker_id = hired.id
        self._give_back(worker_id)

    def _give_back(self, worker_id: str) -> None:
        declining = asyncio.get_running_loop().create_task(self._take_back(worker_id))
        self._declining.add(declining)
        declining.add_done_callback(self._declining.discard)

    async def _take_back(self, worker_id: str) -> None:
        with contextlib.suppress(LauncherLost):  # and the worker with it
            await self._send({"t": "kill", "id": worker_id})

    def _refused(self, worker_id: str, request: str, why: str) -> None:
        answer = self._asked.get(worker_id)
        if answer is None or answer.done():
            return
        if request == "spawn":
            answer.set_exception(SpawnRefused("the launcher refused to start a worker", where=worker_id, why=why))
        elif request == "attach":
            answer.set_exception(AttachRefused("the worker of a session cannot be had", why=why))

    def _exited(self, worker_id: str, message: Mapping[str, Any]) -> None:
        hired = self._hired.pop(worker_id, None)
        if hired is not None:
            fields = {name: message[name] for name in ("pid", "status", "signal", "stderr", "cause")}
            hired._ended(ExitNotice(**fields, limit=message.get("limit"), evidence=message.get("evidence", "")))

    def _taken(self, worker_id: str) -> None:
        hired = self._hired.pop(worker_id, None)
        if hired is not None:
            hired._ended(ExitNotice(hired.pid, None, None, b"", "taken"))

    def _lose(self, cause: str) -> None:
        """No more answers and notices will come. The first cause counts."""
        self._over = self._over or cause
        self._channel.close()
        for hired in self._hired.values():
            hired._ended(ExitNotice(hired.pid, None, None, b"", self._over))
        self._hired.clear()
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(_lost(self._over))


def _lost(cause: str) -> LauncherLost:
    if cause == "client-closed":
        return LauncherLost("this client of the launcher was closed")
    return LauncherLost("the launcher is gone", fix="Its host starts another one; hire the worker there")
