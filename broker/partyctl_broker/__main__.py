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
from partyctl_broker.crowd import LIMIT_MIN
from partyctl_broker.errors import DescriptorsShort, MemoryExceeded
from partyctl_broker.guard import MEMORY_MAX, Guard
from partyctl_broker.server import HOLD, Broker

EXIT_MEMORY = 75
"""The exit status of a broker that had more memory than it may: EX_TEMPFAIL, start it again."""


def main(arguments: list[str] | None = None) -> int:
    """Run a broker; its exit status: 0 after a stop or the host's death, 1 after an error, which is
    printed, 75 when it had more memory than it may."""
    parser = argparse.ArgumentParser(prog="partyctl_broker", description="Route letters between the peers of a party.")
    parser.add_argument("--control-fd", type=int, required=True, help="the inherited end of the host's channel")
    parser.add_argument("--endpoint", required=True, help="where peers connect: ipc://PATH or tcp://ADDRESS:PORT")
    parser.add_argument("--host-pid", type=int, required=True, help="the process whose death ends the broker")
    parser.add_argument("--memory-max", type=int, default=MEMORY_MAX >> 20, metavar="MIB", help="ends it over that")
    parser.add_argument("--descriptors", type=int, default=0, metavar="N", help="use no more than so many")
    parser.add_argument("--hold", type=float, default=HOLD, metavar="SECONDS", help="letters wait for their address")
    options = parser.parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.set_inheritable(options.control_fd, False)
    try:
        host = os.pidfd_open(options.host_pid)
    except ProcessLookupError:
        return 0
    try:
        descriptors = _raise_descriptor_limit()
    except DescriptorsShort as error:
        print(f"partyctl_broker: {error}", file=sys.stderr)
        return 1
    waking, wake = _wake_up()
    broker = Broker(
        options.endpoint,
        Channel.from_fd(options.control_fd),
        ends=(host,),
        wake=waking.fileno(),
        descriptors=min(descriptors, options.descriptors or descriptors),
        hold=options.hold,
    )
    signal.signal(signal.SIGTERM, lambda _number, _frame: broker.stop())
    guard = Guard(options.memory_max << 20, broker.suspicion)
    gc.freeze()  # what is loaded by now is never garbage
    try:
        guard.start()
        broker.run()
    except (MemoryExceeded, MemoryError) as error:
        print(f"partyctl_broker: {error or 'no memory is left'}", file=sys.stderr, flush=True)
        os._exit(EXIT_MEMORY)  # what fills the memory would take long to tidy up
    except PartyError as error:
        print(f"partyctl_broker: {error}", file=sys.stderr)
        return 1
    finally:
        guard.stop()
        signal.set_wakeup_fd(-1)
        wake.close()
    return 0


def _wake_up() -> tuple[socket.socket, socket.socket]:
    """A socket that becomes readable on every signal, and its other end."""
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    return reading, writing


def _raise_descriptor_limit() -> int:
    """Each peer costs a descriptor; take all that this user may have, and say how many that is.

    Raises:
        DescriptorsShort: it is too few to withstand a burst of connections: ZeroMQ ends the process when it has none.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    found = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if found < LIMIT_MIN:
        raise DescriptorsShort(found, LIMIT_MIN)
    return found


if __name__ == "__main__":
    sys.exit(main())
