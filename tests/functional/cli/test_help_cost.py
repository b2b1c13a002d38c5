"""Help must be cheap, and must load nothing that could be slow, broken or hostile."""

import os
import statistics
import subprocess
import sys
from pathlib import Path

LIMIT = 8
ROUNDS = 15
HEAVY = ("rich", "pydantic", "zmq", "msgpack", "pluggy", "asyncio", "importlib.metadata", "partyctl_plugins")


def cpu(arguments: list[str]) -> float:
    """User and system seconds of one process."""
    quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    pid = os.posix_spawn(arguments[0], arguments, os.environ, file_actions=quiet)
    _, status, usage = os.wait4(pid, 0)
    assert status == 0
    return usage.ru_utime + usage.ru_stime


def test_help_costs_at_most_eight_times_an_empty_python() -> None:
    command = str(Path(sys.executable).with_name("partyctl"))
    empty, helped = [], []
    for _ in range(ROUNDS):  # interleaved, so that a busy machine is busy for both
        empty.append(cpu([sys.executable, "-c", "pass"]))
        helped.append(cpu([command, "--help"]))
    ratio = statistics.median(helped) / statistics.median(empty)
    assert ratio <= LIMIT, f"partyctl --help costs {ratio:.1f} times the CPU of an empty python"


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; from partyctl.cli import main; code = main(['--help']);"
        f"sys.exit(' '.join(m for m in {HEAVY!r} if m in sys.modules) or code)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
