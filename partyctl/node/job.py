"""One run at a node, from the submitter's order to its last word.

The submitter hears the events of `partyctl.running`, and at last ended or failed {error, code}.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from partyctl.casting import agent_from
from partyctl.errors import HostError, exit_code, told
from partyctl.happenings import happening
from partyctl.maps import Map, pack
from partyctl.node.code import CodeHost
from partyctl.people import Asking
from partyctl.running import event_map
from partyctl_actors.errors import SessionError
from partyctl_actors.journals import Record
from partyctl_actors.participants import Seat, WorkerSource
from partyctl_actors.participants.provider import ProviderPlayer
from partyctl_actors.protocol import Protocol, Role, load
from partyctl_actors.runs import Allowance, Conductor, Delivered, RoleActor, TurnGranted
from partyctl_actors.runs.verdict import Ending
from partyctl_actors.supervision.off_loop import off_loop
from partyctl_actors.supervision.run_logs import may_have_worker, run_logs
from partyctl_broker.errors import BusError
from partyctl_broker.port import Bus, Mailbox
from partyctl_confinement.errors import LauncherLost

PLAN_LIMIT = 30.0
"""Seconds a code host may take to describe the session."""

EXPECT_EVERY = 3.0
"""Seconds between two requests that the workers of a run wait for it; they wait 10 s after each."""

END_LIMIT = 5.0
"""Seconds role actors may take to end after the conductor has."""


LOST_LIMIT = 5.0
"""Seconds until it must be known how the process ended whose roles are gone."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a submitter asks for; `resumed` is the recorded run that is to go on, "" for a new one."""

    run: str
    name: str | None
    submitter: str
    resumed: str = ""


