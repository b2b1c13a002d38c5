"""What the two ends of the broker's benchmark do, whether they are ours or the yardstick's; and how they are told.

`far` answers. `near` measures: it reads a JSON list per line, [errand, argument...], and prints what comes of it.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

PAYLOAD: Final = b"x" * 200
ROOT: Final = Path(__file__).resolve().parents[1]
"""Where `python -m benchmarks.MODULE` works."""


class Near(Protocol):
    """The errands."""

    def trips(self, count: int) -> list[float]:
        """The milliseconds of each of `count` round trips, one after the other."""
        ...

    def one_way(self, count: int) -> float:
        """The seconds until the other end has counted `count` messages."""
        ...

    def exchanges(self, count: int, steps: int) -> float:
        """The seconds that `count` exchanges of `steps` requests and replies take at once."""
        ...


def obey(near: Near) -> None:
    """Run errands until standard input ends."""
    for line in sys.stdin:
        errand, *arguments = json.loads(line)
        print(json.dumps(getattr(near, errand)(*arguments)), flush=True)


class Runner:
    """A `near` in another process."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self.pid = process.pid

    def __call__(self, errand: str, *arguments: int) -> object:
        """Have an errand run; what it says."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([errand, *arguments]).encode() + b"\n")
        self._process.stdin.flush()
        said: object = json.loads(self.read())
        return said

    def read(self) -> bytes:
        """A line that it prints."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("an end of the benchmark failed")
        return line


def cpu(pids: Sequence[int]) -> float:
    """The processor seconds that processes have used so far, all their threads. The machine's load hardly changes what
    a message costs by this measure, as it does by the clock."""
    threads = (thread for pid in pids for thread in Path(f"/proc/{pid}/task").iterdir())
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


@contextmanager
def running(
    module: str, *arguments: str, piped: bool = False, fds: Sequence[int] = ()
) -> "Iterator[subprocess.Popen[bytes]]":
    """`python -m MODULE ARGUMENT...`, killed at the end."""
    pipe = subprocess.PIPE if piped else None
    command = [sys.executable, "-m", module, *arguments]
    process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, pass_fds=fds)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
