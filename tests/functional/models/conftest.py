"""The two services, faked on loopback, each in a process of its own."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

FAKES = Path(__file__).parents[2] / "fakes"


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Starts the fake of a service; returns the address that its client is given."""
    started: list[subprocess.Popen[bytes]] = []

    def start(service: str) -> str:
        port = tmp_path / f"{service}-port"
        command = [sys.executable, str(FAKES / f"{service}_service.py"), "--port-file", str(port)]
        started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        end = time.monotonic() + 20
        while not port.exists():
            assert time.monotonic() < end, "the service did not start"
            time.sleep(0.01)
        return f"http://127.0.0.1:{port.read_text()}" + ("/v1" if service == "openai" else "")

    yield start
    for process in started:
        process.terminate()
        process.wait(10)
