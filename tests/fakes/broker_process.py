"""A real broker in a process of its own, as its host has it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgpack

from partyctl_base.channel import Channel

SECRET = bytes(range(32))
"""The secret of principal `p`."""
LIMIT = 10.0
"""Seconds any single wait may take."""


class BrokerProcess:
    """A broker in its own process, and the host's end of its control channel."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "broker.sock"
        self.endpoint = f"ipc://{self.path}"
        self.told: list[dict[str, Any]] = []
        """What it said of itself, unasked."""
        self.process: subprocess.Popen[bytes] | None = None
        self.control: Channel | None = None

    def start(
        self,
        *,
        host_pid: int | None = None,
        principals: bool = True,
        arguments: tuple[str, ...] = ("--hold", "0"),
        files: int = 0,
    ) -> "BrokerProcess":
        """Start it, admit principal `p` to everything below a few prefixes, wait until it is ready."""
        self.control, theirs = Channel.pair()
        if principals:
            self.admit("p", SECRET, ["run/*", "node/*", "desk/*"])
        with open(theirs.detach(), "rb", buffering=0) as inherited:
            command = [sys.executable, "-m", "partyctl_broker", "--endpoint", self.endpoint]
            command += ["--control-fd", str(inherited.fileno()), "--host-pid", str(host_pid or os.getpid()), *arguments]
            limit = ["prlimit", f"--nofile={files}:{files}"] if files else []
            self.process = subprocess.Popen([*limit, *command], pass_fds=[inherited.fileno()])
        assert self.hear()["t"] == "ready"
        return self

    def tell(self, **message: object) -> None:
        assert self.control is not None
        self.control.send(msgpack.packb(message), timeout=LIMIT)

    def hear(self) -> dict[str, Any]:
        assert self.control is not None
        received = self.control.receive(timeout=LIMIT)
        assert received is not None, "the broker closed its control channel"
        message: dict[str, Any] = msgpack.unpackb(received.data)
        return message

    def admit(self, name: str, secret: bytes, claims: list[str]) -> None:
        self.tell(t="principal", name=name, secret=secret, claims=claims)

    def stats(self) -> dict[str, Any]:
        self.tell(t="stats")
        while (message := self.hear())["t"] != "stats":
            self.told.append(message)
        return message

    @property
    def memory(self) -> int:
        """Bytes of its resident memory."""
        assert self.process is not None
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def stop(self) -> int:
        self.tell(t="stop")
        return self.wait()

    def wait(self) -> int:
        assert self.process is not None
        return self.process.wait(LIMIT)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.wait()

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
        if self.control is not None:
            self.control.close()
