"""The node's side of a code host: the process that imports the user's file, one per digest.

node -> code host   import {path, digest, cwd, env, config, endpoint, principal, secret}
                    run {run, name} · start {run, id} · over {run}
code host -> node   imported · planned {run, plan} · played {run} · failed {run, error, code}

`run` is the order's id, `id` the run's. `import`, `run` and `start` are answered; `start` when all roles in the code
host have ended.
"""

import asyncio
import contextlib
import os
from dataclasses import dataclass

from partyctl.errors import CodeHostLost, ProgramError, RunFailed
from partyctl.maps import Map, pack, unpack
from partyctl_base.channel import ChannelClosed
from partyctl_confinement.client import Hired, LauncherClient

IMPORT_LIMIT = 30.0
"""Seconds the import of the user's file may take."""

EXIT_LIMIT = 2.0
"""Seconds a code host that has closed its channel gets to end by itself, so that its own exit status is seen."""

END_LIMIT = 10.0
"""Seconds until a code host that was killed must be gone."""

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
    """One code host, alive. Made by `start`; whoever made it ends it.

    Attributes:
        program: the file it imported.
        principal: its name at the broker.
        is_lost: whether it can answer nothing any more.
    """

    def __init__(self, program: Program, principal: str, hired: Hired) -> None:
        self.program = program
        self.principal = principal
        self.is_lost = False
        self._hired = hired
        self._answers: dict[str, asyncio.Future[Map]] = {}
        self._reader = asyncio.get_running_loop().create_task(self._listen())

    @staticmethod
    async def start(launcher: LauncherClient, program: Program, admission: Map) -> "CodeHost":
        """Fork a code host and have it import the file.

        Raises:
            RunFailed: the import failed.
            ProgramError: it took longer than its limit.
            CodeHostLost: the import ended the process.
            ConfinementError: it could not be forked.
        """
        labels = {"program": program.path, "provider": "", "role": "", "run": ""}
        hired = await launcher.spawn(name=f"code {os.path.basename(program.path)}", main=MAIN, labels=labels)
        host = CodeHost(program, str(admission["principal"]), hired)
        order: Map = {"t": "import", "path": program.path, "digest": program.digest, "cwd": program.cwd}
        order |= {"config": program.config, "env": dict(os.environ)}
        try:
            await host.ask("", order | admission, limit=IMPORT_LIMIT)
        except BaseException:
            await host.end()
            raise
        return host

    @property
    def id(self) -> str:
        """The launcher's id of the process."""
        return self._hired.id

    async def ask(self, run: str, order: Map, *, limit: float | None) -> Map:
        """Send an order about `run` ("" for the import) and wait for its answer; one order about a run at a time.

        Raises:
            RunFailed: it failed; the error as the code host words it.
            ProgramError: `limit` seconds passed.
            CodeHostLost: the process ended.
        """
        assert run not in self._answers
        answer = self._answers[run] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(limit):
                await self.tell(order)
                await asyncio.wait((answer, self._reader), return_when=asyncio.FIRST_COMPLETED)
                if not answer.done():
                    raise await self._lost()
        except TimeoutError:
            doing = "asked for its session" if run else "imported"
            fix = "Keep what takes long out of the file's top level"
            raise ProgramError(
                f"the file was not {doing} within {limit or 0:.0f} s", where=self.program.path, fix=fix
            ) from None
        finally:
            del self._answers[run]
        reply: Map = answer.result()
        if reply.get("t") == "failed":
            code = reply.get("code")
            raise RunFailed(str(reply.get("error")), code if isinstance(code, int) else 1)
        return reply

    async def tell(self, order: Map) -> None:
        """Send an order that has no answer; a code host that is gone is seen by those who ask."""
        try:
            await self._hired.channel.send(pack(order))
        except ChannelClosed:
            return

    async def end(self) -> None:
        """End the process and everything it started."""
        self._hired.channel.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_LIMIT):
                await self._hired.kill()
                await self._reader

    async def _lost(self) -> CodeHostLost:
        notice = await self._hired.exited()
        tail = notice.stderr.decode(errors="replace").strip().splitlines()[-TAIL_LINES:]
        return CodeHostLost(self.program.path, notice.describe(), "\n".join(tail))

    async def _listen(self) -> None:
        while (received := await self._hired.channel.receive()) is not None:
            for fd in received.fds:
                os.close(fd)
            try:
                message = unpack(received.data)
            except ValueError:
                break  # The file's code wrote to our channel. Nothing that follows can be trusted.
            answer = self._answers.get(str(message.get("run", "")))
            if answer is not None and not answer.done():
                answer.set_result(message)
        self.is_lost = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(EXIT_LIMIT):
                await self._hired.exited()
        await self._hired.kill()
