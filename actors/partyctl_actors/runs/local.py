"""One run within the calling process: its lines, its conductor and all its role actors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from partyctl_actors.journals import Journal, MemoryJournal
from partyctl_actors.participants.interface import Participant, Seat, WorkerSource, unwatched
from partyctl_actors.protocol.protocol import Protocol
from partyctl_actors.protocol.role import Role
from partyctl_actors.runs.allowance import Allowance
from partyctl_actors.runs.conduct import Conductor
from partyctl_actors.runs.contained import bound, contained
from partyctl_actors.runs.limits import Limits
from partyctl_actors.runs.lines import DirectLines
from partyctl_actors.runs.role_actor import RoleActor
from partyctl_actors.runs.settle import settle, settled
from partyctl_actors.runs.tracing import Reported, RunEvent, Tracer, harmless
from partyctl_actors.runs.verdict import Ending
from partyctl_actors.supervision.run_logs import run_logs
from partyctl_actors.transcript import Transcript
from partyctl_base.errors import PartyError

if TYPE_CHECKING:
    from partyctl_confinement.client import LauncherClient


class LocalRun:
    """One execution of a protocol by a cast. Make it, then `execute` it once.

    Args:
        protocol, cast: who says what; the cast is complete.
        run_id: its id.
        allowance: what it may spend.
        journal: where it is recorded; None for memory that goes with it.
        tracer: told what happens; what it raises is logged.
        workers: makes the source of worker processes when the first is wanted; None if there is none.
        limits: how long it waits for those who take part.

    Raises:
        JournalError, ProtocolMismatch: the record of this id cannot be used.
    """

    def __init__(
        self,
        protocol: Protocol,
        cast: Mapping[Role, Participant],
        run_id: str,
        *,
        allowance: Allowance,
        journal: Journal | None = None,
        tracer: Tracer | None = None,
        workers: Callable[[], WorkerSource] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._protocol = protocol
        self._cast = cast
        self._run_id = run_id
        self._limits = limits or Limits()
        self._tell_tracer = unwatched if tracer is None else harmless(tracer)
        self._on_event = None if tracer is None else self._tell
        self._left_by_tracer: BaseException | None = None
        self._workers = None if workers is None else _OnDemand(workers)
        self._actors: dict[str, RoleActor] = {}
        self._logs = run_logs(journal)
        self._conductor = Conductor(
            protocol,
            run_id,
            allowance=allowance,
            record=(journal or MemoryJournal()).open(run_id, protocol.id),
            on_event=self._on_event,
            limits=self._limits,
        )

    @property
    def transcript(self) -> Transcript:
        """What was delivered so far."""
        return self._conductor.transcript

    async def execute(self) -> Transcript:
        """Run it to its end; afterwards nothing of it is left.

        Raises:
            PartyError: the run ended early.
            Exception: what a participant raised, itself, with a note that names role and step.
        """
        lines = DirectLines()
        acting: list[asyncio.Task[None]] = []
        try:
            await self._conductor.open(lines)
            self._seat(lines)
            acting += [self._act(actor) for actor in self._actors.values()]
            transcript = await self._conductor.run()
            if self._left_by_tracer is not None:
                raise self._left_by_tracer
            return transcript
        except PartyError:
            failure = self._own_failure()
            if failure is None:
                raise
            raise failure from failure.__cause__
        finally:
            await settle(acting, self._limits.stop, f"a role of run {self._run_id}")
            self._conductor.close()
            if self._workers is not None:
                await settled(self._workers.close(), self._limits.workers, f"the workers of run {self._run_id}")

    def close(self) -> None:
        """Let go of the record of a run that is never executed; `execute` does so by itself. Idempotent."""
        self._conductor.close()

    def cancel(self, reason: str) -> None:
        """Stop the run; `execute` then raises `Cancelled`."""
        self._conductor.cancel(reason)

    def _seat(self, lines: DirectLines) -> None:
        for role, participant in self._cast.items():
            seat = Seat(self._run_id, role, self._protocol, self._workers, self._watch(role), log=self._logs)
            player = bound(participant, seat)
            self._actors[role.name] = RoleActor(
                lines, self._run_id, role, self._protocol, player, meter=seat.meter, limits=self._limits
            )

    def _act(self, actor: RoleActor) -> asyncio.Task[None]:
        acting = asyncio.get_running_loop().create_task(actor.run(), name=f"{actor.role} of run {self._run_id}")

        def over(task: asyncio.Task[None]) -> None:
            # An actor that ends by itself has told the conductor; one that is ended by an error could not.
            if not task.cancelled() and task.exception() is not None:
                self._conductor.lost(actor.role.name, str(task.exception()))

        acting.add_done_callback(over)
        return acting

    def _watch(self, role: Role) -> Callable[[object], None]:
        on_event = self._on_event
        return unwatched if on_event is None else lambda event: on_event(Reported(self._run_id, role.name, event))

    def _tell(self, event: RunEvent) -> None:
        try:
            self._tell_tracer(event)
        except (SystemExit, KeyboardInterrupt) as error:
            # Anything else that a tracer raises is its own mistake; this is the wish to see the end.
            self._left_by_tracer = contained(error)
            self._conductor.cancel("its tracer asked for the end of the process")

    def _own_failure(self) -> BaseException | None:
        """The very exception that ended the run, if its tracer or a role in this process raised it."""
        if self._left_by_tracer is not None:
            return self._left_by_tracer
        verdict = self._conductor.verdict
        if verdict is None or verdict.ending is not Ending.FAILED or verdict.role not in self._actors:
            return None
        return self._actors[verdict.role].failure


class _OnDemand:
    """A source of workers that is made when the first worker is wanted, so that a run without workers costs nothing."""

    def __init__(self, make: Callable[[], WorkerSource]) -> None:
        self._make = make
        self._source: WorkerSource | None = None

    async def client(self) -> LauncherClient:
        if self._source is None:
            self._source = self._make()
        return await self._source.client()

    async def close(self) -> None:
        if self._source is not None:
            await self._source.close()
