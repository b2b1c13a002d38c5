"""The node's side of a code host: the process that imports the user's file, one per digest.

node -> code host   import {path, cwd, env, config, endpoint, principal, secret}
                    run {run, name} · start {run} · over {run}
code host -> node   imported · planned {run, plan} · failed {run?, error}
"""

import asyncio
import os
from dataclasses import dataclass

from partyctl.errors import CodeHostLost, ProgramError
from partyctl.maps import Map, pack, unpack
from partyctl_base.channel import ChannelClosed
from partyctl_confinement.client import Hired, LauncherClient

IMPORT_LIMIT = 30.0
"""Seconds the import of the user's file may take."""

TAIL_LINES = 8
"""How many of a dead code host's last lines an error shows."""

MAIN = "partyctl.node.codehost:main"


@dataclass(frozen=True, slots=True)
class Program:
    """Which file, as its submitter saw it."""

    path: str
    digest: str
    cwd: str
    config: str = ""


class CodeHost:
    """One code host, alive. Made by `start`; counts the runs it has, so that its owner knows when to end it."""

    def __init__(self, program: Program, hired: Hired) -> None:
        self.program = program
        self.runs: set[str] = set()
        self.principal = ""
        self._hired = hired
        self._answers: dict[str, asyncio.Future[Map]] = {}
        self._reader = asyncio.get_running_loop().create_task(self._listen())

    @staticmethod
    async def start(launcher: LauncherClient, program: Program, admission: Map) -> "CodeHost":
        """Fork a code host and have it import the file.

        Raises:
            ProgramError: the import failed, or took longer than its limit.
            CodeHostLost: the import ended the process.
        """
        name = os.path.basename(program.path)
        labels = {"program": program.path, "provider": "", "role": "", "run": ""}
        hired = await launcher.spawn(name=f"code {name}", main=MAIN, labels=labels)
        host = CodeHost(program, hired)
        host.principal = str(admission["principal"])
        order: Map = {"t": "import", "path": program.path, "digest": program.digest, "cwd": program.cwd}
        order["config"] = program.config
        try:
            await host.ask("", order | {"env": dict(os.environ)} | admission, limit=IMPORT_LIMIT)
        except BaseException:
            await host.end()
            raise
        return host

    async def ask(self, run: str, order: Map, *, limit: float) -> Map:
        """Send an order about `run` ("" for the import) and wait for its answer.

        Raises:
            ProgramError: it failed, or `limit` seconds passed.
            CodeHostLost: the process ended.
        """
        answer = self._answers[run] = asyncio.get_running_loop().create_future()
        exiting = asyncio.ensure_future(self._hired.exited())
        try:
            await self.tell(order)
            await asyncio.wait((answer, exiting), timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                reply: Map = answer.result()
                if reply["t"] == "failed":
                    raise ProgramError(
                        str(reply["what"]), **{name: str(reply[name]) for name in ("where", "why", "fix")}
                    )
                return reply
            if exiting.done():
                raise await self.lost()
            doing = "imported" if not run else "asked for its session"
            raise ProgramError(
                f"the file was not {doing} within {limit:.0f} s",
                where=self.program.path,
                fix="Keep what takes long out of the file's top level",
            )
        finally:
            self._answers.pop(run, None)
            exiting.cancel()

    async def tell(self, order: Map) -> None:
        """Send an order that has no answer; a code host that is gone is seen by `lost`."""
        try:
            await self._hired.channel.send(pack(order))
        except ChannelClosed:
            return

    async def lost(self) -> CodeHostLost:
        """Wait until the process ends; the error that says how."""
        notice = await self._hired.exited()
        tail = notice.stderr.decode(errors="replace").strip().splitlines()[-TAIL_LINES:]
        return CodeHostLost(self.program.path, notice.describe(), "\n".join(tail))

    async def end(self) -> None:
        """End the process and everything it started."""
        self._hired.channel.close()
        await self._hired.kill()
        self._reader.cancel()

    async def _listen(self) -> None:
        while (received := await self._hired.channel.receive()) is not None:
            message = unpack(received.data)
            answer = self._answers.get(str(message.get("run", "")))
            if answer is not None and not answer.done():
                answer.set_result(message)
