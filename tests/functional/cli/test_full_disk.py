"""A log book on a disk that becomes full, and has room again."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ISOLATED = ["unshare", "--user", "--map-root-user", "--mount"]

PROGRAM = """
import json, os, subprocess, sys
from pathlib import Path
disk = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(disk)], check=True)
os.environ["XDG_STATE_HOME"] = str(disk)
from partyctl.logbook import Logs, logs_reader
logs = Logs("p")
logs.line("w", "before")
ballast = disk / "ballast"
with ballast.open("wb", buffering=0) as stream:
    try:
        while True:
            stream.write(bytes(1024))
    except OSError:
        pass
for number in range(200):
    logs.line("w", f"{number} " + "x" * 100)
assert logs.trouble == "No space left on device", logs.trouble
ballast.unlink()
logs.line("w", "after")
assert logs.trouble == ""
logs.close()
lines = (disk / "partyctl/p/logs/000001.jsonl").read_bytes().splitlines()
print(json.dumps([json.loads(line) for line in lines]))
assert logs_reader("p").read() == [json.loads(line) for line in lines]
"""


def test_a_full_disk_costs_lines_and_tells_how_many(tmp_path: Path) -> None:
    if (
        shutil.which("unshare") is None
        or subprocess.run([*ISOLATED, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("needs a mount namespace of its own")
    command = [*ISOLATED, sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr

    records = json.loads(done.stdout)
    texts = [record["text"].split()[0] for record in records]
    (told,) = [number for number, record in enumerate(records) if record.get("mark") == "dropped"]
    assert texts[:told] == ["before", *map(str, range(told - 1))]
    assert records[told]["dropped"] == 200 - (told - 1)
    assert records[told]["text"] == "No space left on device"
    assert texts[told + 1 :] == ["after"]
