"""The process that imports the user's file and plays the roles that are code: forked by the launcher for a node.

It is a peer of the broker like any other. What it prints goes to its stderr, whose tail the launcher keeps.
"""

import asyncio
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from types import ModuleType

from partyctl.casting import describe_agent
from partyctl.config import PartyConfig
from partyctl.config import load as load_config
from partyctl.errors import ProgramError
from partyctl.maps import Map, pack, unpack
from partyctl.program import import_program, session_in
from partyctl.session import Session
from partyctl_actors.participants import Agent, Seat
from partyctl_actors.protocol import Role, definition
from partyctl_actors.runs import RoleActor
from partyctl_base.aio import AsyncChannel
from partyctl_base.channel import Channel, ChannelClosed
from partyctl_base.errors import PartyError
from partyctl_broker.peer import ZmqBus


def main(channel: Channel) -> int:
    """Serve one node until it closes the channel; the exit status."""

    async def serve() -> int:
        return await CodeHost(AsyncChannel(channel)).serve()

    return asyncio.run(serve())


class CodeHost:
    """Imports one file, then describes and plays its sessions, as many runs as the node asks for."""

    def __init__(self, channel: AsyncChannel) -> None:
        self._channel = channel
        self._bus: ZmqBus | None = None
        self._path = Path()
        self._config = PartyConfig()
        self._module = ModuleType("nothing_yet")
        self._sessions: dict[str, Session] = {}
        self._playing: dict[str, list[asyncio.Task[None]]] = {}

    async def serve(self) -> int:
        """Answer the node's orders until end-of-file."""
        orders = {"import": self._import, "run": self._plan, "start": self._start, "over": self._over}
        while (received := await self._channel.receive()) is not None:
            order = unpack(received.data)
            await self._answer(order, orders[str(order["t"])](order))
        for run in list(self._playing):
            await self._over({"run": run})
        if self._bus is not None:
            await self._bus.close()
        return 0

    async def _answer(self, order: Map, work: Coroutine[object, object, Map | None]) -> None:
        try:
            answer = await work
        except PartyError as error:
            parts = {name: str(getattr(error, name)) for name in ("what", "where", "why", "fix")}
            answer = {"t": "failed", **parts}
        if answer is not None:
            try:
                await self._channel.send(pack(answer | {"run": order.get("run", "")}))
            except ChannelClosed:
                return  # the node is gone; the loop in `serve` sees that next

    async def _import(self, order: Map) -> Map:
        environment = order["env"]
        assert isinstance(environment, dict)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(str(order["cwd"]))
        self._path = Path(str(order["path"]))
        self._config = load_config(Path(str(order["config"])) if order.get("config") else None)
        try:
            self._module = import_program(self._path, expected=str(order["digest"]))
        except KeyboardInterrupt:
            # Nobody can press Ctrl-C here: the file raised it.
            raise ProgramError(
                "the file could not be imported", where=str(self._path), why="KeyboardInterrupt"
            ) from None
        secret = order["secret"]
        assert isinstance(secret, bytes)
        self._bus = await ZmqBus.connect(str(order["endpoint"]), str(order["principal"]), secret)
        return {"t": "imported"}

    async def _plan(self, order: Map) -> Map:
        name = order.get("name")
        session = session_in(self._module, self._path, str(name) if name else None, self._config)
        missing = session.missing
        if missing:
            raise ProgramError(
                f"nobody plays {', '.join(role.name for role in missing)}",
                where=str(self._path),
                fix="Cast the role in the Session, or in party.toml under [roles]",
            )
        self._sessions[str(order["run"])] = session
        agents = {role.name: describe_agent(who) for role, who in session.cast.items() if is_hosted(who)}
        allowance = session.allowance
        plan = {
            "protocol": definition(session.protocol),
            "agents": agents,
            "allowance": {name: getattr(allowance, name) for name in ("steps", "unfoldings", "tokens", "wall_clock")},
        }
        return {"t": "planned", "plan": plan}

    async def _start(self, order: Map) -> None:
        run = str(order["run"])
        session = self._sessions[run]
        self._playing[run] = [
            asyncio.get_running_loop().create_task(self._play(run, session, role))
            for role, who in session.cast.items()
            if not is_hosted(who)
        ]

    async def _play(self, run: str, session: Session, role: Role) -> None:
        assert self._bus is not None
        seat = Seat(run, role, session.protocol, None, lambda event: None)
        player = session.cast[role].bind(seat)
        await RoleActor(self._bus, run, role, session.protocol, player, meter=seat.meter).run()

    async def _over(self, order: Map) -> None:
        run = str(order["run"])
        self._sessions.pop(run, None)
        tasks = self._playing.pop(run, [])
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=5.0)
            for task in late:
                task.cancel()
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(outcome, Exception):
                    print(f"a role of {run} ended with {outcome!r}", file=sys.stderr)


def is_hosted(participant: object) -> bool:
    """Whether a node plays this participant itself: an agent behind an installed provider."""
    return isinstance(participant, Agent) and participant.provider is not None
