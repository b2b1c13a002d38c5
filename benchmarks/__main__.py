"""Every benchmark, one after the other: `python -m benchmarks [--json]`. Each can be run alone; its docstring says how."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
BENCHMARKS = (
    ("broker_roundtrip.py",),
    ("worker_spawn.py", "--main", "partyctl_plugins.worker:main", "--preload", "partyctl_plugins.worker"),
    ("supervised_turn.py",),
    ("protocol_checks.py",),
)


def main() -> int:
    """Run them all; the number of those that missed a target."""
    missed = 0
    for name, *arguments in BENCHMARKS:
        command = [sys.executable, str(HERE / name), *arguments, *sys.argv[1:]]
        missed += subprocess.run(command, check=False).returncode != 0
        print(flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main())
