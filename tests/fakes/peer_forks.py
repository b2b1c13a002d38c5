"""Peers in processes of their own that start in milliseconds: forked from one process that has imported everything."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

SECRET = bytes(range(32))


class PeerForks:
    """The process that forks peers.

    Args:
        endpoint: the broker's.
        directory: where peers write what they got, a line for each letter: {payload, at}.
    """

    def __init__(self, endpoint: str, directory: Path) -> None:
        command = [sys.executable, __file__, endpoint, str(directory)]
        self.directory = directory
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(self, name: str, kind: str, *arguments: str) -> int:
        """Fork a peer `kind`: log ADDRESS, echo ADDRESS, or flood ADDRESS DESTINATION COUNT SIZE; its pid."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([name, kind, *arguments]) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def lines(self, name: str) -> list[dict[str, float]]:
        """What a peer wrote; a line that its death cut short is none."""
        path = self.directory / name
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def close(self) -> None:
        """End it; its children end with it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


def main(endpoint: str, directory: str) -> None:
    import partyctl_broker.peer  # noqa: F401  (imported once, before any fork)

    children = []
    for line in sys.stdin:
        name, kind, *arguments = json.loads(line)
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            output = os.open(Path(directory) / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            asyncio.run(play(endpoint, output, kind, arguments))
            os._exit(0)
        children.append(child)
        print(child, flush=True)
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, 9)
        os.waitpid(child, 0)


class Logger:
    """Writes down each letter with one system call, so that its death keeps the line whole or leaves it out."""

    def __init__(self, output: int, *, echoes: bool) -> None:
        self.output, self.echoes = output, echoes
        self.mailbox = None

    def letter(self, letter) -> None:
        if self.echoes and self.mailbox is not None:
            self.mailbox.send(letter.source, letter.payload, letter.correlation)
        elif not self.echoes:
            self.write(payload=int(letter.payload))

    def write(self, **entry: float) -> None:
        os.write(self.output, (json.dumps(entry | {"at": time.monotonic()}) + "\n").encode())

    def undelivered(self, letter_id: int, destination: str, why: str) -> None:
        self.write(undelivered=letter_id)

    def gone(self, address: str, unknown: tuple[int, ...], why: str) -> None:
        pass

    def link_lost(self, why: str) -> None:
        pass


async def play(endpoint: str, output: int, kind: str, arguments: list[str]) -> None:
    from partyctl_broker import AddressTaken, BusFull
    from partyctl_broker.peer import ZmqBus

    bus = await ZmqBus.connect(endpoint, "p", SECRET)
    logger = Logger(output, echoes=kind == "echo")
    address, *more = arguments
    while logger.mailbox is None:
        with contextlib.suppress(AddressTaken):
            logger.mailbox = await bus.open(address, logger)
    if kind == "flood":
        destination, count, size = more[0], int(more[1]), int(more[2])
        taken = 0
        for number in range(count):
            try:
                logger.mailbox.send(destination, (b"%d" % number).rjust(size))
                taken += 1
            except BusFull:
                if number == taken:
                    logger.write(full_after=taken)
            if number % 100 == 0:
                await asyncio.sleep(0)
        logger.write(taken=taken, refused=count - taken)
    await asyncio.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
