"""Workers for a program that embeds partyctl: a private host, started when the first worker is needed.

The program makes the private host's directory, `runtime/embedded/<pid>-<start>-<random>`; whichever of the two dies
last removes it, and what both left behind by dying at once is reaped by the next one to start.
"""

import asyncio
import contextlib
import logging
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


KILL_LIMIT = 5.0
"""Seconds until a killed private host must be gone; only one that waits in the kernel takes longer."""

_log = logging.getLogger("partyctl.embedded")


class PrivateHost:
    """A source of workers over a private host. Lives on one event loop; `close` ends every worker and the host."""

    def __init__(self) -> None:
        # One start for all who ask: a role that is cancelled meanwhile neither ends it nor leaves it to nobody.
        self._starting: asyncio.Task[LauncherClient] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._control: AsyncChannel | None = None
        self._directory: Path | None = None

    async def client(self) -> LauncherClient:
        """The launcher's client; starts the private host at the first call.

        Raises:
            HostError: the private host did not start; says why.
        """
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._start())
        return await asyncio.shield(self._starting)

    async def close(self) -> None:
        """End every worker and the private host; afterwards nothing of it is left. Idempotent."""
        starting, self._starting = self._starting, None
        if starting is not None:
            starting.cancel()
            await asyncio.wait((starting,))
            if not starting.cancelled() and starting.exception() is None:
                await starting.result().close()
        if self._control is not None:
            self._control.hang_up()
        if self._process is not None:
            await _ended(self._process, STOP_LIMIT)
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
        self._control = self._process = self._directory = None

    async def _start(self) -> LauncherClient:
        ours, theirs = Channel.pair()
        self._control = AsyncChannel(ours)
        try:
            self._directory = _make_directory()
            self._process = _spawn(theirs.fileno(), self._directory)
        except OSError as error:
            raise _not_started(str(error)) from error
        finally:
            theirs.close()
        try:
            async with asyncio.timeout(START_LIMIT):
                received = await self._control.receive()
        except TimeoutError:
            raise _not_started(f"not ready after {START_LIMIT:.0f} s") from None
        if received is None:
            raise _not_started("it ended before it was ready")
        if len(received.fds) != 1:
            raise _not_started(str(unpack(received.data).get("error")))
        return LauncherClient(AsyncChannel(Channel.from_fd(received.fds[0])))


def _spawn(control: int, directory: Path) -> "subprocess.Popen[bytes]":
    argv = [sys.executable, "-P", "-m", "partyctl.host.private", "--control-fd", str(control)]
    argv += ["--host-pid", str(os.getpid()), "--directory", str(directory)]
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, pass_fds=(control,), start_new_session=True)


def _not_started(why: str) -> HostError:
    return HostError("the private host did not start", why=why)


async def _ended(process: "subprocess.Popen[bytes]", limit: float) -> None:
    """Wait until a process ends, kill it after `limit` seconds, and reap it."""
    loop = asyncio.get_running_loop()
    gone = asyncio.Event()
    with contextlib.suppress(ProcessLookupError, TimeoutError):
        watched = os.pidfd_open(process.pid)
        loop.add_reader(watched, gone.set)
        try:
            try:
                await asyncio.wait_for(gone.wait(), limit)
            except TimeoutError:
                process.kill()
                await asyncio.wait_for(gone.wait(), KILL_LIMIT)
        finally:
            loop.remove_reader(watched)
            os.close(watched)
    if process.poll() is None:
        _log.warning("the private host %d does not end; it is left to the kernel", process.pid)


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
