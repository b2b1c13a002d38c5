"""Running a file's session: in this process, or by the nodes of a running host. Both tell the same events.

started {run, place} · worker {role, provider, pid, confinement} · delivered {sender, receiver, label, payload}
ended {run, messages}
"""

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from partyctl.config import PartyConfig
from partyctl.control import Control
from partyctl.errors import HostError, RunFailed, exit_code, told
from partyctl.maps import Map, pack, unpack
from partyctl.program import digest, import_program, session_in
from partyctl.session import Session
from partyctl_actors.runs import Delivered, Reported, RunEvent, watching
from partyctl_actors.supervision import WorkerStarted
from partyctl_base.errors import PartyError
from partyctl_base.ids import RandomIds
from partyctl_broker.peer import ZmqBus
from partyctl_broker.port import Letter

ENTER_LIMIT = 5.0
"""Seconds the host may take to let a run in."""

CANCEL_LIMIT = 10.0
"""Seconds a cancelled run may take to say that it has stopped."""

Show = Callable[[Map], None]


def event_map(event: object) -> Map | None:
    """What a run's event tells outside its process; None for what only matters inside."""
    if isinstance(event, Delivered):
        envelope = event.envelope
        said: Map = {"event": "delivered", "sender": envelope.sender.name, "receiver": envelope.receiver.name}
        return said | {"label": envelope.label, "payload": envelope.payload}
    if isinstance(event, Reported):
        return event_map(event.event)
    if isinstance(event, WorkerStarted):
        worker: Map = {"event": "worker", "role": event.role, "provider": event.provider, "pid": event.pid}
        return worker | {"confinement": event.confinement}
    return None


async def run_here(path: Path, name: str | None, config: PartyConfig, show: Show) -> int:
    """Import the file into this process and run its session here."""
    session = session_in(import_program(path), path, name, config)
    run = session.id or RandomIds().new_id("run")
    show({"event": "started", "run": run, "place": "in this process"})

    def watch(event: RunEvent) -> None:
        if session.tracer is not None:
            session.tracer.record(event)
        told = event_map(event)
        if told is not None:
            show(told)

    watched = Session(
        session.protocol,
        session.cast,
        allowance=session.allowance,
        journal=session.journal,
        tracer=watching(watch),
        id=run,
    )
    try:
        transcript = await watched.arun()
    except PartyError:
        raise
    except Exception as error:
        # A participant's own exception: the caller of the library gets it as it is, a person reads what it says.
        raise RunFailed(told(error), exit_code(error)) from error
    show({"event": "ended", "run": run, "messages": len(transcript)})
    return 0


async def run_there(control: Control, path: Path, name: str | None, config: PartyConfig, show: Show) -> int:
    """Have a running host's node run the file's session, and follow it.

    Raises:
        RunFailed: the run failed; with the exit code its error has.
        HostError: the host takes no run, or the node or broker was lost: how the run ended is then unknown.
    """
    reply = control.request({"t": "enter"}, ENTER_LIMIT)
    if reply["t"] != "entered":
        raise HostError("the host did not take the run", why=str(reply.get("error")))
    secret = os.read(reply.fds[0], 64)
    os.close(reply.fds[0])
    bus = await ZmqBus.connect(str(reply["endpoint"]), str(reply["principal"]), secret)
    try:
        follower = Follower(str(reply["node"]), show)
        asyncio.get_running_loop().add_reader(control.fileno(), follower.host_gone)
        mailbox = await bus.open(str(reply["address"]), follower)
        run = str(reply["run"])
        order: Map = {"t": "run", "run": run, "path": str(path), "digest": digest(path), "cwd": os.getcwd()}
        mailbox.send(follower.node, pack(order | {"name": name, "config": str(config.source or "")}))
        try:
            await asyncio.shield(follower.over)
        except asyncio.CancelledError:
            mailbox.send(follower.node, pack({"t": "cancel", "run": run}))
            with contextlib.suppress(TimeoutError, RunFailed, HostError):
                async with asyncio.timeout(CANCEL_LIMIT):
                    await asyncio.shield(follower.over)
            raise
        return 0
    finally:
        asyncio.get_running_loop().remove_reader(control.fileno())
        await bus.close()


class Follower:
    """Hears what a node tells about one run. `over` ends with the run."""

    def __init__(self, node: str, show: Show) -> None:
        self.node = node
        self._show = show
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def letter(self, letter: Letter) -> None:
        """One event, or the last word."""
        message = unpack(letter.payload)
        if message.get("event") == "failed":
            self._end(RunFailed(str(message["error"]), int(str(message["code"]))))
            return
        self._show(message)
        if message.get("event") == "ended":
            self._end(None)

    def undelivered(self, letter_id: int, destination: str, why: str) -> None:
        """The order did not arrive."""
        self._end(HostError("the run was not started", where=destination, why=why, fix="Run it again"))

    def gone(self, address: str, unknown: tuple[int, ...], why: str) -> None:
        """The node died."""
        self._end(HostError("the node that ran the session is gone", where=address, why=why, fix="Run it again"))

    def link_lost(self, why: str) -> None:
        """The broker died, and with it the conversation between the roles."""
        self._end(HostError("the broker was lost during the run", why=why, fix="Run it again"))

    def host_gone(self) -> None:
        """The host closed the conversation, which it does only by ending."""
        self._end(HostError("the host ended during the run", fix="Start it with: partyctl up. Then run it again"))

    def _end(self, error: Exception | None) -> None:
        if self.over.done():
            return
        if error is None:
            self.over.set_result(None)
        else:
            self.over.set_exception(error)
