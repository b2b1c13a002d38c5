"""The private host: lends a launcher to one embedding program for as long as one of its runs needs a worker.

A process of its own, so that the program may die in any way: it watches the program by pidfd and sweeps when it is
gone. It restarts nothing: when its launcher dies, it ends, the run says so, and the next run starts another. It starts
no broker: in an embedded run every role lives in the program, and no other peer is there to be routed to.

    python -m partyctl.host.private --control-fd N --host-pid EMBEDDER --directory DIR
"""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from pathlib import Path

import click

from partyctl.errors import HostError
from partyctl.host.budget import RestartPolicy
from partyctl.host.children import Children
from partyctl.host.tree import Tree
from partyctl.maps import pack
from partyctl_base.aio import AsyncChannel
from partyctl_base.channel import Channel, ChannelClosed
from partyctl_base.process import set_child_subreaper


async def lend(control: AsyncChannel, embedder: int, directory: Path) -> None:
    """Start a launcher, hand its client channel to the embedder, stay until either is gone."""
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    try:
        watched = os.pidfd_open(embedder)
    except ProcessLookupError:
        return
    loop.add_reader(watched, over.set)
    causes: list[str] = []
    tree = Tree(
        directory, 0, Children(), causes.append, lambda part, verdict: over.set(), policy=RestartPolicy(intensity=0)
    )
    # The embedder says nothing; its end of the channel closes when it needs no worker any more, perhaps while we start.
    waits = [loop.create_task(work) for work in (_start(tree, control, over), control.receive(), over.wait())]
    try:
        if os.getppid() == embedder:
            await asyncio.wait(waits[1:], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        await tree.stop()
        control.close()
        loop.remove_reader(watched)
        os.close(watched)


async def _start(tree: Tree, control: AsyncChannel, over: asyncio.Event) -> None:
    with contextlib.suppress(ChannelClosed):
        try:
            await tree.start()
            client = await tree.hire_client("embedder")
        except HostError as error:
            await control.send(pack({"t": "failed", "error": str(error)}))
            over.set()
            return
        try:
            await control.send(pack({"t": "ready"}), [client.fileno()])
        finally:
            client.close()


@click.command()
@click.option("--control-fd", type=int, required=True)
@click.option("--host-pid", type=int, required=True)
@click.option("--directory", type=click.Path(path_type=Path), required=True)
def main(control_fd: int, host_pid: int, directory: Path) -> None:
    """Serve one embedding program."""
    os.umask(0o077)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    set_child_subreaper()

    async def serve() -> None:
        await lend(AsyncChannel(Channel.from_fd(control_fd)), host_pid, directory)

    try:
        asyncio.run(serve())
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
