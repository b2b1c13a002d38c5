"""Whoever is killed with -9, no process is left: each worker here has daemons that setsid and ignore TERM."""

import asyncio
import json
import os
import signal
import time

import pytest

from partyctl_base.process import children
from partyctl_confinement.reaper import reap_records


async def _with_orphans(hired, trace, launcher):
    await hired.channel.send(os.fsencode(trace.directory))
    assert (await hired.channel.receive()).data == b"ready"
    trace.add(hired.pid)
    trace.add_written()
    assert len(trace.alive()) == 7


@pytest.fixture
def scenario(launcher, trace, connect, hire):
    """Runs an action on a worker that left orphans; its exit notice."""

    def run(action):
        async def play():
            async with connect(launcher) as client, hire(client, "leaves_orphans") as hired:
                await _with_orphans(hired, trace, launcher)
                await action(client, hired)
                notice = await hired.exited()
                assert trace.all_gone()
                return notice

        return asyncio.run(asyncio.wait_for(play(), 30))

    return run


def test_killing_the_worker_from_outside_leaves_nothing(scenario, trace) -> None:
    async def action(client, hired):
        os.kill(hired.pid, signal.SIGKILL)

    notice = scenario(action)
    assert (notice.signal, notice.status, notice.cause) == (signal.SIGKILL, None, "exit")
    assert notice.describe() == "killed by SIGKILL"


def test_the_exit_notice_comes_after_the_whole_tree_is_gone(launcher, trace, connect, hire) -> None:
    async def play():
        async with connect(launcher) as client, hire(client, "leaves_orphans") as hired:
            await _with_orphans(hired, trace, launcher)
            os.kill(hired.pid, signal.SIGKILL)
            await hired.exited()
            assert trace.alive() == []

    asyncio.run(asyncio.wait_for(play(), 30))


def test_killing_the_worker_by_request_leaves_nothing(scenario) -> None:
    async def action(client, hired):
        await hired.kill()

    assert scenario(action).cause == "killed"


def test_a_worker_that_ends_by_itself_leaves_nothing(scenario) -> None:
    async def action(client, hired):
        hired.channel.close()

    notice = scenario(action)
    assert (notice.status, notice.cause) == (0, "exit")


def test_closing_the_client_leaves_nothing(scenario) -> None:
    async def action(client, hired):
        await client.close()

    assert scenario(action).cause == "client-closed"


def test_stopping_the_launcher_leaves_nothing(scenario, launcher) -> None:
    async def action(client, hired):
        await asyncio.to_thread(launcher.stop)

    assert scenario(action).cause == "stop"


def test_a_process_that_forks_its_successor_over_and_over_is_caught(launcher, trace, connect, hire) -> None:
    async def play():
        async with connect(launcher) as client, hire(client, "runs_away") as hired:
            await hired.channel.send(os.fsencode(trace.directory))
            assert (await hired.channel.receive()).data == b"ready"
            await hired.kill()

    asyncio.run(asyncio.wait_for(play(), 30))
    latest = trace.directory / "runner.latest"
    first = latest.read_text(encoding="ascii")
    assert trace.all_gone()
    assert not _changes(latest, first)


def test_the_same_runner_is_caught_when_its_worker_is_killed_from_outside(launcher, trace, connect, hire) -> None:
    async def play():
        async with connect(launcher) as client, hire(client, "runs_away") as hired:
            await hired.channel.send(os.fsencode(trace.directory))
            assert (await hired.channel.receive()).data == b"ready"
            os.kill(hired.pid, signal.SIGKILL)
            await hired.exited()

    asyncio.run(asyncio.wait_for(play(), 30))
    latest = trace.directory / "runner.latest"
    assert not _changes(latest, latest.read_text(encoding="ascii"))


