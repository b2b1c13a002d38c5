"""Running a file's session: in this process, or by the nodes of a running host. Both tell the same events.

started {run, place} · worker {role, provider, pid, confinement} · delivered {sender, receiver, label, payload}
decided {role, rule, cause, wait, ...}, a decision of the recovery rules about the agent of a role
ended {run, messages}; at a node also gone {node, why}, when it died and the next one is to go on
"""

import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path

from partyctl.config import PartyConfig
from partyctl.control import Control
from partyctl.errors import RunFailed, exit_code, told
from partyctl.following import Entry, Listener, Losses, NodeGone, Show, follow
from partyctl.happenings import happening
from partyctl.maps import Map
from partyctl.people import Asking, people, shown_once
from partyctl.program import digest, import_program, session_in
from partyctl.recorded import Noting, Origin, recorded
from partyctl.session import Session
from partyctl.tracebacks import keep
from partyctl_actors.journals import Journal
from partyctl_actors.runs import Delivered, Reported, RunEvent, RunStarted, watching
from partyctl_actors.runs.reports import line_of
from partyctl_actors.supervision import WorkerStarted
from partyctl_actors.supervision.policy_commands import Decided
from partyctl_base.errors import PartyError
from partyctl_base.ids import RandomIds

_ADVICE = "go on with: partyctl runs resume {run}"


def event_map(event: object, role: str = "") -> Map | None:
    """What a run's event tells outside its process; None for what only matters inside.

    Args:
        event: what the run tells, or one of its roles.
        role: whose event it is, if it does not say so.
    """
    if isinstance(event, Delivered):
        envelope = event.envelope
        said: Map = {"event": "delivered", "sender": envelope.sender.name, "receiver": envelope.receiver.name}
        return said | {"label": envelope.label, "payload": envelope.payload}
    if isinstance(event, Reported):
        return event_map(event.event, event.role)
    if isinstance(event, WorkerStarted):
        worker: Map = {"event": "worker", "role": event.role, "provider": event.provider, "pid": event.pid}
        return worker | {"confinement": event.confinement}
    if isinstance(event, Decided) and (line := happening(event)) is not None:
        return {"event": "decided", "role": role, "cause": line.cause, **line.fields}
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
        return _run(session, None, run, show, party)
    return _run(session, Noting(recorded(party), Origin.of(path, name, config)), run, show, party)


async def _run(session: Session, recording: Journal | None, run: str, show: Show, party: str) -> int:
    """Run it. `recording` is the party's journal, None if the session has one of its own."""
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
        journal=recording or session.journal,
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
        if line_of(error) and (file := keep(party, run, error)) is not None:
            error.add_note(f"the whole traceback: {f'partyctl runs show {run}' if recording else file}")
        if has_begun and recording:
            error.add_note(_ADVICE.format(run=run))
        if isinstance(error, PartyError):
            raise
        # A participant's own exception: the caller of the library gets it as it is, a person reads what it says.
        raise RunFailed(told(error), exit_code(error)) from error
    show({"event": "ended", "run": run, "messages": len(transcript)})
    return 0


async def run_there(
    control: Control, path: Path, name: str | None, config: PartyConfig, show: Show, resumed: str = ""
) -> int:
    """Have a running host's node run the file's session, and follow it.

    Args:
        control: the host.
        path, name, config, show, resumed: as for `run_here`.

    Raises:
        RunFailed: the run failed; with the exit code its error has.
        HostError: the host takes no run, or the node or broker was lost: how the run ended is then unknown.
        BusError: the broker does not let this process in.
    """
    order: Map = {"t": "run", "path": str(path), "digest": digest(path), "cwd": os.getcwd()}
    order |= {"name": name, "config": str(config.source or ""), "resume": resumed}
    await follow(control, None, lambda entry: Follower(entry, {**order, "run": entry.run}, show))
    return 0


class Follower(Listener):
    """Hears what a node tells about one run.

    A run whose node died goes on from its record at the next one, by itself as long as it comes further: one that
    loses its node twice without a decision in between may be what kills it.
    """

    losses = Losses(
        absent="the run was not started",
        node="the node that ran the session is gone",
        broker="the broker was lost during the run",
        host="the host ended during the run",
    )

    def __init__(self, entry: Entry, order: Map, show: Show) -> None:
        super().__init__(entry, order, show)
        self._told = 0
        self._known = 0
        self._deaths = 0

    def hear(self, event: str, message: Map) -> bool:
        """See `Listener.hear`. What was told by an earlier node is not told again."""
        if event == "started":
            if self.begun:
                return False
            self.begun = str(message.get("run"))
        elif event == "delivered":
            if self._known:
                self._known -= 1
                return False
            self._told, self._deaths = self._told + 1, 0
        self._show(message)
        return event == "ended"

    def may_go_on(self, gone: NodeGone) -> bool:
        """See `Listener.may_go_on`."""
        self._deaths += gone.has_heard
        return super().may_go_on(gone) and self._deaths < 2

    def again(self, gone: NodeGone) -> None:
        """See `Listener.again`."""
        super().again(gone)
        self._known = self._told

    def failed(self, error: RunFailed) -> RunFailed:
        """See `Listener.failed`."""
        if self._told:
            error.add_note(_ADVICE.format(run=self.begun))
        return error

    def going_on(self) -> Map:
        """See `Listener.going_on`."""
        return {**self.order, "resume": self.begun}

    def ending(self) -> Map:
        """See `Listener.ending`."""
        return {"t": "cancel", "run": self.entry.run}

    def fix(self) -> str:
        """See `Listener.fix`: what was decided is recorded."""
        advice = _ADVICE.format(run=self.begun)
        return advice[:1].upper() + advice[1:] if self.begun else "Run it again"
