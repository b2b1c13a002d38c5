"""Programs with small disks of their own, which nobody else sees."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ISOLATED = ["unshare", "--user", "--map-root-user", "--mount"]

SMALL_STATE = """
import json, os, subprocess, sys, time
from pathlib import Path
root = Path(sys.argv[1])
state = root / "state"
state.mkdir()
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "none", str(state)], check=True)
environment = {**os.environ, "PARTYCTL_RUNTIME_DIR": str(root / "run"), "XDG_STATE_HOME": str(state), "HOME": str(root)}

def fill():
    with (state / "ballast").open("wb", buffering=0) as stream:
        try:
            while True:
                stream.write(bytes(512))
        except OSError:
            pass

def empty():
    (state / "ballast").unlink()

"""
"""Begins a program whose state directory is a disk of 2 MiB: `root`, `state`, `environment`, `fill()`, `empty()`."""


def carried_out(program: str, root: Path) -> Any:
    """The JSON that a program prints which may mount disks; it is given `root`. Skips where nobody may."""
    if shutil.which(ISOLATED[0]) is None or subprocess.run([*ISOLATED, "true"], capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount a disk of his own")
    command = [*ISOLATED, sys.executable, "-c", program, str(root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
