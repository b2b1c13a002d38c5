"""What a worker finds around itself, and how its end is told."""

import asyncio
import contextlib
import json
import os
import resource
import shutil
import signal
import time

import pytest

from partyctl_base.channel import ChannelClosed
from partyctl_confinement.errors import SpawnRefused


@pytest.fixture
def ending(launcher, connect, hire):
    """Hires a worker by main, sends it something, and gives its exit notice."""

    def run(main, data=b""):
        async def play():
            async with connect(launcher) as client, hire(client, main) as hired:
                if data:
                    await hired.channel.send(data)
                return await hired.exited()

        return asyncio.run(asyncio.wait_for(play(), 30))

    return run


@pytest.fixture
def report(launcher, connect, hire):
    async def play():
        async with connect(launcher) as client, hire(client, "describes_itself") as hired:
            return json.loads((await hired.channel.receive()).data)

    return asyncio.run(asyncio.wait_for(play(), 30))


def test_a_worker_has_its_own_session_a_private_umask_and_no_way_to_new_privileges(report, launcher) -> None:
    assert report["ppid"] == launcher.pid
    assert report["sid"] == report["pid"]
    assert report["umask"] == 0o077
    assert report["no_new_privileges"]
    assert report["directory"] == "/"


def test_a_worker_has_no_descriptor_but_its_standard_ones_and_the_channel(report) -> None:
    assert report["fds"] == [0, 1, 2, 3]
    assert report["stdin"] == ""


def test_a_worker_gets_the_allowed_environment_only(report) -> None:
    assert set(report["environment"]) == {"PATH", "LANG"}


def test_a_worker_cannot_read_what_the_launcher_was_started_with(report) -> None:
    assert report["first_environment"].strip("\0") == ""


