"""How a launcher comes up or does not, and what its spawn records are good for."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from partyctl_base.process import ProcessIdentity, children
from partyctl_confinement import records
from partyctl_confinement.control import LauncherProcess
from partyctl_confinement.errors import LauncherNotStarted
from partyctl_confinement.reaper import reap_records


def test_a_launcher_that_cannot_preload_says_why(directory) -> None:
    with pytest.raises(LauncherNotStarted, match="no_such_module"):
        LauncherProcess.start(preload=["no_such_module"])


def test_a_preloaded_module_that_starts_a_thread_is_refused(directory) -> None:
    (directory / "threaded.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(5,), daemon=True).start()\n",
        encoding="utf-8",
    )
    with pytest.raises(LauncherNotStarted, match="1 threads"):
        LauncherProcess.start(preload=["threaded"], environment={"PYTHONPATH": str(directory)})


def test_a_launcher_that_is_silent_is_killed(directory) -> None:
    (directory / "slow.py").write_text("import time\ntime.sleep(20)\n", encoding="utf-8")
    with pytest.raises(LauncherNotStarted, match="does not answer"):
        LauncherProcess.start(preload=["slow"], environment={"PYTHONPATH": str(directory)}, timeout=0.5)


def test_modules_in_the_current_directory_are_not_imported(directory, monkeypatch) -> None:
    (directory / "selectors.py").write_text("raise RuntimeError('planted')\n", encoding="utf-8")
    monkeypatch.chdir(directory)
    LauncherProcess.start().stop()


def test_a_living_worker_has_a_record_and_a_dead_one_has_none(launcher, directory, connect, hire) -> None:
    async def scenario():
        async with connect(launcher) as client, hire(client, "echo") as hired:
            found, foreign = records.read_all(directory / "records")
            assert (found, foreign) == ([ProcessIdentity.of(hired.pid)], ())
            assert (directory / "records").stat().st_mode & 0o777 == 0o700
            await hired.kill()
            assert list((directory / "records").iterdir()) == []

    asyncio.run(asyncio.wait_for(scenario(), 30))


@pytest.fixture
def left_behind(directory, trace):
    """A recorded process that nobody owns any more, with a child; and its identity."""
    script = "import os, time, signal\nsignal.signal(15, signal.SIG_IGN)\n"
    script += "if os.fork():\n    print('up', flush=True)\ntime.sleep(60)\n"
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    identity = ProcessIdentity.of(process.pid)
    assert identity is not None
    (child,) = children(process.pid)
    trace.add(process.pid, child)
    (directory / "left").mkdir()
    yield identity
    process.kill()
    process.stdout.close()
    process.wait()


def test_a_recorded_process_is_killed_with_its_tree_at_the_next_start(left_behind, directory, trace) -> None:
    records.write(directory / "left", left_behind)
    reaped = reap_records(directory / "left")
    assert set(reaped.killed) == set(trace.processes)
    assert reaped.left == ()
    assert trace.alive() == []
    assert list((directory / "left").iterdir()) == []


@pytest.mark.parametrize("change", [{"started": 1}, {"boot": "another-boot"}])
def test_a_pid_that_is_somebody_elses_now_is_left_alone(left_behind, directory, trace, change) -> None:
    fields = {"pid": left_behind.pid, "started": left_behind.started, "boot": left_behind.boot, **change}
    records.write(directory / "left", ProcessIdentity(**fields))
    reaped = reap_records(directory / "left")
    assert (reaped.killed, reaped.stale) == ((), (left_behind.pid,))
    assert len(trace.alive()) == 2
    assert list((directory / "left").iterdir()) == []


def test_a_file_that_is_no_record_stays_and_is_named(left_behind, directory, trace) -> None:
    torn = directory / "left" / f"{left_behind.pid}.spawn"
    torn.write_text(records.encode(left_behind)[:20], encoding="ascii")
    assert reap_records(directory / "left").foreign == (torn.name,)
    assert torn.exists()
    assert len(trace.alive()) == 2


def test_records_of_a_launcher_that_was_killed_are_stale_at_the_next_start(
    launcher, directory, trace, connect, hire
) -> None:
    async def scenario():
        async with connect(launcher) as client, hire(client, "echo") as hired:
            trace.add(hired.pid)
            os.kill(launcher.pid, signal.SIGKILL)
            await hired.exited()
            assert trace.all_gone()
            return hired.pid

    pid = asyncio.run(asyncio.wait_for(scenario(), 30))
    assert reap_records(directory / "records").stale == (pid,)
