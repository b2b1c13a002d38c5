"""Workers for a program that embeds partyctl: a private host, started when the first worker is needed.

The program makes the private host's directory, `runtime/embedded/<pid>-<start>-<random>`; whichever of the two dies
last removes it, and what both left behind by dying at once is reaped by the next one to start.
"""

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from partyctl.errors import HostError
from partyctl.maps import unpack
from partyctl_base.aio import AsyncChannel
from partyctl_base.channel import Channel
from partyctl_base.paths import runtime_directory
from partyctl_base.process import ProcessIdentity, boot_id, start_time
from partyctl_confinement import reaper
from partyctl_confinement.client import LauncherClient

START_LIMIT = 20.0
"""Seconds a private host may take until its launcher is ready."""

STOP_LIMIT = 8.0
"""Seconds a private host may take to end its workers and itself."""


class PrivateHost:
    """A source of workers over a private host. Lives on one event loop; `close` ends every worker and the host."""

    def __init__(self) -> None:
        self._starting = asyncio.Lock()
        self._client: LauncherClient | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._control: AsyncChannel | None = None
        self._directory: Path | None = None

    async def client(self) -> LauncherClient:
        """The launcher's client; starts the private host at the first call.

        Raises:
            HostError: the private host did not start; says why.
        """
        async with self._starting:
            if self._client is None:
                self._client = await self._start()
            return self._client

    async def close(self) -> None:
        """End every worker and the private host; afterwards nothing of it is left. Idempotent."""
        if self._client is not None:
            await self._client.close()
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            await _ended(self._process, STOP_LIMIT)
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
        self._client = self._control = self._process = self._directory = None

    async def _start(self) -> LauncherClient:
        self._directory = _make_directory()
        ours, theirs = Channel.pair()
        fd = theirs.fileno()
        argv = [sys.executable, "-m", "partyctl.host.private", "--control-fd", str(fd)]
        argv += ["--host-pid", str(os.getpid()), "--directory", str(self._directory)]
        self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, pass_fds=(fd,), start_new_session=True)
        theirs.close()
        self._control = AsyncChannel(ours)
        try:
            async with asyncio.timeout(START_LIMIT):
                received = await self._control.receive()
        except TimeoutError:
            raise HostError("the private host did not start", why=f"not ready after {START_LIMIT:.0f} s") from None
        if received is None:
            raise HostError("the private host did not start", why="it ended before it was ready")
        message = unpack(received.data)
        if message["t"] != "ready":
            raise HostError("the private host did not start", why=str(message.get("error")))
        return LauncherClient(AsyncChannel(Channel.from_fd(received.fds[0])))


async def _ended(process: subprocess.Popen[bytes], limit: float) -> None:
    loop = asyncio.get_running_loop()
    gone = asyncio.Event()
    with contextlib.suppress(ProcessLookupError):
        watched = os.pidfd_open(process.pid)
        loop.add_reader(watched, gone.set)
        try:
            async with asyncio.timeout(limit):
                await gone.wait()
        except TimeoutError:
            process.kill()
            await gone.wait()
        finally:
            loop.remove_reader(watched)
            os.close(watched)
    process.wait()


def _make_directory() -> Path:
    parent = runtime_directory("embedded")
    for other in parent.iterdir():
        pid, _, rest = other.name.partition("-")
        started = rest.partition("-")[0]
        if pid.isdigit() and started.isdigit():
            embedder = ProcessIdentity(int(pid), int(started), boot_id())
            if not embedder.is_alive():
                reaper.reap_records(other / "spawned")
                shutil.rmtree(other, ignore_errors=True)
    prefix = f"{os.getpid()}-{start_time(os.getpid())}-"
    return Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
