"""The process that imports the user's file and plays the roles that are code: forked by the launcher for a node.

It is a peer of the broker like any other. What it prints goes to its stderr, whose tail the launcher keeps. It is a
subreaper: what the file's code starts in the background belongs to the file, whose runs may share it, lives until the
last of them is over, and is then killed by the launcher. What of it ends before that is reaped here.
"""

import asyncio
import contextlib
import os
import signal
import traceback
from collections.abc import Coroutine
from pathlib import Path
from types import ModuleType

from partyctl.casting import describe_agent
from partyctl.config import PartyConfig
from partyctl.config import load as load_config
from partyctl.errors import ProgramError, exit_code, told
from partyctl.following import CONNECT_LIMIT
from partyctl.maps import Map, pack, unpack
from partyctl.people import people
from partyctl.program import import_program, session_in
from partyctl.session import Session
from partyctl_actors.participants import Agent, Seat
from partyctl_actors.protocol import Role, definition
from partyctl_actors.runs import RoleActor
from partyctl_actors.runs.contained import bound, contained
from partyctl_actors.runs.reports import line_of
from partyctl_actors.runs.settle import settle
from partyctl_base.aio import AsyncChannel
from partyctl_base.channel import Channel, ChannelClosed
from partyctl_base.looping import run_loop
from partyctl_broker.peer import ZmqBus
from partyctl_confinement.orphans import Orphans

OVER_LIMIT = 5.0
"""Seconds the roles of a run that is over get to end."""

REAP_EVERY = 10.0
"""Seconds between two looks at children that ended and that nobody waits for; they are reaped at the second."""


def main(channel: Channel) -> int:
    """Serve one node until it closes the channel; the exit status."""

    async def serve() -> int:
        return await CodeHost(AsyncChannel(channel)).serve()

    # Nobody presses Ctrl-C here: whatever raises KeyboardInterrupt is the file's. Not SIG_IGN, which its children would
    # inherit.
    signal.signal(signal.SIGINT, lambda _number, _frame: None)
    return run_loop(serve())


