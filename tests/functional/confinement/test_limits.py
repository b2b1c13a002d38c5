"""Workers under limits, and what their ends say of the limit they hit."""

import asyncio
import contextlib
import json
import os
import signal

import pytest

from partyctl_base.channel import ChannelClosed
from partyctl_confinement.errors import SpawnRefused

MIB = 1024 * 1024


@pytest.fixture
def under(launcher, connect):
    """Hires a worker under limits, sends it something; its first words, if it had any, and its exit notice."""

    def run(main, limits, *, mode="fork", data=b"go", kill=None):
        async def play():
            async with connect(launcher) as client:
                hired = await client.spawn(name=main, main=f"worker_mains:{main}", limits=limits, mode=mode)
                with contextlib.suppress(ChannelClosed):  # some end without having read it
                    await hired.channel.send(data)
                if kill is not None:
                    os.kill(hired.pid, kill)
                said = await hired.channel.receive()
                notice = await hired.exited()
                hired.channel.close()
                return said and said.data, notice

        return asyncio.run(asyncio.wait_for(play(), 60))

    return run


@pytest.mark.parametrize("mode", ["fork", "exec"])
def test_a_worker_is_held_to_what_its_request_says(under, mode) -> None:
    asked = {"nofile": 64, "file_size_max": 5 * MIB, "core": 0, "cpu_seconds": 100, "address_space": 512 * MIB}
    said, _notice = under("shows_limits", asked, mode=mode)
    found = json.loads(said)
    assert (found["NOFILE"], found["FSIZE"], found["CORE"]) == ([64, 64], [5 * MIB, 5 * MIB], [0, 0])
    assert (found["CPU"][0], found["AS"]) == (100, [512 * MIB, 512 * MIB])


@pytest.mark.parametrize("mode", ["fork", "exec"])
def test_a_worker_leaves_no_core_file_unless_it_may(under, mode) -> None:
    assert json.loads(under("shows_limits", {}, mode=mode)[0])["CORE"] == [0, 0]


def test_a_worker_opens_no_more_files_than_it_may(under) -> None:
    assert under("opens_files", {"nofile": 40})[0] == b"39"


@pytest.mark.parametrize("mode", ["fork", "exec"])
def test_a_worker_that_allocates_over_its_address_space_is_told_as_possibly_out_of_memory(under, mode) -> None:
    """claude-agent-sdk-python#434: "exit code 137" with no hint that memory ran out."""
    _said, notice = under("allocates", {"address_space": 64 * MIB}, mode=mode)
    assert notice.limit == "address_space"
    assert "possible out of memory" in notice.describe()
    assert "address_space = 64 MiB" in notice.describe()
    assert notice.describe().startswith("exited with status 72: ")
    assert b"MemoryError" in notice.stderr


def test_a_worker_that_computes_too_long_is_told_as_over_its_processor_time(under) -> None:
    _said, notice = under("burns", {"cpu_seconds": 1})
    assert notice.signal == signal.SIGXCPU
    assert notice.limit == "cpu_seconds"
    assert notice.describe() == "killed by SIGXCPU: over its limit cpu_seconds = 1 seconds"


def test_a_worker_that_ignores_the_warning_is_killed_and_told_the_same(under) -> None:
    _said, notice = under("burns_and_ignores", {"cpu_seconds": 1})
    assert (notice.signal, notice.limit) == (signal.SIGKILL, "cpu_seconds")
    assert "cpu_seconds = 1" in notice.evidence


@pytest.mark.parametrize("mode", ["fork", "exec"])
def test_a_worker_that_writes_too_large_a_file_is_told_as_over_its_file_size(under, directory, mode) -> None:
    _said, notice = under("writes_a_file", {"file_size_max": 4096}, mode=mode, data=os.fsencode(directory / "written"))
    assert (notice.signal, notice.limit) == (signal.SIGXFSZ, "file_size_max")
    assert (directory / "written").stat().st_size == 4096


def test_a_sigkill_from_a_stranger_is_not_blamed_on_memory(under) -> None:
    _said, notice = under("echo", {}, kill=signal.SIGKILL)
    assert (notice.signal, notice.limit) == (signal.SIGKILL, None)


@pytest.mark.parametrize(
    ("limits", "named"),
    [
        ({"memory": 5}, "'memory'"),
        ({"cpu_second": 5}, "cpu_seconds is the nearest"),
        ({"nofile": 3}, "nofile"),
        ({"core": -1}, "core"),
        ({"address_space": 16 * MIB}, "address_space = 16 MiB"),
        ({"nofile": 1 << 40}, "nofile = 1099511627776"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_unknown_or_impossible_limit_is_refused_by_name_and_nothing_starts(launcher, connect, limits, named) -> None:
    async def play():
        async with connect(launcher) as client:
            with pytest.raises(SpawnRefused) as refusal:
                await client.spawn(name="x", main="worker_mains:echo", limits=limits)
            assert named in str(refusal.value)

    asyncio.run(asyncio.wait_for(play(), 30))
    assert launcher.workers() == []


@pytest.mark.skipif(os.getuid() != 0, reason="the kernel holds an ordinary user to nproc")
def test_nproc_is_refused_to_root_whom_the_kernel_does_not_hold_to_it(launcher, connect) -> None:
    async def play():
        async with connect(launcher) as client:
            with pytest.raises(SpawnRefused, match="nproc is not enforced here"):
                await client.spawn(name="x", main="worker_mains:echo", limits={"nproc": 5})

    asyncio.run(asyncio.wait_for(play(), 30))
