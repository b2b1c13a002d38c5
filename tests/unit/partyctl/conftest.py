"""A private, short runtime directory for every test here."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the parties of this test have their sockets and locks; short enough for a socket's path."""
    directory = Path(tempfile.mkdtemp(dir="/tmp", prefix="pc-"))
    monkeypatch.setenv("PARTYCTL_RUNTIME_DIR", str(directory))
    yield directory
    shutil.rmtree(directory)
