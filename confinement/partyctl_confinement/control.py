"""The host's end of the launcher: how it is started, asked and stopped."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgpack

from partyctl_base.channel import Channel, ChannelClosed
from partyctl_confinement.environment import LAUNCHER_ALLOW, scrubbed
from partyctl_confinement.errors import LauncherLost, LauncherNotStarted
from partyctl_confinement.messages import WorkerRow


@dataclass(frozen=True, slots=True)
class Settings:
    """What a launcher is started with.

    Attributes:
        preload: modules that forked workers find imported.
        records: the directory of spawn records; None: none are kept.
        max_workers: how many workers may be alive at once; None: the launcher's own bound, 1024.
        forward_output: whether the host is sent what workers print: {"t": "output", "id", "name", "labels", "data"},
            {"t": "dropped", "id", "bytes"} for what it did not read in time, and of each that ended badly, and that
            nobody wanted to end, {"t": "died", "id", "name", "labels", "pid", "status", "signal", "limit", "evidence"}.
        unattached_max: seconds the worker of an agent session waits for another client when its own has died; None:
            the launcher's own limit, 10.
    """

    preload: Sequence[str] = ()
    records: Path | None = None
    max_workers: int | None = None
    forward_output: bool = False
    unattached_max: float | None = None


def command(settings: Settings, *, control_fd: int, host_pid: int) -> list[str]:
    """The command line of a launcher.

    Args:
        settings: what it is started with.
        control_fd: the launcher's end of a seqpacket pair; it must be passed on to it.
        host_pid: the process whose death ends the launcher and all its workers.
    """
    line = [sys.executable, "-P", "-m", "partyctl_confinement"]
    line += ["--control-fd", str(control_fd), "--host-pid", str(host_pid)]
    if settings.preload:
        line += ["--preload", ",".join(settings.preload)]
    if settings.records is not None:
        line += ["--records", str(settings.records)]
    if settings.max_workers is not None:
        line += ["--max-workers", str(settings.max_workers)]
    if settings.unattached_max is not None:
        line += ["--unattached-max", str(settings.unattached_max)]
    return [*line, "--forward-output"] if settings.forward_output else line


class LauncherProcess:
    """A launcher that the calling process started and owns. Not for an event loop: its calls wait.

    The caller should be a child subreaper, and call `reaper.sweep_children` when the launcher dies.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", control: Channel) -> None:
        self._process = process
        self.control = control

    @staticmethod
    def start(
        *,
        preload: Sequence[str] = (),
        records: Path | None = None,
        max_workers: int | None = None,
        forward_output: bool = False,
        unattached_max: float | None = None,
        environment: Mapping[str, str] | None = None,
        timeout: float = 10.0,
    ) -> "LauncherProcess":
        """Start a launcher and wait until it is ready.

        Args:
            preload: see `Settings`; the next three as well.
            records: see `Settings`.
            max_workers: see `Settings`.
            forward_output: see `Settings`.
            unattached_max: see `Settings`.
            environment: what the launcher starts with; None: the allowed part of this process's own.
            timeout: seconds until it must be ready.

        Raises:
            LauncherNotStarted: it ended, failed or was silent; it is gone then.
        """
        settings = Settings(preload, records, max_workers, forward_output, unattached_max)
        near, far = Channel.pair()
        try:
            child = subprocess.Popen(
                command(settings, control_fd=far.fileno(), host_pid=os.getpid()),
                pass_fds=(far.fileno(),),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env=scrubbed(os.environ, LAUNCHER_ALLOW) if environment is None else dict(environment),
            )
        finally:
            far.close()
        launcher = LauncherProcess(child, near)
        try:
            launcher._await_ready(timeout)
        except LauncherNotStarted:
            launcher.kill()
            raise
        return launcher

    @property
    def pid(self) -> int:
        """The launcher's pid."""
        return self._process.pid

    def poll(self) -> int | None:
        """The launcher's exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    def add_client(self, name: str) -> Channel:
        """A new client of the launcher; the channel is the client's end.

        Raises:
            LauncherLost: the launcher is gone.
        """
        near, far = Channel.pair()
        try:
            self._send({"t": "client", "name": name}, (far.fileno(),))
        finally:
            far.close()
        return near

    def workers(self, *, timeout: float = 5.0) -> list[WorkerRow]:
        """Everybody alive.

        Raises:
            LauncherLost: the launcher is gone or does not answer within `timeout` seconds.
        """
        self._send({"t": "workers"})
        answer = self._receive(timeout)
        while answer.get("t") != "workers":
            answer = self._receive(timeout)
        rows = answer.get("workers")
        assert isinstance(rows, list)
        return [WorkerRow(**row) for row in rows]

    def stop(self, *, timeout: float = 10.0) -> None:
        """Have the launcher kill all workers and end, and wait for it; it is killed if that takes over `timeout`."""
        try:
            self._send({"t": "stop"})
            self._process.wait(timeout)
        except (LauncherLost, subprocess.TimeoutExpired):
            self._process.kill()
        self.kill()

    def kill(self) -> None:
        """Kill the launcher and wait for its death; its workers die with it, their orphans are the caller's."""
        self._process.kill()
        self._process.wait()
        self.control.close()

    def _send(self, message: Mapping[str, object], fds: Sequence[int] = ()) -> None:
        try:
            self.control.send(msgpack.packb(message), fds, timeout=5.0)
        except (ChannelClosed, TimeoutError) as error:
            raise LauncherLost("the launcher is gone", where=f"pid {self.pid}", why=str(error)) from error

    def _receive(self, timeout: float) -> dict[str, object]:
        try:
            received = self.control.receive(timeout=timeout)
        except TimeoutError as error:
            raise LauncherLost("the launcher does not answer", where=f"pid {self.pid}") from error
        if received is None:
            raise LauncherLost("the launcher is gone", where=f"pid {self.pid}")
        answer: dict[str, object] = msgpack.unpackb(received.data)
        return answer

    def _await_ready(self, timeout: float) -> None:
        try:
            answer = self._receive(timeout)
        except LauncherLost as error:
            raise LauncherNotStarted("the launcher did not come up", why=error.what) from error
        if answer.get("t") != "ready":
            raise LauncherNotStarted("the launcher did not come up", why=str(answer.get("why", answer)))