def test_what_a_shell_started_in_a_worker_goes_with_it_setsid_or_not(launcher, trace, connect, hire) -> None:
    """cc-connect#925: sh and npx launchers leave their children behind when the CLI is killed."""

    async def play():
        async with connect(launcher) as client, hire(client, "leaves_shell_children") as hired:
            await hired.channel.send(os.fsencode(trace.directory))
            assert (await hired.channel.receive()).data == b"ready"
            trace.add(hired.pid)
            trace.add_written()
            assert len(trace.alive()) == 4
            await hired.kill()
            assert trace.alive() == []

    asyncio.run(asyncio.wait_for(play(), 30))


def test_fifty_workers_with_double_forking_children_leave_no_zombie(launcher, connect) -> None:
    """openab#449: 303 zombies below a process that nobody reaps for."""

    async def play():
        async with connect(launcher) as client:
            for number in range(50):
                hired = await client.spawn(name=f"w{number}", main="worker_mains:double_forks")
                assert (await hired.exited()).status == 0
                hired.channel.close()

    asyncio.run(asyncio.wait_for(play(), 60))
    assert children(launcher.pid) == []


@pytest.mark.parametrize("mode", ["fork", "exec"])
def test_a_worker_that_lives_long_keeps_no_zombies_and_loses_no_status_of_its_own_children(
    launcher, connect, mode
) -> None:
    async def play():
        async with connect(launcher) as client:
            hired = await client.spawn(name="w", main="worker_mains:loses_children", mode=mode)
            counts = []
            for _ in range(6):
                await hired.channel.send(b"go on")
                counts.append(json.loads((await hired.channel.receive()).data))
            hired.channel.close()
            return counts, await hired.exited()

    counts, notice = asyncio.run(asyncio.wait_for(play(), 60))
    assert counts == [3] * 6  # those of the last request only
    assert notice.status == 7


def _changes(path, before) -> bool:
    stop_at = time.monotonic() + 0.2
    while time.monotonic() < stop_at:
        if path.read_text(encoding="ascii") != before:
            return True
        time.sleep(0.01)
    return False


@pytest.fixture
def pids(host, trace):
    """The launcher and the worker of the host, all of them and their orphans traced."""
    pids = json.loads(host.stdout.readline())
    trace.add(host.pid, pids["launcher"], pids["worker"])
    trace.add_written()
    assert len(trace.alive()) == 9
    return pids


def test_killing_the_host_leaves_nothing(host, pids, trace) -> None:
    os.kill(host.pid, signal.SIGKILL)
    host.wait()
    assert trace.all_gone()


def test_killing_the_launcher_leaves_nothing_for_its_host_sweeps(host, pids, trace) -> None:
    os.kill(pids["launcher"], signal.SIGKILL)
    report = json.loads(host.stdout.readline())
    assert report["cause"] == "launcher-lost"
    assert report["left"] == []
    assert host.wait(10) == 0
    assert trace.all_gone()


def test_killing_the_hosts_worker_leaves_its_launcher_and_nothing_else(host, pids, trace) -> None:
    os.kill(pids["worker"], signal.SIGKILL)
    report = json.loads(host.stdout.readline())
    assert report["cause"] == "exit"
    assert host.wait(10) == 0
    assert trace.all_gone()


def test_host_and_launcher_killed_in_one_instant_leave_no_worker_and_no_record_that_misleads(
    host, pids, trace, directory
) -> None:
    """Their daemons are what docs/ownership.md gives as its limit: they hang below init, and `trace` ends them."""
    os.kill(host.pid, signal.SIGSTOP)
    os.kill(pids["launcher"], signal.SIGSTOP)  # so that neither sweeps for the other
    os.kill(pids["launcher"], signal.SIGKILL)
    os.kill(host.pid, signal.SIGKILL)
    host.wait()
    deadline = time.monotonic() + 10
    while pids["worker"] in trace.alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not {host.pid, pids["launcher"], pids["worker"]} & set(trace.alive())
    reaped = reap_records(directory / "records")
    assert (reaped.stale, reaped.killed, reaped.left) == ((pids["worker"],), (), ())
    assert list((directory / "records").iterdir()) == []
