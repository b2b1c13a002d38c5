"""Mains of workers that the tests hire."""

import contextlib
import json
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from typing import NoReturn

from partyctl_base.channel import Channel


def echo(channel: Channel) -> int:
    """Sends back what it gets."""
    while (received := channel.receive()) is not None:
        channel.send(received.data)
    return 0


def status_by_request(channel: Channel) -> int:
    received = channel.receive()
    assert received is not None
    return int(received.data)


def raises(channel: Channel) -> int:
    raise RuntimeError("the worker's own mistake")


def leaves_by_system_exit(channel: Channel) -> int:
    print("last words")
    sys.exit(5)


def leaves_at_once(channel: Channel) -> int:
    os._exit(9)


def floods(channel: Channel) -> int:
    """Prints 50 MB, then a last line."""
    line = b"x" * 65535 + b"\n"
    for _ in range(50_000_000 // len(line)):
        os.write(2, line)
    os.write(2, b"the last line\n")
    return 4


def closes_its_output(channel: Channel) -> int:
    os.close(1)
    os.close(2)
    return echo(channel)


def describes_itself(channel: Channel) -> int:
    """Reports what it finds around itself."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    mask = os.umask(0)
    report = {
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "sid": os.getsid(0),
        "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")),
        "stdin": os.read(0, 10).decode(),
        "umask": mask,
        "environment": dict(os.environ),
        "first_environment": Path("/proc/self/environ").read_bytes().decode(),
        "no_new_privileges": "NoNewPrivs:\t1" in status,
        "ignored": int(next(x for x in status.splitlines() if x.startswith("SigIgn")).split()[1], 16),
        "threads": threading.active_count(),
        "directory": os.getcwd(),
        "modules": sorted(sys.modules),
        "nofile": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "command": Path("/proc/self/cmdline").read_bytes().rstrip(b"\0").decode(),
    }
    channel.send(json.dumps(report).encode())
    return 0


def leaves_orphans(channel: Channel) -> int:
    """Starts five grandchildren that do all they can to outlive it, says so, and goes on."""
    directory = _directory(channel)
    for number in range(5):
        _double_fork(directory, f"daemon-{number}")
    if os.fork() == 0:  # and a child in the ordinary way, that has one in turn
        _settle_down(directory, "child")
    _until(lambda: len(list(directory.glob("*.pid"))) == 6)
    channel.send(b"ready")
    return echo(channel)


def runs_away(channel: Channel) -> int:
    """Leaves a process that forks its successor and ends, over and over."""
    directory = _directory(channel)
    if os.fork() == 0:
        os.setsid()
        stop_at = time.monotonic() + 30
        while time.monotonic() < stop_at:
            if os.fork() != 0:
                os._exit(0)
            (directory / "runner.latest").write_text(str(os.getpid()), encoding="ascii")
        os._exit(0)
    _until((directory / "runner.latest").exists)
    channel.send(b"ready")
    return echo(channel)


def _directory(channel: Channel) -> Path:
    received = channel.receive()
    assert received is not None
    return Path(received.data.decode())


def _double_fork(directory: Path, name: str) -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        _settle_down(directory, name)


def _settle_down(directory: Path, name: str) -> NoReturn:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    draft = directory / f"{name}.draft"
    draft.write_text(str(os.getpid()), encoding="ascii")
    draft.rename(directory / f"{name}.pid")
    time.sleep(60)
    os._exit(0)


def _until(condition: "object") -> None:
    stop_at = time.monotonic() + 20
    while not condition():  # type: ignore[operator]
        if time.monotonic() > stop_at:
            raise TimeoutError
        time.sleep(0.005)
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def allocates(channel: Channel) -> int:
    """Takes 200 MiB."""
    channel.receive()
    held = bytearray(200 * 1024 * 1024)
    return len(held) % 2


def burns(channel: Channel) -> int:
    """Computes for ever."""
    while True:
        pass


def burns_and_ignores(channel: Channel) -> int:
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    return burns(channel)


def writes_a_file(channel: Channel) -> int:
    """Writes 1 MiB into the file it is told."""
    received = channel.receive()
    assert received is not None
    Path(received.data.decode()).write_bytes(b"x" * 1024 * 1024)
    return 0


def opens_files(channel: Channel) -> int:
    """Opens files until it may not; says which descriptor was the last."""
    opened = []
    try:
        while True:
            opened.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        channel.send(str(opened[-1]).encode())
    return 0


def shows_limits(channel: Channel) -> int:
    names = ("NOFILE", "FSIZE", "CORE", "CPU", "AS")
    channel.send(json.dumps({name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}")) for name in names}).encode())
    return 0


def finds_its_record(channel: Channel) -> int:
    """Says whether its spawn record was there first thing; the directory is an option of its launcher."""
    line = Path(f"/proc/{os.getppid()}/cmdline").read_text(encoding="utf-8").split("\0")
    record = Path(line[line.index("--records") + 1]) / f"{os.getpid()}.spawn"
    channel.send(b"yes" if record.exists() else b"no")
    return 0


def marks_its_main(channel: Channel) -> int:
    """Leaves a file beside its launcher's spawn records."""
    line = Path(f"/proc/{os.getppid()}/cmdline").read_text(encoding="utf-8").split("\0")
    (Path(line[line.index("--records") + 1]).parent / "came-to-main").touch()
    return 0


def talks(channel: Channel) -> int:
    """Prints what it is sent."""
    while (received := channel.receive()) is not None:
        os.write(1, received.data)
    return 0


def starts_children(channel: Channel) -> int:
    """Starts children by fork and by multiprocessing, and says what they answered."""
    import multiprocessing

    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool:
        answers = pool.map(abs, [-1, -2])
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, b"forked")
        os._exit(0)
    os.wait()
    channel.send(json.dumps([answers, os.read(reading, 100).decode()]).encode())
    return 0


def leaves_shell_children(channel: Channel) -> int:
    """Starts what provider CLIs start: a shell with two children, and a program that left its session."""
    import subprocess

    directory = _directory(channel)
    note = f"echo $! > {directory}/shell-$N.draft; mv {directory}/shell-$N.draft {directory}/shell-$N.pid"
    script = "; ".join(f"sleep 999 & N={number}; {note}" for number in range(2))
    subprocess.Popen(["/bin/sh", "-c", f"{script}; wait"])
    subprocess.Popen(["/bin/sh", "-c", f"setsid sleep 999 & N=9; {note}"])
    _until(lambda: len(list(directory.glob("*.pid"))) == 3)
    channel.send(b"ready")
    return echo(channel)


def loses_children(channel: Channel) -> int:
    """At each request: leaves processes behind that end at once, and looks; tells how many children are dead then, and
    whether the statuses of its own, which ended long ago, can still be had."""
    import subprocess

    from partyctl_base.process import children, is_alive
    from partyctl_confinement.orphans import Orphans

    orphans = Orphans()
    own = subprocess.Popen(["/bin/sh", "-c", "exit 7"])
    while channel.receive() is not None:
        for _ in range(3):
            subprocess.run(["/bin/sh", "-c", "true & exit 0"], check=True)
        stop_at = time.monotonic() + 10
        while any(is_alive(pid) for pid in children(os.getpid())) and time.monotonic() < stop_at:
            time.sleep(0.005)
        orphans.reap()
        dead = [pid for pid in children(os.getpid()) if pid != own.pid]
        channel.send(json.dumps(len(dead)).encode())
    return own.wait()


def double_forks(channel: Channel) -> int:
    """Leaves a process behind that ends at once, and ends."""
    if os.fork() == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.wait()
    return 0
