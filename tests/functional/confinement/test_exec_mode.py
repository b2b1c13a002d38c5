"""Workers that are programs of their own, and keep every promise that a forked one does."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from partyctl_base.process import is_alive
from partyctl_confinement.errors import SpawnRefused

PLAIN_PROGRAM = Path(__file__).parent / "mains" / "plain_program.py"


def _play(scenario):
    return asyncio.run(asyncio.wait_for(scenario, 60))


@pytest.fixture
def report(launcher, connect):
    async def play():
        async with connect(launcher) as client:
            hired = await client.spawn(name="fresh", main="worker_mains:describes_itself", mode="exec")
            found = json.loads((await hired.channel.receive()).data)
            notice = await hired.exited()
            hired.channel.close()
            return found, notice

    return _play(play())


def test_a_fresh_worker_keeps_the_promises_of_a_forked_one(report, launcher) -> None:
    found, notice = report
    assert notice.status == 0
    assert found["ppid"] == launcher.pid
    assert found["sid"] == found["pid"]
    assert found["fds"] == [0, 1, 2, 3]
    assert (found["umask"], found["directory"], found["threads"], found["stdin"]) == (0o077, "/", 1, "")
    assert found["no_new_privileges"]
    assert found["command"] == "partyctl: fresh"
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGXFSZ):
        assert not found["ignored"] & 1 << number - 1


def test_a_fresh_worker_finds_the_launchers_modules_and_not_the_environment_that_led_to_them(report) -> None:
    found, _notice = report
    assert set(found["environment"]) == {"PATH", "LANG"}
    assert found["first_environment"].strip("\0") == ""


def test_a_fresh_worker_shares_no_module_with_the_launcher(report) -> None:
    found, _notice = report
    assert {"partyctl_confinement.launcher", "partyctl_confinement.nursery", "msgpack"}.isdisjoint(found["modules"])


def test_the_orphans_of_a_fresh_worker_are_its_own_and_go_with_it(launcher, trace, connect) -> None:
    async def play():
        async with connect(launcher) as client:
            hired = await client.spawn(name="fresh", main="worker_mains:leaves_orphans", mode="exec")
            await hired.channel.send(os.fsencode(trace.directory))
            assert (await hired.channel.receive()).data == b"ready"
            trace.add(hired.pid)
            trace.add_written()
            assert len(trace.alive()) == 7
            os.kill(hired.pid, signal.SIGKILL)
            await hired.exited()
            assert trace.alive() == []
            hired.channel.close()

    _play(play())


@pytest.mark.parametrize(
    "program",
    [{"main": "worker_mains:echo"}, {"argv": [sys.executable, str(PLAIN_PROGRAM), "stay"]}],
    ids=["main", "argv"],
)
def test_killing_the_launcher_ends_a_fresh_worker(launcher, trace, connect, program) -> None:
    async def play():
        async with connect(launcher) as client:
            hired = await client.spawn(name="fresh", mode="exec", **program)
            if "main" in program:
                await hired.channel.send(b"hello")
            await hired.channel.receive()
            trace.add(hired.pid)
            os.kill(launcher.pid, signal.SIGKILL)
            assert await asyncio.to_thread(trace.all_gone)
            hired.channel.close()

    _play(play())


def test_any_program_gets_its_arguments_its_channel_and_the_same_place(launcher, connect) -> None:
    async def play():
        async with connect(launcher) as client:
            hired = await client.spawn(name="p", mode="exec", argv=[sys.executable, str(PLAIN_PROGRAM), "it's", "a b"])
            found = json.loads((await hired.channel.receive()).data)
            notice = await hired.exited()
            hired.channel.close()
            return hired, found, notice

    hired, found, notice = _play(play())
    assert found["arguments"] == ["it's", "a b"]
    assert found["fds"] == [0, 1, 2, 3]
    assert (found["pid"], found["sid"]) == (hired.pid, hired.pid)
    assert set(found["environment"]) <= {"PATH", "LANG", "LC_CTYPE"}
    assert found["no_new_privileges"]
    assert found["defaults"]
    assert (notice.status, notice.stderr) == (0, b"it printed\n")


def test_python_does_not_hand_a_program_the_signals_it_ignores_itself(launcher, connect) -> None:
    async def play():
        async with connect(launcher) as client:
            hired = await client.spawn(name="p", mode="exec", argv=["/bin/sh", "-c", "grep SigIgn /proc/$$/status"])
            notice = await hired.exited()
            hired.channel.close()
            return notice

    inherited = _ignored(Path("/proc/self/status").read_text()) - {signal.SIGPIPE, signal.SIGXFSZ}
    assert _ignored(_play(play()).stderr.decode()) <= inherited


def _ignored(status: str) -> set[int]:
    """The signals that a process ignores, by its status."""
    mask = int(status.partition("SigIgn:")[2].split()[0], 16)
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


def test_a_process_that_a_foreign_program_loses_is_killed_while_the_program_goes_on(
    launcher, trace, connect, wait_until
) -> None:
    """It is no subreaper, for it would not reap: what it loses is the launcher's at once."""
    lost = trace.directory / "lost"
    script = f"(sleep 999 & echo $! > {lost}.new; mv {lost}.new {lost}); while :; do sleep 0.05; done"

    async def play():
        async with connect(launcher) as client:
            hired = await client.spawn(name="p", mode="exec", argv=["/bin/sh", "-c", script])
            assert await asyncio.to_thread(wait_until, lost.exists, 10)
            pid = int(lost.read_text(encoding="ascii"))
            assert await asyncio.to_thread(wait_until, lambda: not is_alive(pid), 10)
            assert (await hired.kill()).cause == "killed"
            hired.channel.close()

    _play(play())


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["/no/such/program"], "no executable file"),
        (["/etc/passwd"], "no executable file"),
        (["/tmp"], "no executable"),
    ],
)
def test_what_cannot_be_executed_is_refused_by_name(launcher, connect, argv, why) -> None:
    async def play():
        async with connect(launcher) as client:
            with pytest.raises(SpawnRefused, match=why) as refusal:
                await client.spawn(name="p", mode="exec", argv=argv)
            assert argv[0] in str(refusal.value)

    _play(play())


def test_a_program_of_an_unknown_format_ends_and_says_so(launcher, directory, connect) -> None:
    broken = directory / "broken"
    broken.write_bytes(b"\x7fNOT")
    broken.chmod(0o700)

    async def play():
        async with connect(launcher) as client:
            hired = await client.spawn(name="p", mode="exec", argv=[str(broken)])
            notice = await hired.exited()
            hired.channel.close()
            return notice

    notice = _play(play())
    assert notice.status == 71
    assert f"{broken} cannot be executed: Exec format error".encode() in notice.stderr


def test_a_main_that_a_fresh_interpreter_cannot_import_is_told_with_its_traceback(launcher, connect) -> None:
    async def play():
        async with connect(launcher) as client:
            hired = await client.spawn(name="p", mode="exec", main="no_such_module:main")
            notice = await hired.exited()
            hired.channel.close()
            return notice

    notice = _play(play())
    assert notice.status == 70
    assert b"No module named 'no_such_module'" in notice.stderr
