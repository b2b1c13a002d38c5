"""A host with one worker, for tests that kill it or its launcher: prints its pids, then what it swept."""

import asyncio
import json
import os
import sys
from pathlib import Path

from partyctl_base import process
from partyctl_base.aio import AsyncChannel
from partyctl_confinement.client import LauncherClient
from partyctl_confinement.control import LauncherProcess
from partyctl_confinement.reaper import sweep_children


async def main(directory: Path) -> None:
    process.set_child_subreaper()
    launcher = LauncherProcess.start(
        preload=["worker_mains"],
        records=directory / "records",
        environment={"PYTHONPATH": str(Path(__file__).parent)},
    )
    client = LauncherClient(AsyncChannel(launcher.add_client("host")))
    hired = await client.spawn(name="doomed", main="worker_mains:leaves_orphans")
    await hired.channel.send(os.fsencode(directory))
    await hired.channel.receive()
    print(json.dumps({"launcher": launcher.pid, "worker": hired.pid}), flush=True)
    notice = await hired.exited()
    launcher.kill()
    swept = sweep_children(())
    print(json.dumps({"cause": notice.cause, "left": swept.left, "killed": len(swept.killed)}), flush=True)
    hired.channel.close()
    await client.close()


asyncio.run(main(Path(sys.argv[1])))
