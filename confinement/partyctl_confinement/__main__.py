"""`python -P -m partyctl_confinement`: the launcher as a process. `control.command` builds the whole line."""

import argparse
import contextlib
import gc
import importlib
import os
import signal
import sys
from pathlib import Path

from partyctl_base import process
from partyctl_base.channel import Channel, ChannelClosed
from partyctl_confinement import messages
from partyctl_confinement.birth import Parents
from partyctl_confinement.environment import LAUNCHER_ALLOW, WORKER_ALLOW, scrubbed
from partyctl_confinement.forward import Backlog
from partyctl_confinement.kept import UNATTACHED_MAX
from partyctl_confinement.launcher import WORKERS_MAX, Launcher
from partyctl_confinement.nursery import Nursery, Worker, raise_nofile
from partyctl_confinement.oom import OomCounter
from partyctl_confinement.place import line_buffered
from partyctl_confinement.title import TitleArea, forget_first_environment


def main(arguments: list[str] | None = None) -> int:
    """Run the launcher until its host lets it end; its exit status."""
    parser = argparse.ArgumentParser(prog="partyctl_confinement", description="Forks workers; started by a host.")
    parser.add_argument("--control-fd", type=int, required=True, help="its end of the host's seqpacket pair")
    parser.add_argument("--host-pid", type=int, required=True, help="the process whose death ends everything")
    parser.add_argument("--preload", default="", help="modules that workers find imported, separated by commas")
    parser.add_argument("--records", type=Path, default=None, help="the directory of spawn records")
    parser.add_argument("--max-workers", type=_count, default=WORKERS_MAX, metavar="N", help="workers alive at once")
    parser.add_argument("--forward-output", action="store_true", help="send the host what workers print")
    parser.add_argument(
        "--unattached-max", type=float, default=UNATTACHED_MAX, metavar="S", help="seconds a worker waits for a client"
    )
    options = parser.parse_args(arguments)
    control = Channel.from_fd(options.control_fd)
    try:
        host = os.pidfd_open(options.host_pid)
        area = TitleArea.of_this_process()
        interpreter = _settle()
        _preload([name for name in options.preload.split(",") if name])
        records = options.records and options.records.absolute()
        if records:
            records.mkdir(mode=0o700, parents=True, exist_ok=True)
        parents = Parents(nofile=raise_nofile(), area=area, interpreter=interpreter)
        output = Backlog() if options.forward_output else None
        nursery = Nursery(
            records_directory=records,
            parents=parents,
            oom=OomCounter(),
            heard=lambda worker, piece: _keep(output, worker, piece),
        )
    except Exception as error:
        with contextlib.suppress(ChannelClosed, TimeoutError):
            control.send(messages.failed(f"{type(error).__name__}: {error}"), timeout=1.0)
        raise
    os.chdir("/")
    gc.collect()
    # What is frozen is never looked at by the collector again, so its pages stay shared with every worker.
    gc.freeze()
    Launcher(
        control,
        host,
        nursery,
        max_workers=options.max_workers,
        output=output,
        unattached_max=options.unattached_max,
    ).run()
    return 0


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is no number of workers from 1 on")
    return number


def _keep(output: Backlog | None, worker: Worker, piece: bytes) -> None:
    if output is not None:
        output.put(worker.id, worker.request.name, worker.request.labels, piece)


def _settle() -> dict[str, str]:
    """Leave the host's terminal, take over its orphans' fate, and forget its environment.

    Returns:
        What of that environment a fresh interpreter needs to find what this one finds.
    """
    with contextlib.suppress(PermissionError):  # it leads a session already
        os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    process.set_child_subreaper()
    os.umask(0o077)
    inherited, interpreter = scrubbed(os.environ, WORKER_ALLOW), scrubbed(os.environ, LAUNCHER_ALLOW)
    os.environ.clear()
    os.environ.update(inherited)
    forget_first_environment()
    line_buffered()
    return interpreter


def _preload(modules: list[str]) -> None:
    for module in modules:
        importlib.import_module(module)
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise RuntimeError(f"preloading {', '.join(modules)} started {threads - 1} threads; a fork would lose them")


if __name__ == "__main__":
    sys.exit(main())
