"""A host that is nothing but a lock and a control socket, in a process of its own.

Run as a program it is the host; imported it gives `FakeHost`, which starts and ends one.
"""

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import msgpack

from partyctl.config import PartyConfig
from partyctl.config_text import fingerprint

STATUS = {
    "schema_version": 1,
    "party": "p",
    "pid": 4711,
    "started": "2026-01-01T00:00:00+00:00",
    "uptime": 63.5,
    "state": "ready",
    "confinement": "unconfined",
    "lost": None,
    "gave_up": [],
    "books": {"logs": None, "events": None},
    "listen": None,
    "broker": {"pid": 11, "state": "ready", "memory": 20971520, "restarts": 0},
    "launcher": {"pid": 12, "state": "ready", "memory": 10485760, "restarts": 2},
    "nodes": [{"name": "node/0", "pid": 13, "state": "ready", "memory": 1048576, "runs": 1}],
    "workers": [
        {
            "id": "w-1",
            "name": "Writer-of-a-rather-long-name-that-nobody-may-cut-off",
            "role": "Writer",
            "run": "run-0123456789abcdef",
            "provider": "scripted",
            "pid": 14,
            "state": "turn",
            "memory": 2097152,
            "confinement": "unconfined",
            "node": "node/0",
        }
    ],
    "runs": [{"id": "run-0123456789abcdef", "node": "node/0", "state": "running", "roles": ["Writer", "Reviewer"]}],
    "sessions": [],
}


class FakeHost:
    """A fake host in a child process; a context manager that always ends it.

    Args:
        directory: the party's runtime directory.
        behaviour: "answers", "silent" (accepts, says nothing), "doorless" (holds the lock, has no socket), "foreign"
            (another protocol version), "older" (another release), "mumbles" (answers the hello with something else),
            "hangs up" (closes after the hello), "babbles" (answers what is no message), "stays" (accepts down and goes
            on).
        status: the status document it gives.
    """

    def __init__(self, directory: Path, behaviour: str = "answers", status: dict[str, object] | None = None) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(directory), behaviour, json.dumps(status or STATUS)], stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], 20)
        assert ready, "the fake host did not start"
        assert self._process.stdout.readline() == b"up\n"
        self.pid = self._process.pid

    def stop(self) -> None:
        """Freeze it, as SIGSTOP does."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def kill(self) -> None:
        """kill -9, and reap."""
        self._process.kill()
        self._process.wait(10)

    def __enter__(self) -> "FakeHost":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        assert self._process.stdout is not None
        self._process.stdout.close()


class _Program:
    def __init__(self, directory: Path, behaviour: str, status: dict[str, object]) -> None:
        self.behaviour = behaviour
        self.status = status
        self.lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        text = {"pid": os.getpid(), "party": directory.name, "started": "2026-01-01T00:00:00+00:00"}
        os.ftruncate(self.lock, 0)
        os.pwrite(self.lock, json.dumps(text).encode(), 0)
        self.path = directory / "control.sock"
        self.path.unlink(missing_ok=True)

    def run(self) -> None:
        if self.behaviour == "doorless":
            print("up", flush=True)
            time.sleep(60)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(str(self.path))
        listener.listen(8)
        print("up", flush=True)
        for _ in range(100):
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                self.serve(connection)

    def serve(self, connection: socket.socket) -> None:
        while record := connection.recv(65536):
            request = msgpack.unpackb(record[1:])
            if self.behaviour == "silent":
                time.sleep(60)
            if request["t"] == "hello":
                hello = {"t": "hello", "version": 1, "pid": os.getpid(), "party": "p"}
                hello |= {"release": version("partyctl"), "config": fingerprint(PartyConfig())}
                if self.behaviour == "foreign":
                    hello |= {"version": 99, "release": "9.9"}
                if self.behaviour == "older":
                    hello["release"] = "0.0.9"
                if self.behaviour == "mumbles":
                    hello = {"t": "er"}
                self.say(connection, hello)
                if self.behaviour == "hangs up":
                    return
            elif self.behaviour == "babbles":
                connection.send(b"\x00\xc1")
            elif request["t"] == "status":
                read, write = os.pipe()
                self.say(connection, {"t": "status", "status": self.status}, [read])
                os.close(read)
                os.close(write)
            elif request["t"] == "wait":
                self.say(connection, {"t": "ready"})
            elif request["t"] == "down":
                self.say(connection, {"t": "progress", "text": f"waiting for run r1, now={request['now']}"})
                if self.behaviour == "stays":
                    continue
                self.say(connection, {"t": "done"})
                self.path.unlink()
                os._exit(0)

    @staticmethod
    def say(connection: socket.socket, message: dict[str, object], fds: list[int] | None = None) -> None:
        socket.send_fds(connection, [b"\x00" + msgpack.packb(message)], fds or [])


if __name__ == "__main__":
    _Program(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])).run()
