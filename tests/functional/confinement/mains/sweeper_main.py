"""A subreaper that sweeps its children but one: prints the pids of both, and who was left."""

import json
import os
import signal
import sys
import time

from partyctl_base import process
from partyctl_confinement.reaper import sweep_children


def stubborn() -> int:
    """A child that ignores TERM, in a session of its own."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.setsid()
        os.write(writing, b"x")
        time.sleep(60)
        os._exit(0)
    os.read(reading, 1)
    return pid


process.set_child_subreaper()
known, stranger = stubborn(), stubborn()
print(json.dumps({"known": known, "stranger": stranger}), flush=True)
sys.stdin.readline()
swept = sweep_children({known})
print(json.dumps({"killed": swept.killed, "left": swept.left, "children": process.children(os.getpid())}), flush=True)
os.kill(known, signal.SIGKILL)
