"""A host sweeps what a dead child left to it, and keeps the children it knows."""

import json
import subprocess
import sys
from pathlib import Path


def test_a_sweep_kills_and_reaps_every_child_but_the_known_ones(trace) -> None:
    script = Path(__file__).parent / "mains" / "sweeper_main.py"
    with subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as sweeper:
        pids = json.loads(sweeper.stdout.readline())
        trace.add(pids["known"], pids["stranger"])
        answer, _ = sweeper.communicate("go\n", timeout=20)
    report = json.loads(answer)
    assert report == {"killed": [pids["stranger"]], "left": [], "children": [pids["known"]]}
    assert trace.all_gone()
