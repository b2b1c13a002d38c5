"""A program that knows nothing of us: writes what it finds around itself to its channel, descriptor 3."""

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

status = Path("/proc/self/status").read_text(encoding="ascii")
found = {
    "arguments": sys.argv[1:],
    "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")),
    "sid": os.getsid(0),
    "pid": os.getpid(),
    "environment": dict(os.environ),
    "no_new_privileges": "NoNewPrivs:\t1" in status,
    "ignored": int(next(x for x in status.splitlines() if x.startswith("SigIgn")).split()[1], 16),
    "defaults": signal.getsignal(signal.SIGTERM) == signal.SIG_DFL,
}
with socket.socket(fileno=3) as channel:
    channel.setblocking(True)
    channel.send(b"\0" + json.dumps(found).encode())
    print("it printed", flush=True)
    if sys.argv[1:] == ["stay"]:
        time.sleep(60)
