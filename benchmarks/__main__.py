"""Every benchmark, one after the other: `python -m benchmarks [--json]`. Each can be run alone as
`python -m benchmarks.NAME`; its docstring says what it measures. With --json each prints one line."""

import subprocess
import sys
from typing import Final

BENCHMARKS: Final = (
    "broker",
    "hostile",
    "worker_spawn",
    "supervised_turn",
    "agent_session",
    "protocol_checks",
    "local_run",
    "remote_run",
    "recorded_runs",
)


def main() -> int:
    """Run them all; the number of those that missed a target."""
    missed = 0
    for name in BENCHMARKS:
        command = [sys.executable, "-m", f"benchmarks.{name}", *sys.argv[1:]]
        missed += subprocess.run(command, check=False).returncode != 0
    return missed


if __name__ == "__main__":
    sys.exit(main())
