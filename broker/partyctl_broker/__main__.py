"""`python -m partyctl_broker --control-fd N --endpoint ipc://PATH --host-pid PID`: the broker as a process of a host.

It ends when the host says so or closes the channel, when the host dies, and on SIGTERM; each time it removes its
socket. SIGINT and SIGHUP are the host's affair: a terminal sends them to the whole group, and the host drains first.
"""

import argparse
import contextlib
import gc
import os
import resource
import signal
import socket
import sys

from partyctl_base.channel import Channel
from partyctl_base.errors import PartyError
from partyctl_broker.server import Broker


def main(arguments: list[str] | None = None) -> int:
    """Run a broker; its exit status: 0 after a stop or the host's death, 1 after an error, which is printed."""
    parser = argparse.ArgumentParser(prog="partyctl_broker", description="Route letters between the peers of a party.")
    parser.add_argument("--control-fd", type=int, required=True, help="the inherited end of the host's channel")
    parser.add_argument("--endpoint", required=True, help="where peers connect: ipc://PATH or tcp://ADDRESS:PORT")
    parser.add_argument("--host-pid", type=int, required=True, help="the process whose death ends the broker")
    options = parser.parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.set_inheritable(options.control_fd, False)
    try:
        host = os.pidfd_open(options.host_pid)
    except ProcessLookupError:
        return 0
    _raise_descriptor_limit()
    terminated = _terminations()
    broker = Broker(options.endpoint, Channel.from_fd(options.control_fd), ends=(host, terminated.fileno()))
    gc.freeze()  # what is loaded by now is never garbage
    try:
        broker.run()
    except PartyError as error:
        print(f"partyctl_broker: {error}", file=sys.stderr)
        return 1
    return 0


def _terminations() -> socket.socket:
    """A socket that becomes readable on SIGTERM."""
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    signal.set_wakeup_fd(writing.detach())
    return reading


def _raise_descriptor_limit() -> None:
    """Each peer costs a descriptor; take all that this user may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    sys.exit(main())
