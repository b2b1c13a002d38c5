"""Running a file's session: in this process, or by the nodes of a running host. Both tell the same events.

started {run, place} · worker {role, provider, pid, confinement} · delivered {sender, receiver, label, payload}
ended {run, messages}
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path

from partyctl.config import PartyConfig
from partyctl.control import Control
from partyctl.errors import HostError, RunFailed, exit_code, told
from partyctl.maps import Map, pack, unpack
from partyctl.people import Asking, people, shown_once
from partyctl.program import digest, import_program, session_in
from partyctl.recorded import Noting, Origin, recorded
from partyctl.session import Session
from partyctl_actors.journals import Journal
from partyctl_actors.runs import Delivered, Reported, RunEvent, RunStarted, watching
from partyctl_actors.supervision import WorkerStarted
from partyctl_base.errors import PartyError
from partyctl_base.ids import RandomIds
from partyctl_broker.errors import BusError
from partyctl_broker.peer import ZmqBus
from partyctl_broker.port import Letter, Mailbox

ENTER_LIMIT = 5.0
"""Seconds the host may take to let a run in."""

CONNECT_LIMIT = 15.0
"""Seconds the broker may take to answer; on a machine with ten times the work it can do it takes some."""

CANCEL_LIMIT = 10.0
"""Seconds a cancelled run may take to say that it has stopped."""

_ADVICE = "go on with: partyctl runs resume {run}"

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


def run_here(
    path: Path, name: str | None, config: PartyConfig, show: Show, party: str, resumed: str = ""
) -> Coroutine[object, object, int]:
    """Import the file into this process; its session's run here, to be awaited.

    The import comes before any event loop: so Ctrl-C ends one that hangs, and the file may run a loop of its own.

    Args:
        path, name, config, show: which session, and who is told.
        party: in whose state directory it is recorded, unless the session has a journal of its own.
        resumed: the id of a recorded run that is to go on; "" for a new one.

    Raises:
        ProgramError, ConfigError: the file does not hold what was asked for.
        PathError, JournalError: the party's records cannot be kept.
    """
    session = session_in(import_program(path), path, name, config)
    run = resumed or session.id or RandomIds().new_id("run")
    if session.journal is not None:
        return _run(session, session.journal, run, show, "")
    journal = Noting(recorded(party), Origin.of(path, name, config))
    return _run(session, journal, run, show, _ADVICE.format(run=run))


async def _run(session: Session, journal: Journal, run: str, show: Show, advice: str) -> int:
    """Run it. `advice` is noted on an error that ends it after something was said."""
    running = asyncio.current_task()
    assert running is not None
    unshown: list[Exception] = []
    asking = Asking(people(session.cast))
    has_begun = False

    def watch(event: RunEvent) -> None:
        nonlocal has_begun
        has_begun = has_begun or isinstance(event, Delivered)
        started: Map = {"event": "started", "run": run, "place": "in this process"}
        # By now it is recorded: whoever is told that a run began can resume it.
        told = started if isinstance(event, RunStarted) else event_map(event) or asking.event(event)
        if told is not None and not unshown:
            try:
                show(told)
            except Exception as error:  # a full disk, a reader that has had enough: nobody sees the rest
                unshown.append(error)
                running.cancel()
        if session.tracer is not None:
            session.tracer.record(event)

    watched = Session(
        session.protocol,
        {role: shown_once(who) for role, who in session.cast.items()},
        allowance=session.allowance,
        journal=journal,
        tracer=watching(watch),
        id=run,
    )
    try:
        transcript = await watched.arun()
    except asyncio.CancelledError:
        if unshown:
            running.uncancel()
            raise unshown[0] from None
        raise
    except Exception as error:
        if has_begun and advice:
            error.add_note(advice)
        if isinstance(error, PartyError):
            raise
        # A participant's own exception: the caller of the library gets it as it is, a person reads what it says.
        raise RunFailed(told(error), exit_code(error)) from error
    show({"event": "ended", "run": run, "messages": len(transcript)})
    return 0


async def run_there(control: Control, path: Path, name: str | None, config: PartyConfig, show: Show) -> int:
    """Have a running host's node run the file's session, and follow it.

    Raises:
        RunFailed: the run failed; with the exit code its error has.
        HostError: the host takes no run, or the node or broker was lost: how the run ended is then unknown.
        BusError: the broker does not let this process in.
    """
    order: Map = {"t": "run", "path": str(path), "digest": digest(path), "cwd": os.getcwd()}
    entry = enter(control)
    loop = asyncio.get_running_loop()
    follower = Follower(entry.node, show)
    loop.add_reader(control.fileno(), follower.host_gone)
    try:
        bus = await ZmqBus.connect(entry.endpoint, entry.principal, entry.secret, timeout=CONNECT_LIMIT)
        try:
            mailbox = await bus.open(entry.address, follower)
            order |= {"run": entry.run, "name": name, "config": str(config.source or "")}
            mailbox.send(entry.node, pack(order))
            await _followed(follower, mailbox, entry)
        finally:
            await bus.close()
    finally:
        loop.remove_reader(control.fileno())
    return 0


@dataclass(frozen=True, slots=True)
class Entry:
    """What the host gives to one run's submitter: an identity at the broker, and the node that takes the run."""

    run: str
    node: str
    address: str
    endpoint: str
    principal: str
    secret: bytes = field(repr=False)


