"""A `partyctl` of its own for every test: own runtime, state and configuration directories."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


class Cli:
    """Calls the command line in processes of its own.

    Attributes:
        runtime: the parent of all runtime directories.
        home: state, configuration and current directory.
    """

    def __init__(self, runtime: Path, home: Path) -> None:
        self.runtime = runtime
        self.home = home
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("PARTYCTL_", "XDG_"))},
            "PARTYCTL_RUNTIME_DIR": str(runtime),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_CONFIG_HOME": str(home / "config"),
        }

    def __call__(self, *words: str, timeout: float = 60, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Run `partyctl WORDS` to its end."""
        return subprocess.run(
            self.command(*words),
            cwd=self.home,
            env=self.environment | variables,
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Start `partyctl WORDS`; the caller ends it."""
        return subprocess.Popen(
            self.command(*words),
            cwd=self.home,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @staticmethod
    def command(*words: str) -> list[str]:
        """The argument vector."""
        return [sys.executable, "-P", "-m", "partyctl", *words]


@pytest.fixture
def partyctl(tmp_path: Path) -> Iterator[Cli]:
    """A command line whose runtime directory is short enough for sockets."""
    runtime = Path(tempfile.mkdtemp(dir="/tmp", prefix="pc-"))
    yield Cli(runtime, tmp_path)
    shutil.rmtree(runtime)
