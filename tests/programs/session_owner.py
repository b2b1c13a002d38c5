"""python session_owner.py FD PIDS: the supervisor of an agent session whose turn leaves a child behind, and hangs.

FD is a client's end of a launcher's channel; the pid of the worker is printed.
"""

import asyncio
import os
import sys

from partyctl_actors.supervision import Supervisor, WorkerPlan
from partyctl_base.aio import AsyncChannel
from partyctl_base.channel import Channel
from partyctl_confinement.client import LauncherClient
from partyctl_plugins.contract import ApprovalPolicy, ConversationSpec, NativePermissions, TransportKind, TurnRequest
from partyctl_plugins.manager import ProviderEntry


async def main(fd: int, pids: str) -> None:
    launcher = LauncherClient(AsyncChannel(Channel.from_fd(fd)))
    spec = ConversationSpec("/", NativePermissions.bypass(), ApprovalPolicy.DENY)
    provider = ProviderEntry("stubborn", "stubborn_plugin", "test-plugins", "1.0")
    env = {"PATH": os.environ["PATH"]}
    labels = {"session": "s-1"}
    plan = WorkerPlan(provider, TransportKind.STREAM, spec, {"pids": pids}, env, labels=labels, epoch=1)
    supervisor = Supervisor(launcher, plan, lambda event: None)
    await supervisor.open(lambda pid, confinement: print(pid, flush=True))
    await supervisor.turn("t-1", TurnRequest("go"))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
