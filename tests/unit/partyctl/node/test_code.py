"""The node's side of a code host, against one that is a task."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from fakes.launcher import FakeLauncher, FakeWorker
from fakes.quiet import quietly

from partyctl.errors import CodeHostLost, ProgramError, RunFailed
from partyctl.maps import Map, pack, unpack
from partyctl.node.code import IMPORT_LIMIT, CodeHost, Program

PROGRAM = Program("/dir/mine.py", "d", "/dir")
ADMISSION: Map = {"endpoint": "ipc://x", "principal": "code-1", "secret": b"s"}


class Importing:
    """A code host's part: what it answers to each kind of order. None: nothing; "exit": it ends."""

    def __init__(self, **answers: object) -> None:
        self.answers: dict[str, object] = {"import": {"t": "imported"}} | answers
        self.orders: list[Map] = []

    async def __call__(self, worker: FakeWorker) -> None:
        while not worker.exited and (received := await worker.channel.receive()) is not None:
            order = unpack(received.data)
            self.orders.append(order)
            answer = self.answers.get(str(order["t"]))
            if isinstance(answer, dict):
                await worker.says(pack({"run": order.get("run", "")} | answer))
            elif isinstance(answer, bytes):
                await worker.says(answer)
            elif answer == "exit":
                await worker.exits(9, stderr=b"Traceback\nlast words")


def coding(play: Importing, work: Callable[[FakeLauncher], Awaitable[None]]) -> FakeLauncher:
    async def code() -> FakeLauncher:
        launcher = FakeLauncher(play)
        try:
            await work(launcher)
        finally:
            await launcher.close()
        return launcher

    return quietly(code())


def test_a_code_host_imports_answers_and_is_ended() -> None:
    playing = Importing(run={"t": "planned", "plan": {}})

    async def work(launcher: FakeLauncher) -> None:
        host = await CodeHost.start(launcher.client, PROGRAM, ADMISSION)
        assert host.principal == "code-1"
        planned = await host.ask("run-1", {"t": "run", "run": "run-1"}, limit=1.0)
        assert planned == {"t": "planned", "run": "run-1", "plan": {}}
        await host.end()
        assert launcher.workers[0].exited

    coding(playing, work)
    assert playing.orders[0]["digest"] == "d"
    assert playing.orders[0]["secret"] == b"s"


def test_answers_to_two_runs_are_told_apart() -> None:
    async def work(launcher: FakeLauncher) -> None:
        host = await CodeHost.start(launcher.client, PROGRAM, ADMISSION)
        asked = [asyncio.ensure_future(host.ask(run, {"t": "start", "run": run}, limit=None)) for run in ("a", "b")]
        await asyncio.sleep(0.1)
        for run in ("b", "a", "nobody"):
            await launcher.workers[0].says(pack({"t": "played", "run": run}))
        assert [answer["run"] for answer in await asyncio.gather(*asked)] == ["a", "b"]
        await host.end()

    coding(Importing(), work)


def test_an_import_that_fails_is_told_with_its_exit_code_and_leaves_no_process() -> None:
    async def work(launcher: FakeLauncher) -> None:
        with pytest.raises(RunFailed, match="no such module") as caught:
            await CodeHost.start(launcher.client, PROGRAM, ADMISSION)
        assert caught.value.code == 7
        assert launcher.workers[0].exited

    coding(Importing(**{"import": {"t": "failed", "error": "no such module", "code": 7}}), work)


def test_an_import_that_hangs_is_ended_at_its_limit() -> None:
    async def work(launcher: FakeLauncher) -> None:
        began = asyncio.get_running_loop().time()
        with pytest.raises(ProgramError, match="not imported within"):
            await CodeHost.start(launcher.client, PROGRAM, ADMISSION)
        assert asyncio.get_running_loop().time() - began < IMPORT_LIMIT + 1
        assert launcher.workers[0].exited

    coding(Importing(**{"import": None}), work)


def test_an_import_that_ends_the_process_is_told_with_its_status_and_last_words() -> None:
    async def work(launcher: FakeLauncher) -> None:
        with pytest.raises(CodeHostLost, match="exited with status 9") as caught:
            await CodeHost.start(launcher.client, PROGRAM, ADMISSION)
        assert "last words" in str(caught.value)

    coding(Importing(**{"import": "exit"}), work)


def test_a_code_host_that_dies_later_fails_the_runs_that_have_it() -> None:
    async def work(launcher: FakeLauncher) -> None:
        host = await CodeHost.start(launcher.client, PROGRAM, ADMISSION)
        with pytest.raises(CodeHostLost, match="exited with status 9"):
            await host.ask("run-1", {"t": "start", "run": "run-1"}, limit=None)
        await host.end()

    coding(Importing(start="exit"), work)


@pytest.mark.parametrize("junk", [b"", b"\xc1", b"\x90"])
def test_one_that_sends_no_message_is_ended(junk: bytes) -> None:
    async def work(launcher: FakeLauncher) -> None:
        host = await CodeHost.start(launcher.client, PROGRAM, ADMISSION)
        with pytest.raises(CodeHostLost):
            await host.ask("run-1", {"t": "start", "run": "run-1"}, limit=None)
        assert host.is_lost
        assert launcher.workers[0].exited
        await host.end()

    coding(Importing(start=junk), work)


@pytest.mark.parametrize("reply", [{"t": "failed"}, {"t": "failed", "error": 3, "code": "x"}])
def test_a_failure_of_the_wrong_shape_is_a_failure_still(reply: Map) -> None:
    async def work(launcher: FakeLauncher) -> None:
        host = await CodeHost.start(launcher.client, PROGRAM, ADMISSION)
        with pytest.raises(RunFailed) as caught:
            await host.ask("run-1", {"t": "start", "run": "run-1"}, limit=None)
        assert caught.value.code == 1
        await host.end()

    coding(Importing(start=reply), work)