def enter(control: Control) -> Entry:
    """Ask the host to let one run in.

    Raises:
        HostError: it does not, or its answer is none.
    """
    reply = control.request({"t": "enter"}, ENTER_LIMIT)
    try:
        if reply.get("t") != "entered" or len(reply.fds) != 1:
            raise HostError("the host did not take the run", why=str(reply.get("error", reply.get("t"))))
        return Entry(
            run=str(reply["run"]),
            node=str(reply["node"]),
            address=str(reply["address"]),
            endpoint=str(reply["endpoint"]),
            principal=str(reply["principal"]),
            secret=os.read(reply.fds[0], 64),
        )
    except KeyError as error:
        raise HostError("the host did not take the run", why=f"its answer has no {error}") from None
    finally:
        for fd in reply.fds:
            os.close(fd)


async def _followed(follower: "Follower", mailbox: Mailbox, entry: Entry) -> None:
    """Wait for the end of the run; when cancelled, cancel it, and wait until it has stopped."""
    try:
        await asyncio.shield(follower.over)
    except asyncio.CancelledError:
        with contextlib.suppress(TimeoutError, RunFailed, HostError, BusError):
            mailbox.send(entry.node, pack({"t": "cancel", "run": entry.run}))
            async with asyncio.timeout(CANCEL_LIMIT):
                await asyncio.shield(follower.over)
        raise


class Follower:
    """Hears what a node tells about one run. `over` ends with the run."""

    def __init__(self, node: str, show: Show) -> None:
        self.node = node
        self._show = show
        self._advice = ""
        self._has_begun = False
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def letter(self, letter: Letter) -> None:
        """One event, or the last word; what is neither is dropped."""
        try:
            message = unpack(letter.payload)
        except ValueError:
            return
        event = message.get("event")
        if letter.source != self.node or self.over.done() or not isinstance(event, str):
            return
        if event == "failed":
            code = message.get("code")
            failed = RunFailed(str(message.get("error")), code if isinstance(code, int) else 1)
            if self._has_begun:
                failed.add_note(self._advice)
            self._end(failed)
            return
        if event == "started":
            self._advice = _ADVICE.format(run=message.get("run"))
        self._has_begun = self._has_begun or event == "delivered"
        try:
            self._show(message)
        except Exception as error:  # a full disk, a reader that has had enough: nobody sees the rest
            self._end(error)
        if event == "ended":
            self._end(None)

    def undelivered(self, letter_id: int, destination: str, why: str) -> None:
        """The order did not arrive."""
        self._end(HostError("the run was not started", where=destination, why=why, fix="Run it again"))

    def gone(self, address: str, unknown: tuple[int, ...], why: str) -> None:
        """The node died, or this end is closed for good."""
        what = "the node that ran the session is gone" if address == self.node else "the broker was lost during the run"
        self._end(HostError(what, where=address, why=why, fix=self._then()))

    def link_lost(self, why: str) -> None:
        """The broker died; the host starts another, and the run goes on."""

    def host_gone(self) -> None:
        """The host closed the conversation, which it does only by ending."""
        self._end(HostError("the host ended during the run", fix=self._then()))

    def _then(self) -> str:
        """What to do after the run was lost: what was decided is recorded."""
        return self._advice[:1].upper() + self._advice[1:] or "Run it again"

    def _end(self, error: Exception | None) -> None:
        if self.over.done():
            return
        if error is None:
            self.over.set_result(None)
        else:
            self.over.set_exception(error)
            self.over.exception()  # whoever follows may have left; then the error is not an unheard one
