"""One run at a node, from the submitter's order to its last word.

The submitter hears the events of `partyctl.running`, and at last ended or failed {error, code}.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from partyctl.casting import agent_from
from partyctl.errors import exit_code, told
from partyctl.maps import Map, pack
from partyctl.node.code import CodeHost
from partyctl.running import event_map
from partyctl_actors.participants import Seat, WorkerSource
from partyctl_actors.participants.provider import ProviderPlayer
from partyctl_actors.protocol import Protocol, Role, load
from partyctl_actors.runs import Allowance, Conductor, RoleActor
from partyctl_broker.port import Bus, Mailbox

PLAN_LIMIT = 30.0
"""Seconds a code host may take to describe the session."""

END_LIMIT = 5.0
"""Seconds role actors may take to end after the conductor has."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a submitter asks for."""

    run: str
    name: str | None
    submitter: str


class Job:
    """Conducts one run: the conductor and the provider roles here, the roles played by the user's code in its code host.

    Args:
        order: what was asked.
        bus: where everybody meets.
        workers: where provider roles get their workers.
        mailbox: the node's own, to talk to the submitter.
        code_host: gives the code host of the user's file, once it is imported.
    """

    def __init__(
        self,
        order: Order,
        bus: Bus,
        workers: WorkerSource,
        mailbox: Mailbox,
        code_host: Callable[[], Awaitable[CodeHost]],
    ) -> None:
        self.order = order
        self.state = "importing"
        self.roles: list[str] = []
        self._bus = bus
        self._workers = workers
        self._mailbox = mailbox
        self._code_host = code_host
        self._players: list[ProviderPlayer] = []

    @property
    def workers(self) -> list[Map]:
        """The workers of this run and what each is doing."""
        supervisors = [player.supervisor for player in self._players]
        return [{"id": each.worker_id, "state": each.state} for each in supervisors if each and each.worker_id]

    def tell(self, message: Map) -> None:
        """Say something to the submitter; one that has left is seen by the node."""
        self._mailbox.send(self.order.submitter, pack(message))

    async def run(self) -> None:
        """Run to the end and tell the submitter how it ended."""
        try:
            host = await self._code_host()
            messages = await self._with(host)
        except asyncio.CancelledError:
            self.tell({"event": "failed", "error": "the run was cancelled", "code": 130})
            raise
        except Exception as error:
            self.tell({"event": "failed", "error": told(error), "code": exit_code(error)})
        else:
            self.tell({"event": "ended", "run": self.order.run, "messages": messages})

    async def _with(self, host: CodeHost) -> int:
        run = self.order.run
        host.runs.add(run)
        try:
            planned = await host.ask(run, {"t": "run", "run": run, "name": self.order.name}, limit=PLAN_LIMIT)
            plan = planned["plan"]
            assert isinstance(plan, dict)
            return await self._conduct(host, plan)
        finally:
            await host.tell({"t": "over", "run": run})
            host.runs.discard(run)

    async def _conduct(self, host: CodeHost, plan: Map) -> int:
        definition, agents, allowance = plan["protocol"], plan["agents"], plan["allowance"]
        assert isinstance(definition, dict)
        assert isinstance(agents, dict)
        assert isinstance(allowance, dict)
        protocol = load(definition)
        self.roles = [role.name for role in protocol.roles]
        self.state = "running"
        self.tell({"event": "started", "run": self.order.run, "place": f"on {self._mailbox.address}"})
        actors = [self._actor(protocol, role, agents) for role in protocol.roles if role.name in agents]
        conductor = Conductor(protocol, self.order.run, allowance=Allowance(**allowance), on_event=self._seen)
        await conductor.open(self._bus)
        await host.tell({"t": "start", "run": self.order.run})
        loop = asyncio.get_running_loop()
        conducting = loop.create_task(conductor.run())
        playing = [loop.create_task(actor.run()) for actor in actors]
        losing = loop.create_task(host.lost())
        try:
            await asyncio.wait((conducting, losing), return_when=asyncio.FIRST_COMPLETED)
            if losing.done() and not conducting.done():
                raise losing.result()
            return len(await conducting)
        finally:
            losing.cancel()
            conducting.cancel()
            await asyncio.wait((conducting, *playing), timeout=END_LIMIT)
            for task in playing:
                task.cancel()
            await asyncio.gather(losing, conducting, *playing, return_exceptions=True)

    def _actor(self, protocol: Protocol, role: Role, agents: Mapping[str, Map]) -> RoleActor:
        seat = Seat(self.order.run, role, protocol, self._workers, self._seen)
        player = agent_from(agents[role.name]).bind(seat)
        if isinstance(player, ProviderPlayer):
            self._players.append(player)
        return RoleActor(self._bus, self.order.run, role, protocol, player, meter=seat.meter)

    def _seen(self, event: object) -> None:
        told = event_map(event)
        if told is not None:
            self.tell(told)
