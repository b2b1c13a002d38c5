"""`python -P -m partyctl_confinement`: the launcher as a process. `control.command` builds the whole line."""

import argparse
import contextlib
import gc
import importlib
import io
import os
import signal
import sys
from pathlib import Path

from partyctl_base import process
from partyctl_base.channel import Channel, ChannelClosed
from partyctl_confinement import messages
from partyctl_confinement.environment import WORKER_ALLOW, scrubbed
from partyctl_confinement.launcher import Launcher
from partyctl_confinement.nursery import Nursery, raise_nofile
from partyctl_confinement.title import TitleArea, forget_first_environment

_FAILED = 1


def main(arguments: list[str] | None = None) -> int:
    """Run the launcher until its host lets it end; its exit status."""
    parser = argparse.ArgumentParser(prog="partyctl_confinement", description="Forks workers; started by a host.")
    parser.add_argument("--control-fd", type=int, required=True, help="its end of the host's seqpacket pair")
    parser.add_argument("--host-pid", type=int, required=True, help="the process whose death ends everything")
    parser.add_argument("--preload", default="", help="modules that workers find imported, separated by commas")
    parser.add_argument("--records", type=Path, default=None, help="the directory of spawn records")
    options = parser.parse_args(arguments)
    control = Channel.from_fd(options.control_fd)
    try:
        host = os.pidfd_open(options.host_pid)
        area = TitleArea.of_this_process()
        _settle()
        _preload([name for name in options.preload.split(",") if name])
        records = options.records and options.records.absolute()
        if records:
            records.mkdir(mode=0o700, parents=True, exist_ok=True)
        nursery = Nursery(records_directory=records, nofile=raise_nofile(), area=area)
    except Exception as error:
        with contextlib.suppress(ChannelClosed, TimeoutError):
            control.send(messages.failed(f"{type(error).__name__}: {error}"), timeout=1.0)
        raise
    os.chdir("/")
    gc.collect()
    # What is frozen is never looked at by the collector again, so its pages stay shared with every worker.
    gc.freeze()
    Launcher(control, host, nursery).run()
    return 0


def _settle() -> None:
    """Leave the host's terminal, take over its orphans' fate, and forget its environment."""
    with contextlib.suppress(PermissionError):  # it leads a session already
        os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    process.set_child_subreaper()
    os.umask(0o077)
    inherited = scrubbed(os.environ, WORKER_ALLOW)
    os.environ.clear()
    os.environ.update(inherited)
    forget_first_environment()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A worker that is killed loses what it had not flushed.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)


def _preload(modules: list[str]) -> None:
    for module in modules:
        importlib.import_module(module)
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise RuntimeError(f"preloading {', '.join(modules)} started {threads - 1} threads; a fork would lose them")


if __name__ == "__main__":
    sys.exit(main())