class Job:
    """Conducts one run: the conductor and the provider roles here, the roles that are code in their code host.

    Args:
        order: what was asked.
        bus: where everybody meets.
        workers: where provider roles get their workers.
        mailbox: the node's own, to talk to the submitter.
        code_host: lends the code host of the user's file, once it is imported.
        record: opens the run's record, given the id that its session asks for, if it does, and the protocol's; with the
            id that the run has.
        journal: where it is recorded, asked for once its record is open.
        happened: tells the host what happened (kind, subject, cause, further values), for its book of events.

    Attributes:
        run: the id of the run; until its record is open, that of the order.
    """

    def __init__(
        self,
        order: Order,
        bus: Bus,
        workers: WorkerSource,
        mailbox: Mailbox,
        code_host: Callable[[], AbstractAsyncContextManager[CodeHost]],
        record: Callable[[str | None, str], tuple[str, Record]],
        journal: Callable[[], object],
        happened: Callable[[str, str, str, Map], None],
    ) -> None:
        self.order = order
        self.run = order.run
        self.state = "importing"
        self.failure = ""
        self.roles: list[str] = []
        self._asked: dict[str, None] = {}
        self._asking = Asking({})
        self._bus = bus
        self._workers = workers
        self._mailbox = mailbox
        self._code_host = code_host
        self._record = record
        self._journal = journal
        self._happened = happened
        self._players: list[ProviderPlayer] = []
        self._conductor: Conductor | None = None
        self._task: asyncio.Task[None] | None = None
        self._cancelled = False

    @property
    def waiting_for(self) -> str:
        """The roles whose turn it is, more than one within a `par`; empty if nobody is asked."""
        return ", ".join(self._asked)

    @property
    def workers(self) -> list[Map]:
        """The workers of this run and what each is doing."""
        supervisors = [player.supervisor for player in self._players]
        return [{"id": each.worker_id, "state": each.state} for each in supervisors if each and each.worker_id]

    def start(self) -> asyncio.Task[None]:
        """Run in the background; the task tells the submitter how the run ended, and raises nothing."""
        self._task = asyncio.get_running_loop().create_task(self._run())
        return self._task

    def cancel(self) -> None:
        """End the run. Idempotent: a second cancellation would interrupt what the first one cleans up."""
        if self._task is not None and not self._cancelled:
            self._cancelled = True
            self._task.cancel()

    async def _run(self) -> None:
        waiting = asyncio.get_running_loop().create_task(self._have_workers_wait())
        try:
            async with self._code_host() as host:
                messages = await self._with(host)
        except asyncio.CancelledError:
            self._conclude({"event": "failed", "error": "the run was cancelled", "code": 130})
        # Whatever it is, it ends this run and is told to whoever asked for it; nothing of it may reach another run.
        except Exception as error:
            self._conclude({"event": "failed", "error": told(error), "code": exit_code(error)})
        else:
            self._conclude({"event": "ended", "run": self.run, "messages": messages})
        finally:
            waiting.cancel()

    async def _have_workers_wait(self) -> None:
        """Importing the file may take longer than the workers of a run wait that goes on."""
        while self.order.resumed and not self._players:
            with contextlib.suppress(LauncherLost, HostError):
                await (await self._workers.client()).expect("run", self.order.resumed)
            await asyncio.sleep(EXPECT_EVERY)

    def _left_with_workers(self) -> list[ProviderPlayer]:
        """The agents that may have a worker from before. Off the loop."""
        journal = self._journal()
        return [each for each in self._players if may_have_worker(journal, self.run, each.role.name)]

    async def _with(self, host: CodeHost) -> int:
        run = self.order.run
        try:
            planned = await host.ask(run, {"t": "run", "run": run, "name": self.order.name}, limit=PLAN_LIMIT)
            plan = planned["plan"]
            assert isinstance(plan, dict)
            return await self._conduct(host, plan)
        finally:
            await host.tell({"t": "over", "run": run})

    async def _conduct(self, host: CodeHost, plan: Map) -> int:
        definition, agents, allowance = plan["protocol"], plan["agents"], plan["allowance"]
        people = plan["people"]
        assert isinstance(people, dict)
        self._asking = Asking(people)
        assert isinstance(definition, dict)
        assert isinstance(agents, dict)
        assert isinstance(allowance, dict)
        protocol = load(definition)
        self.roles = [role.name for role in protocol.roles]
        # Whoever is told that a run began can resume it.
        own = None if plan["id"] is None else str(plan["id"])
        self.run, record = self._record(self.order.resumed or own, protocol.id)
        conductor = Conductor(protocol, self.run, allowance=Allowance(**allowance), record=record, on_event=self._seen)
        try:
            self.state = "running"
            self._tell({"event": "started", "run": self.run, "place": f"on {self._mailbox.address}"})
            actors = [self._actor(protocol, role, agents) for role in protocol.roles if role.name in agents]
            return await self._played(host, conductor, actors)
        finally:
            conductor.close()

    async def _played(self, host: CodeHost, conductor: Conductor, actors: Sequence[RoleActor]) -> int:
        left = await off_loop(lambda _: self._left_with_workers()) if self.order.resumed else []
        await conductor.open(self._bus)
        self._conductor = conductor
        loop = asyncio.get_running_loop()
        conducting = loop.create_task(conductor.run())
        playing = [loop.create_task(actor.run()) for actor in actors]
        for player in left:  # whoever's turn it is; their workers would not wait
            player.take_up()
        start: Map = {"t": "start", "run": self.order.run, "id": self.run}
        hosting = loop.create_task(host.ask(self.order.run, start, limit=None))
        try:
            await asyncio.wait((conducting, hosting), return_when=asyncio.FIRST_COMPLETED)
            if not conducting.done():
                hosting.result()  # raises what went wrong with the roles there; most runs go on when they have ended
            return len(await conducting)
        except SessionError:
            if conductor.verdict is not None and conductor.verdict.ending is Ending.LOST:
                # If it is the process of the roles that is gone, how it ended says more than that they are.
                await asyncio.wait((hosting,), timeout=LOST_LIMIT)
                if hosting.done():
                    hosting.result()
            raise
        finally:
            conducting.cancel()
            await asyncio.wait((conducting, *playing), timeout=END_LIMIT)
            for task in (hosting, *playing):
                task.cancel()
            await asyncio.gather(hosting, conducting, *playing, return_exceptions=True)

    def _actor(self, protocol: Protocol, role: Role, agents: Mapping[str, Map]) -> RoleActor:
        seat = Seat(self.run, role, protocol, self._workers, self._watch(role), log=run_logs(self._journal()))
        player = agent_from(agents[role.name]).bind(seat)
        if isinstance(player, ProviderPlayer):
            self._players.append(player)
        return RoleActor(self._bus, self.run, role, protocol, player, meter=seat.meter)

    def _watch(self, role: Role) -> Callable[[object], None]:
        def watch(event: object) -> None:
            line = happening(event)
            if line is not None:
                self._happened(line.kind, self.run, line.cause, {"role": role.name, **line.fields})
            self._seen(event, role.name)

        return watch

    # --- what the submitter is told ---

    def _seen(self, event: object, role: str = "") -> None:
        if isinstance(event, TurnGranted):
            self._asked[event.role] = None
        elif isinstance(event, Delivered):
            self._asked.pop(event.envelope.sender.name, None)
        told = event_map(event, role) or self._asking.event(event)
        if told is not None:
            self._tell(told)

    def _tell(self, message: Map) -> None:
        """Say something to the submitter. One that cannot be told what happens would wait for it: the run ends."""
        try:
            self._mailbox.send(self.order.submitter, pack(message))
        except BusError as error:
            if self._conductor is not None:
                self._conductor.cancel(f"its submitter cannot be told what happens: {error}")

    def _conclude(self, message: Map) -> None:
        self.failure = str(message.get("error", ""))
        # One that cannot even be told this has left, or hears from its own bus that ours is gone.
        with contextlib.suppress(BusError):
            self._mailbox.send(self.order.submitter, pack(message))
