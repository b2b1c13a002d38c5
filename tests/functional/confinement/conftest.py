"""Launchers, hosts and the traces of what workers left behind."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from partyctl_base.aio import AsyncChannel
from partyctl_base.process import ProcessIdentity
from partyctl_confinement.client import Hired, LauncherClient
from partyctl_confinement.control import LauncherProcess

MAINS = Path(__file__).parent / "mains"
SOON = 3.0
"""Seconds within which nothing may be left."""


class Trace:
    """Remembers processes by pid and start time, so that a test can wait for their end and the fixture for its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.processes: dict[int, ProcessIdentity] = {}

    def add(self, *pids: int) -> None:
        for pid in pids:
            identity = ProcessIdentity.of(pid)
            assert identity is not None, f"{pid} is gone already"
            self.processes[pid] = identity

    def add_written(self) -> None:
        """Everybody who wrote a pid file into the directory."""
        self.add(*(int(path.read_text(encoding="ascii")) for path in self.directory.glob("*.pid")))

    def alive(self) -> list[int]:
        return [pid for pid, identity in self.processes.items() if identity.is_alive()]

    def all_gone(self, within: float = SOON) -> bool:
        return until(lambda: not self.alive(), within)

    def clear(self) -> None:
        for pid in self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def until(condition: Callable[[], bool], within: float = SOON) -> bool:
    stop_at = time.monotonic() + within
    while not condition():
        if time.monotonic() > stop_at:
            return False
        time.sleep(0.01)
    return True


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="pc-", dir="/tmp") as path:
        yield Path(path)


@pytest.fixture
def trace(directory: Path) -> Iterator[Trace]:
    traced = Trace(directory)
    yield traced
    traced.clear()


@pytest.fixture
def start_launcher(directory: Path) -> Iterator[Callable[..., LauncherProcess]]:
    """Starts launchers with more than the usual settings."""
    made: list[LauncherProcess] = []

    def start(**settings: object) -> LauncherProcess:
        usual = {"preload": ["worker_mains"], "records": directory / "records", "environment": launcher_environment()}
        made.append(LauncherProcess.start(**{**usual, **settings}))  # type: ignore[arg-type]
        return made[-1]

    yield start
    for each in made:
        if until(lambda each=each: each.poll() is not None, 0):
            each.kill()
        else:
            each.stop()


@pytest.fixture
def launcher(start_launcher: Callable[..., LauncherProcess]) -> LauncherProcess:
    return start_launcher()


def launcher_environment() -> dict[str, str]:
    ours = {"PYTHONPATH": str(MAINS), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    return {**ours, "AWS_SECRET_ACCESS_KEY": "hush", "CLAUDECODE": "1"}


@asynccontextmanager
async def _client(launcher: LauncherProcess, name: str = "test") -> AsyncIterator[LauncherClient]:
    client = LauncherClient(AsyncChannel(launcher.add_client(name)))
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def _hired(client: LauncherClient, main: str) -> AsyncIterator[Hired]:
    hired = await client.spawn(name=main, main=f"worker_mains:{main}")
    try:
        yield hired
    finally:
        await hired.kill()
        hired.channel.close()


@pytest.fixture
def connect() -> Callable[..., AbstractAsyncContextManager[LauncherClient]]:
    """`async with connect(launcher) as client`."""
    return _client


@pytest.fixture
def hire() -> Callable[[LauncherClient, str], AbstractAsyncContextManager[Hired]]:
    """`async with hire(client, main) as hired`, main being a function of worker_mains."""
    return _hired


@pytest.fixture
def wait_until() -> Callable[..., bool]:
    return until


@pytest.fixture
def host(directory: Path) -> Iterator["subprocess.Popen[str]"]:
    """A host process with a launcher and one worker that left orphans."""
    process = subprocess.Popen(
        [sys.executable, str(MAINS / "host_main.py"), str(directory)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    yield process
    process.kill()
    process.stdout.close()
    process.wait()
