"""Hiring workers while things go wrong with the launcher or with whoever hires."""

import asyncio
import contextlib
import os
import signal

import pytest

from partyctl_confinement.errors import LauncherLost, SpawnRefused, SpawnTimedOut


def _play(scenario) -> None:
    asyncio.run(asyncio.wait_for(scenario, 30))


@contextlib.contextmanager
def _halted(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_the_death_of_the_launcher_ends_every_worker_and_says_whose_doing_it_was(
    launcher, trace, connect, hire
) -> None:
    async def scenario():
        async with connect(launcher) as client, hire(client, "echo") as one, hire(client, "echo") as two:
            trace.add(one.pid, two.pid)
            os.kill(launcher.pid, signal.SIGKILL)
            for hired in (one, two):
                notice = await hired.exited()
                assert (notice.status, notice.signal, notice.cause) == (None, None, "launcher-lost")
                assert notice.describe() == "lost with its launcher"
            with pytest.raises(LauncherLost):
                await client.spawn(name="late", main="worker_mains:echo")
            assert trace.all_gone()

    _play(scenario())


def test_a_spawn_that_waits_while_the_launcher_dies_fails(launcher, connect) -> None:
    async def scenario():
        async with connect(launcher) as client:
            with _halted(launcher.pid):
                asking = asyncio.create_task(client.spawn(name="x", main="worker_mains:echo"))
                await asyncio.sleep(0.05)
                os.kill(launcher.pid, signal.SIGKILL)
                with pytest.raises(LauncherLost):
                    await asking

    with contextlib.suppress(ProcessLookupError):
        _play(scenario())


def test_a_worker_that_comes_too_late_is_killed_unseen(launcher, connect, hire, wait_until) -> None:
    async def scenario():
        async with connect(launcher) as client:
            with _halted(launcher.pid), pytest.raises(SpawnTimedOut, match=r"within 0\.2 s.*not responding"):
                await client.spawn(name="late", main="worker_mains:echo", timeout=0.2)
            async with hire(client, "echo") as hired:
                for _ in range(100):
                    if [row.id for row in launcher.workers()] == [hired.id]:
                        return
                    await asyncio.sleep(0.02)
                raise AssertionError("the late worker still lives")

    _play(scenario())


@pytest.mark.parametrize("turns", range(6))
def test_a_cancelled_spawn_leaves_no_worker(launcher, connect, turns) -> None:
    async def scenario():
        async with connect(launcher) as client:
            asking = asyncio.create_task(client.spawn(name="x", main="worker_mains:echo"))
            await asyncio.sleep(turns * 0.001)
            asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                (await asking).channel.close()
                return
            for _ in range(100):
                if not launcher.workers():
                    return
                await asyncio.sleep(0.02)
            raise AssertionError("the worker nobody waited for still lives")

    _play(scenario())


def test_any_number_of_tasks_may_wait_for_an_end_and_one_of_them_may_give_up(launcher, connect, hire) -> None:
    async def scenario():
        async with connect(launcher) as client, hire(client, "echo") as hired:
            waiting = [asyncio.create_task(hired.exited()) for _ in range(3)]
            await asyncio.sleep(0)
            waiting[0].cancel()
            notice = await hired.kill()
            assert await hired.kill() == notice
            assert await asyncio.gather(*waiting[1:]) == [notice, notice]

    _play(scenario())


def test_a_refusal_carries_the_launchers_reason(launcher, connect) -> None:
    async def scenario():
        async with connect(launcher) as client:
            with pytest.raises(SpawnRefused, match="module:function"):
                await client.spawn(name="x", main="nothing")

    _play(scenario())


def test_a_closed_client_refuses_to_spawn(launcher, connect) -> None:
    async def scenario():
        async with connect(launcher) as client:
            await client.close()
            await client.close()
            with pytest.raises(LauncherLost, match="closed"):
                await client.spawn(name="x", main="worker_mains:echo")

    _play(scenario())


def test_two_hundred_workers_are_up_at_once_and_small(launcher, connect) -> None:
    async def scenario():
        async with connect(launcher) as client:
            crowd = await asyncio.gather(
                *(client.spawn(name=f"w{n}", main="worker_mains:echo", timeout=30) for n in range(200))
            )
            for hired in crowd:
                await hired.channel.send(b"hello")
            for hired in crowd:
                assert (await hired.channel.receive()).data == b"hello"
            assert len(launcher.workers()) == 200
            assert max(_proportional(hired.pid) for hired in crowd) <= 6 * 1024
            notices = await asyncio.gather(*(hired.kill() for hired in crowd))
            assert {notice.signal for notice in notices} == {signal.SIGKILL}
            for hired in crowd:
                hired.channel.close()

    _play(scenario())


def _proportional(pid: int) -> int:
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as rollup:
        return int(next(line for line in rollup if line.startswith("Pss:")).split()[1])
