"""The control socket: hellos, requests of any shape, callers who leave, and how many may come."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from pathlib import Path

import pytest
from fakes.quiet import quietly

from partyctl.errors import HostError
from partyctl.host import doors as doors_module
from partyctl.host.doors import Caller, Doors
from partyctl.maps import Map, pack, unpack
from partyctl_base.aio import AsyncChannel
from partyctl_base.channel import Channel


async def echo(caller: Caller, request: Map) -> None:
    await caller.reply({"t": "echoed", "said": request.get("said")})


async def fail(caller: Caller, request: Map) -> None:
    raise HostError("it cannot be done", why="because")


async def wait(caller: Caller, request: Map) -> None:
    await asyncio.Event().wait()


def serving(directory: Path, work: Callable[[], Awaitable[None]]) -> None:
    async def serve() -> None:
        doors = Doors(directory, "p", {"echo": echo, "fail": fail, "wait": wait})
        try:
            await work()
        finally:
            await doors.close()
        assert not (directory / "control.sock").exists()

    quietly(serve())


class Visitor:
    """A caller."""

    def __init__(self, directory: Path) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.connect(str(directory / "control.sock"))
        self.channel = AsyncChannel(Channel(sock))

    async def says(self, data: Map | bytes, fds: tuple[int, ...] = ()) -> Map | None:
        """Say something; the next answer, None if the door is closed."""
        await self.channel.send(data if isinstance(data, bytes) else pack(data), fds)
        received = await self.channel.receive()
        return None if received is None else unpack(received.data)


def test_a_hello_is_answered_with_version_release_pid_and_party(runtime: Path) -> None:
    async def visit() -> None:
        visitor = Visitor(runtime)
        hello = await visitor.says({"t": "hello", "version": 1})
        told = {"version": 1, "release": version("partyctl"), "pid": os.getpid(), "party": "p", "config": ""}
        assert hello == {"t": "hello"} | told
        visitor.channel.close()

    serving(runtime, visit)


@pytest.mark.parametrize(
    "request_", [b"", b"\xc1", b"\x90", pack({}), pack({"t": "nothing"}), pack({"t": [1]}), pack({"t": None})]
)
def test_what_is_no_request_is_refused_and_the_next_one_answered(request_: bytes, runtime: Path) -> None:
    async def visit() -> None:
        visitor = Visitor(runtime)
        await visitor.says({"t": "hello"})
        refusal = await visitor.says(request_)
        assert refusal is not None
        assert refusal["t"] == "failed"
        assert await visitor.says({"t": "echo", "said": 1}) == {"t": "echoed", "said": 1}
        visitor.channel.close()

    serving(runtime, visit)


def test_an_error_of_ours_is_told_to_the_caller(runtime: Path) -> None:
    async def visit() -> None:
        visitor = Visitor(runtime)
        await visitor.says({"t": "hello"})
        assert await visitor.says({"t": "fail"}) == {"t": "failed", "error": "it cannot be done: because"}
        visitor.channel.close()

    serving(runtime, visit)


def test_a_caller_who_says_nothing_is_shown_out(runtime: Path) -> None:
    async def visit() -> None:
        visitor = Visitor(runtime)
        assert await visitor.channel.receive() is None
        visitor.channel.close()

    serving(runtime, visit)


def test_descriptors_that_nobody_asked_for_are_closed(runtime: Path) -> None:
    async def visit() -> None:
        visitor = Visitor(runtime)
        null = os.open(os.devnull, os.O_RDONLY)
        await visitor.says({"t": "hello"}, (null,))
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            await visitor.says({"t": "echo"}, (null, null))
        assert len(os.listdir("/proc/self/fd")) == before
        os.close(null)
        visitor.channel.close()

    serving(runtime, visit)


def test_one_caller_too_many_is_turned_away_and_a_place_becomes_free(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doors_module, "CALLERS_MAX", 2)

    async def visit() -> None:
        inside = [Visitor(runtime) for _ in range(2)]
        for visitor in inside:
            await visitor.says({"t": "hello"})
        outside = Visitor(runtime)
        assert await outside.channel.receive() is None
        for visitor in (*inside, outside):
            visitor.channel.close()
        await asyncio.sleep(0.1)
        again = Visitor(runtime)
        assert await again.says({"t": "hello"}) is not None
        again.channel.close()

    serving(runtime, visit)


def test_a_caller_who_leaves_before_the_answer_disturbs_nobody(runtime: Path) -> None:
    async def visit() -> None:
        visitor = Visitor(runtime)
        await visitor.says({"t": "hello"})
        await visitor.channel.send(pack({"t": "echo"}))
        visitor.channel.close()
        await asyncio.sleep(0.1)

    serving(runtime, visit)


def test_closing_ends_a_caller_who_waits(runtime: Path) -> None:
    async def close() -> None:
        doors = Doors(runtime, "p", {"wait": wait})
        visitor = Visitor(runtime)
        await visitor.says({"t": "hello"})
        await visitor.channel.send(pack({"t": "wait"}))
        await asyncio.sleep(0.1)
        await doors.close()
        assert await visitor.channel.receive() is None
        visitor.channel.close()

    quietly(close())
