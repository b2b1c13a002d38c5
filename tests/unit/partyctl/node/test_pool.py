"""Code hosts are shared by the runs of a program and end with the last of them, whatever happens meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from fakes.quiet import quietly

from partyctl.errors import ProgramError
from partyctl.node.code import Program
from partyctl.node.pool import CodeHosts

ONE, OTHER = Program("/one.py", "1", "/"), Program("/other.py", "2", "/")


class FakeHost:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.id = f"worker of {program.path}"
        self.is_lost = False


class Yard:
    """A pool whose code hosts take a second to start, and fail as often as it is told."""

    def __init__(self) -> None:
        self.started: list[FakeHost] = []
        self.ended: list[FakeHost] = []
        self.stopped_starts = 0
        self.failures = 0
        self.pool = CodeHosts(self.start, self.end)  # type: ignore[arg-type]

    async def start(self, program: Program) -> FakeHost:
        try:
            await asyncio.sleep(1.0)
        except asyncio.CancelledError:
            self.stopped_starts += 1
            raise
        if self.failures:
            self.failures -= 1
            raise ProgramError("it does not start")
        self.started.append(FakeHost(program))
        return self.started[-1]

    async def end(self, host: FakeHost) -> None:
        self.ended.append(host)

    async def run(self, program: Program, seconds: float = 1.0) -> object:
        async with self.pool.lend(program) as host:
            await asyncio.sleep(seconds)
            return host


def pooled(work: Callable[[Yard], Awaitable[None]]) -> Yard:
    async def pool() -> Yard:
        yard = Yard()
        await work(yard)
        await yard.pool.close()
        assert set(yard.ended) == set(yard.started)
        assert len(yard.ended) == len(yard.started)
        assert yard.pool.workers == []
        return yard

    return quietly(pool())


def test_runs_of_one_program_share_a_code_host_and_the_last_one_ends_it() -> None:
    async def work(yard: Yard) -> None:
        runs = [asyncio.ensure_future(yard.run(ONE, seconds)) for seconds in (1.0, 3.0)]
        await runs[0]
        assert yard.ended == []
        assert yard.pool.workers == [{"id": "worker of /one.py", "state": "ready"}]
        await runs[1]
        await asyncio.sleep(0.1)
        assert len(yard.ended) == 1

    assert len(pooled(work).started) == 1


def test_runs_of_two_programs_do_not() -> None:
    async def work(yard: Yard) -> None:
        await asyncio.gather(yard.run(ONE), yard.run(OTHER))

    assert len(pooled(work).started) == 2


def test_a_start_that_fails_is_told_to_all_who_wait_and_the_next_run_starts_anew() -> None:
    async def work(yard: Yard) -> None:
        yard.failures = 1
        outcomes = await asyncio.gather(*(yard.run(ONE) for _ in range(3)), return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {ProgramError}
        await yard.run(ONE)

    assert len(pooled(work).started) == 1


def test_a_run_that_is_cancelled_while_it_waits_leaves_the_start_to_the_others() -> None:
    async def work(yard: Yard) -> None:
        first, second = (asyncio.ensure_future(yard.run(ONE)) for _ in range(2))
        await asyncio.sleep(0.5)
        first.cancel()
        assert await second is yard.started[0]

    pooled(work)


def test_a_start_that_nobody_waits_for_any_more_is_cancelled() -> None:
    async def work(yard: Yard) -> None:
        run = asyncio.ensure_future(yard.run(ONE))
        await asyncio.sleep(0.5)
        run.cancel()
        await asyncio.wait((run,))
        await asyncio.sleep(0.1)
        assert yard.stopped_starts == 1

    assert pooled(work).started == []


def test_a_code_host_that_died_is_not_lent_again_though_others_still_have_it() -> None:
    async def work(yard: Yard) -> None:
        old = asyncio.ensure_future(yard.run(ONE, 5.0))
        await asyncio.sleep(1.5)
        yard.started[0].is_lost = True
        assert await yard.run(ONE) is yard.started[1]
        assert await old is yard.started[0]

    pooled(work)


def test_closing_cancels_starts_and_does_not_wait_for_ever() -> None:
    async def work(yard: Yard) -> None:
        run = asyncio.ensure_future(yard.run(ONE))
        await asyncio.sleep(0.5)
        await yard.pool.close()
        with pytest.raises(asyncio.CancelledError):
            await run

    assert pooled(work).stopped_starts == 1
