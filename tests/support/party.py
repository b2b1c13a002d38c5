"""A party of a test's own: its directories, its environment, and the command line in a process."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from support import guardian

from partyctl_base.process import children, is_alive

PLUGINS = Path(__file__).parent.parent / "plugins"
REPOSITORY = PLUGINS.parent.parent


class Party:
    """Runs `partyctl` with directories of its own. `close` ends what is up and removes the directories."""

    def __init__(self) -> None:
        # Short, because a socket's path takes 107 bytes.
        self.root = Path(tempfile.mkdtemp(prefix="pt-", dir="/tmp"))
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root / "home"),
            "LANG": "C.UTF-8",
            **guardian.mark(),
            "PYTHONPATH": str(PLUGINS),
            "PARTYCTL_RUNTIME_DIR": str(self.root / "run"),
            "XDG_STATE_HOME": str(self.root / "state"),
            "XDG_CONFIG_HOME": str(self.root / "config"),
        }
        (self.root / "home").mkdir()
        self._started: list[subprocess.Popen[str]] = []

    @property
    def runtime(self) -> Path:
        """The runtime directory of the party `default`."""
        return self.root / "run" / "default"

    @staticmethod
    def program(name: str) -> Path:
        """A file to run: one of the examples, or of tests/programs."""
        example = REPOSITORY / "examples" / name
        return example if example.exists() else REPOSITORY / "tests" / "programs" / name

    def start(self, *arguments: str, program: str | None = None, **more: str) -> subprocess.Popen[str]:
        """Start `partyctl ARGUMENTS`, or `python PROGRAM ARGUMENTS`, and go on."""
        command = [sys.executable, *(["-m", "partyctl"] if program is None else [program]), *arguments]
        process = subprocess.Popen(
            command,
            env=self.environment | more,
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def run(self, *arguments: str, timeout: float = 40, **more: str) -> subprocess.CompletedProcess[str]:
        """Run `partyctl ARGUMENTS` to its end."""
        process = self.start(*arguments, **more)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"partyctl {arguments} took over {timeout} s\n{out}\n{err}") from None
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def up(self, *arguments: str) -> None:
        """Bring the party up, in the background."""
        result = self.run("up", "-d", "--wait", *arguments)
        assert result.returncode == 0, result.stderr

    def status(self) -> dict[str, Any]:
        """The status document."""
        result = self.run("status", "--json")
        assert result.returncode == 0, result.stderr
        document: dict[str, Any] = json.loads(result.stdout)
        return document

    @staticmethod
    def kill(pid: int) -> None:
        """kill -9."""
        os.kill(pid, signal.SIGKILL)

    def host_pid(self) -> int:
        """The pid in the lock file."""
        pid: int = json.loads((self.runtime / "lock").read_text())["pid"]
        return pid

    def node(self) -> int:
        """The pid of the only node, once it is ready."""
        found: list[int] = []

        def ready() -> bool:
            (node,) = self.status()["nodes"]
            found.append(node["pid"])
            return bool(node["state"] == "ready")

        wait_until(ready, 30, "the node is ready")
        return found[-1]

    def close(self) -> None:
        """End everything; fails if `down` does not end it."""
        down = self.run("down", "--now")
        for process in self._started:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
            for stream in (process.stdout, process.stderr):
                assert stream is not None
                stream.close()
        shutil.rmtree(self.root)
        assert down.returncode == 0, down.stderr


def descendants(pid: int) -> Iterator[int]:
    """Every living process below `pid`."""
    for child in children(pid):
        if is_alive(child):
            yield child
            yield from descendants(child)


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> float:
    """Wait for a condition; the seconds it took. Fails with `what` when time is up."""
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > seconds:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.01)
    return time.monotonic() - start