class CodeHost:
    """Imports one file, then describes and plays its sessions, as many runs as the node asks for."""

    def __init__(self, channel: AsyncChannel) -> None:
        self._channel = channel
        self._bus: ZmqBus | None = None
        self._path = Path()
        self._config = PartyConfig()
        self._module = ModuleType("nothing_yet")
        self._sessions: dict[str, Session] = {}
        self._roles: dict[str, list[asyncio.Task[None]]] = {}
        self._background: set[asyncio.Task[None]] = set()

    async def serve(self) -> int:
        """Answer the node's orders until end-of-file."""
        reaping = asyncio.create_task(_reaping())
        try:
            await self._serve()
        finally:
            reaping.cancel()
        return 0

    async def _serve(self) -> None:
        while (received := await self._channel.receive()) is not None:
            order = unpack(received.data)
            run = str(order.get("run", ""))
            if order["t"] == "import":
                await self._answer(run, self._import(order))
            elif order["t"] == "run":
                await self._answer(run, self._plan(run, order))
            elif order["t"] == "start":
                # Not awaited, nor is the end of a run: the orders of other runs are waiting.
                self._spawn(self._answer(run, self._play(run, str(order["id"]))))
            elif order["t"] == "over":
                self._spawn(self._over(run))
        for run in list(self._roles):
            self._spawn(self._over(run))
        await asyncio.gather(*self._background, return_exceptions=True)
        if self._bus is not None:
            await self._bus.close()
        self._channel.close()

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _answer(self, run: str, work: Coroutine[object, object, Map]) -> None:
        """Do it, and tell the node how it went; whatever goes wrong ends this run and no other."""
        try:
            answer = await work
        except asyncio.CancelledError:
            raise
        except BaseException as raised:
            error = contained(raised)
            answer = {"t": "failed", "error": told(error), "code": exit_code(error)}
        # If the node is gone, the loop in `serve` sees that next.
        with contextlib.suppress(ChannelClosed):
            await self._channel.send(pack(answer | {"run": run}))

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
        endpoint, principal = str(order["endpoint"]), str(order["principal"])
        self._bus = await ZmqBus.connect(endpoint, principal, secret, timeout=CONNECT_LIMIT)
        return {"t": "imported"}

    async def _plan(self, run: str, order: Map) -> Map:
        name = order.get("name")
        session = session_in(self._module, self._path, str(name) if name else None, self._config)
        missing = session.missing
        if missing:
            raise ProgramError(
                f"nobody plays {', '.join(role.name for role in missing)}",
                where=str(self._path),
                fix="Cast the role in the Session, or in party.toml under [roles]",
            )
        self._refuse_own(session)
        agents = {role.name: describe_agent(who) for role, who in session.cast.items() if is_hosted(who)}
        allowance = session.allowance
        plan = {
            "id": session.id,
            "protocol": definition(session.protocol),
            "agents": agents,
            "people": people(session.cast),
            "allowance": {name: getattr(allowance, name) for name in ("steps", "unfoldings", "tokens", "wall_clock")},
        }
        try:
            pack(plan)
        except (TypeError, ValueError, OverflowError) as error:
            fix = "Give agents options of plain data: text, numbers, lists and dicts"
            raise ProgramError(
                "an agent cannot be told to another process", where=str(self._path), why=str(error), fix=fix
            ) from error
        self._sessions[run] = session
        return {"t": "planned", "plan": plan}

    def _refuse_own(self, session: Session) -> None:
        """A run is conducted and recorded by a node: what the file's own objects would keep, they would not get."""
        for name, own in (("journal", session.journal), ("tracer", session.tracer)):
            if own is not None:
                raise ProgramError(
                    f"a running party does not use a session's own {name}",
                    where=str(self._path),
                    why="its nodes conduct the run, and record it in the party's own journal",
                    fix=f"Leave {name}= out, and see partyctl runs; or run it without this party, which "
                    "partyctl run --party NAME does for a name that is not up",
                )

    async def _play(self, run: str, run_id: str) -> Map:
        """Play the roles that are code, until all of them have ended or one cannot be played."""
        assert self._bus is not None
        session = self._sessions[run]
        played = [role for role, who in session.cast.items() if not is_hosted(who)]
        actors = [self._actor(self._bus, run_id, session, role) for role in played]
        playing = self._roles[run] = [asyncio.create_task(_played(actor)) for actor in actors]
        if playing:
            await asyncio.wait(playing, return_when=asyncio.FIRST_EXCEPTION)
        for task in playing:
            if task.done():
                task.result()
        return {"t": "played"}

    async def _over(self, run: str) -> None:
        """The conductor has told the roles already; those that do not end in time are cancelled."""
        self._sessions.pop(run, None)
        await settle(self._roles.pop(run, []), OVER_LIMIT, f"a role of {run}")

    def _actor(self, bus: ZmqBus, run_id: str, session: Session, role: Role) -> RoleActor:
        seat = Seat(run_id, role, session.protocol)
        return RoleActor(bus, run_id, role, session.protocol, bound(session.cast[role], seat), meter=seat.meter)


async def _reaping() -> None:
    orphans = Orphans()
    while True:
        with contextlib.suppress(OSError):  # no descriptor is left to look with
            orphans.reap()
        await asyncio.sleep(REAP_EVERY)


async def _played(actor: RoleActor) -> None:
    """Play a role; if it fails in the file's own code, print where, for `partyctl logs`."""
    await actor.run()
    if actor.failure is not None and line_of(actor.failure):
        traceback.print_exception(actor.failure)


def is_hosted(participant: object) -> bool:
    """Whether a node plays this participant itself: an agent behind an installed provider."""
    return isinstance(participant, Agent) and participant.provider is not None
