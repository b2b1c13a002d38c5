"""Disks that become full or read-only, and have room again: under a log book, and under a party that starts or runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.disks import carried_out

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


PARTY = """
import json, os, subprocess, sys, time
from pathlib import Path
root = Path(sys.argv[1])
run, state = root / "run", root / "state"
for disk in (run, state):
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "none", str(disk)], check=True)
os.environ.update(PARTYCTL_RUNTIME_DIR=str(run), XDG_STATE_HOME=str(state), HOME=str(root))

def partyctl(*words):
    command = [sys.executable, "-P", "-m", "partyctl", *words]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=40, stdin=subprocess.DEVNULL)

def fill(disk):
    with (disk / "ballast").open("wb", buffering=0) as stream:
        try:
            while True:
                stream.write(bytes(256))
        except OSError:
            pass

def status():
    return json.loads(partyctl("status", "--json").stdout)

def kill_node():
    restarts = status()["nodes"][0]["restarts"]
    os.kill(status()["nodes"][0]["pid"], 9)
    while (node := status()["nodes"][0])["state"] != "ready" or node["restarts"] == restarts:
        time.sleep(0.05)

said = []
fill(run)
said.append(partyctl("up", "--nodes", "1"))
(run / "ballast").unlink()
subprocess.run(["mount", "-o", "remount,ro", str(run)], check=True)
said.append(partyctl("up", "--nodes", "1"))
subprocess.run(["mount", "-o", "remount,rw", str(run)], check=True)
refused = [(done.returncode, done.stderr) for done in said]
# A file grows by whole pages: the start of the party is to find room in one that is there, the next event none.
from partyctl.logbook import Events
events = Events("default")
events.record("before", "party")
size = sum(path.stat().st_size for path in state.rglob("*.jsonl"))
events.record("before", "party", cause="y" * (4096 - 300 - 2 * size))
events.close()
up = partyctl("up", "--wait", "--nodes", "1")
assert up.returncode == 0, up
try:
    fill(state)
    kill_node()
    full = (status()["books"], partyctl("status", "--check").returncode, partyctl("status").stdout)
    (state / "ballast").unlink()
    kill_node()
    room = (status()["books"], partyctl("status", "--check").returncode)
finally:
    down = partyctl("down", "--now")
assert down.returncode == 0, down
print(json.dumps({"refused": refused, "full": full, "room": room, "events": partyctl("events").stdout}))
"""


READ_ONLY = """
import json, os, subprocess, sys
from pathlib import Path
state = Path(sys.argv[1]) / "state"
os.umask(0o077)
(state / "partyctl" / "default").mkdir(parents=True)
subprocess.run(["mount", "--bind", str(state), str(state)], check=True)
subprocess.run(["mount", "-o", "remount,bind,ro", str(state)], check=True)
os.environ.update(PARTYCTL_RUNTIME_DIR=str(Path(sys.argv[1]) / "run"), XDG_STATE_HOME=str(state), HOME=sys.argv[1])
command = [sys.executable, "-P", "-m", "partyctl", "up", "-d", "--wait"]
up = subprocess.run(command, cwd=sys.argv[1], capture_output=True, text=True, timeout=40, stdin=subprocess.DEVNULL)
print(json.dumps([up.returncode, up.stderr]))
"""


@pytest.fixture
def isolated(tmp_path: Path) -> Callable[[str], Any]:
    """Runs a program that may mount; what it prints, which is JSON."""
    return lambda program: carried_out(program, tmp_path)


def test_a_party_on_a_full_disk_says_so_and_recovers_when_there_is_room(isolated: Callable[[str], Any]) -> None:
    told = isolated(PARTY)
    (full, why_full), (read_only, why_read_only) = told["refused"]
    assert (full, read_only) == (1, 1)
    assert "No space left on device" in why_full
    assert "Read-only file system" in why_read_only
    assert "Traceback" not in why_full + why_read_only

    books, code, shown = told["full"]
    assert books == {"logs": "No space left on device", "events": "No space left on device"}
    assert code == 6
    assert "! events are not kept: No space left on device" in shown
    assert told["room"] == [{"logs": None, "events": None}, 0]
    assert "dropped events: No space left on device (dropped=" in told["events"]


def test_a_state_directory_that_is_read_only_refuses_a_detached_start(isolated: Callable[[str], Any]) -> None:
    code, told = isolated(READ_ONLY)
    assert code == 7
    assert told.startswith("partyctl: error: the host's log cannot be written (")
    assert "host.log): Read-only file system. Make room or make it writable" in told
    assert told.count("\n") == 1


def test_a_full_disk_costs_lines_and_tells_how_many(isolated: Callable[[str], Any]) -> None:
    records = isolated(PROGRAM)
    texts = [record["text"].split()[0] for record in records]
    (told,) = [number for number, record in enumerate(records) if record.get("mark") == "dropped"]
    assert texts[:told] == ["before", *map(str, range(told - 1))]
    assert records[told]["dropped"] == 200 - (told - 1)
    assert records[told]["text"] == "No space left on device"
    assert texts[told + 1 :] == ["after"]