def test_a_worker_may_open_as_many_files_as_the_host(report) -> None:
    assert report["nofile"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_a_worker_does_not_inherit_the_ignored_signals_of_the_launcher(report) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        assert not report["ignored"] & 1 << number - 1


def test_a_worker_shows_its_name_in_the_process_list(report) -> None:
    assert report["command"] == "partyctl: describes_itself"


def test_the_launcher_hands_on_one_thread_and_no_heavy_module(report) -> None:
    assert report["threads"] == 1
    heavy = {"asyncio", "zmq", "pydantic", "subprocess", "partyctl_confinement.client", "partyctl_confinement.control"}
    assert heavy.isdisjoint(report["modules"])


def test_what_main_returns_is_the_exit_status(ending) -> None:
    notice = ending("status_by_request", b"3")
    assert (notice.status, notice.signal, notice.cause) == (3, None, "exit")
    assert notice.describe() == "exited with status 3"


def test_system_exit_gives_the_status_and_what_was_printed_comes_along(ending) -> None:
    notice = ending("leaves_by_system_exit")
    assert (notice.status, notice.stderr) == (5, b"last words\n")


def test_an_end_without_ceremony_is_an_exit_status_too(ending) -> None:
    assert ending("leaves_at_once").status == 9


def test_an_exception_of_main_is_told_with_its_traceback(ending) -> None:
    notice = ending("raises")
    assert notice.status == 70
    assert b"RuntimeError: the worker's own mistake" in notice.stderr


@pytest.mark.parametrize("main", ["no_such_function", "floods.attribute"])
def test_a_main_that_does_not_exist_harms_nobody_else(launcher, connect, hire, main) -> None:
    async def play():
        async with connect(launcher) as client, hire(client, "echo") as neighbour:
            hired = await client.spawn(name="broken", main=f"worker_mains:{main.replace('.', '_')}")
            notice = await hired.exited()
            hired.channel.close()
            await neighbour.channel.send(b"still here")
            assert (await neighbour.channel.receive()).data == b"still here"
            return notice

    notice = asyncio.run(asyncio.wait_for(play(), 30))
    assert notice.status == 70
    assert b"AttributeError" in notice.stderr


def test_the_last_words_come_before_the_end_of_file(launcher, connect, hire) -> None:
    async def play():
        async with connect(launcher) as client, hire(client, "echo") as hired:
            await hired.channel.send(b"x" * 1_000_000)
            assert len((await hired.channel.receive()).data) == 1_000_000
            await hired.kill()
            assert await hired.channel.receive() is None

    asyncio.run(asyncio.wait_for(play(), 30))


def test_the_last_words_arrive_though_the_worker_left_something_unread(launcher, connect) -> None:
    async def play():
        async with connect(launcher) as client:
            for _ in range(20):
                hired = await client.spawn(name="deaf", main="worker_mains:shows_limits")
                with contextlib.suppress(ChannelClosed):  # it may be faster
                    await hired.channel.send(b"nobody reads this")
                assert (await hired.channel.receive()) is not None
                await hired.exited()
                hired.channel.close()

    asyncio.run(asyncio.wait_for(play(), 60))


def test_a_worker_may_close_its_output_and_live_on(launcher, connect, hire) -> None:
    async def play():
        async with connect(launcher) as client, hire(client, "closes_its_output") as hired:
            await hired.channel.send(b"hello")
            assert (await hired.channel.receive()).data == b"hello"
            return await hired.kill()

    notice = asyncio.run(asyncio.wait_for(play(), 30))
    assert (notice.signal, notice.stderr) == (signal.SIGKILL, b"")


def test_a_flood_of_output_is_drained_in_bounded_memory_while_others_are_served(launcher, connect, hire) -> None:
    async def play():
        before = _resident(launcher.pid)
        async with connect(launcher) as client, hire(client, "floods") as flooding:
            async with hire(client, "echo") as neighbour:
                await neighbour.channel.send(b"hello")
                assert (await neighbour.channel.receive()).data == b"hello"
            notice = await flooding.exited()
            return notice, _resident(launcher.pid) - before

    notice, grown = asyncio.run(asyncio.wait_for(play(), 60))
    assert notice.status == 4
    assert notice.stderr.endswith(b"x\nthe last line\n")
    assert len(notice.stderr) == 16 * 1024
    assert grown < 4 * 1024


def test_a_worker_may_fork_and_use_multiprocessing_for_it_inherits_no_socket_library(launcher, connect, hire) -> None:
    """pyzmq#983: a context used over a fork hangs or steals. The launcher has none; nor has any worker at its start."""

    async def play():
        async with connect(launcher) as client, hire(client, "starts_children") as hired:
            return json.loads((await hired.channel.receive()).data)

    assert asyncio.run(asyncio.wait_for(play(), 30)) == [[1, 2], "forked"]


def test_an_interrupt_at_the_terminal_reaches_no_worker(host, trace) -> None:
    """ralphify#38: Ctrl-C goes to the whole foreground group, and children die before their parent drains."""
    pids = json.loads(host.stdout.readline())
    trace.add(pids["launcher"], pids["worker"])
    trace.add_written()
    groups = {os.getpgid(host.pid), os.getsid(host.pid)}
    for pid in (pids["launcher"], pids["worker"]):
        assert groups.isdisjoint({os.getpgid(pid), os.getsid(pid)})


def test_a_worker_finds_its_spawn_record_when_its_main_begins(launcher, connect) -> None:
    async def play():
        async with connect(launcher) as client:
            for mode in ("fork", "exec"):
                hired = await client.spawn(name="recorded", main="worker_mains:finds_its_record", mode=mode)
                assert (await hired.channel.receive()).data == b"yes"
                await hired.exited()
                hired.channel.close()

    asyncio.run(asyncio.wait_for(play(), 30))


def test_a_worker_whose_record_cannot_be_written_never_comes_to_its_main(launcher, directory, connect) -> None:
    shutil.rmtree(directory / "records")
    (directory / "records").write_text("in the way", encoding="ascii")

    async def play():
        async with connect(launcher) as client:
            with pytest.raises(SpawnRefused, match=r"spawn record cannot be written \(/.*\): Not a directory"):
                await client.spawn(name="unrecorded", main="worker_mains:marks_its_main")

    asyncio.run(asyncio.wait_for(play(), 30))
    for _ in range(100):
        if not launcher.workers():
            break
        time.sleep(0.02)
    assert launcher.workers() == []
    assert not (directory / "came-to-main").exists()


def _resident(pid: int) -> int:
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return int(next(line for line in status if line.startswith("VmRSS")).split()[1])
