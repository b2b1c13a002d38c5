"""python -m partyctl.node --control-fd N --host-pid PID --name node/0"""

import asyncio
import os
import signal

import click

from partyctl.node.node import Node
from partyctl_base.aio import AsyncChannel
from partyctl_base.channel import Channel


@click.command()
@click.option("--control-fd", type=int, required=True)
@click.option("--host-pid", type=int, required=True)
@click.option("--name", required=True)
def main(control_fd: int, host_pid: int, name: str) -> None:
    """Serve one host until it says stop or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        watched = os.pidfd_open(host_pid)
    except ProcessLookupError:
        return
    if os.getppid() != host_pid:
        return  # the host ended before we looked, and its pid may be somebody else's

    async def serve() -> None:
        node = Node(name, AsyncChannel(Channel.from_fd(control_fd)))
        # No clean-up without a host: the launcher, which watches it too, is ending every worker already.
        asyncio.get_running_loop().add_reader(watched, os._exit, 1)
        await node.serve()

    asyncio.run(serve())


if __name__ == "__main__":
    main()
