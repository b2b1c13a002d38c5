"""The supervisor of one agent session: hires a worker, opens the conversation, runs turns, reports, closes.

    hire -> ready -> load -> loaded -> open -> opened -> (turn -> event* -> result | failed)* -> close -> closed

A supervisor of an agent session may find a worker whose supervisor has died, in place of hiring one:

    attach -> attached -> (result | failed of what was under way, or kept) -> turn ...

Every step has its own limit. The worker decides nothing; when it dies, the step under way fails with what the
launcher's exit notice says. A limit that passes kills the worker: it did not do what it was asked, so it is not asked
again. Time in which the supervisor itself was stopped counts for no limit; see `awake`. How a worker is asked and
heard is in `worker_link`.
"""

import asyncio
from collections.abc import Awaitable, Callable

from partyctl_actors.supervision.awake import within
from partyctl_actors.supervision.plan import SupervisorLimits, WorkerPlan
from partyctl_actors.supervision.policy_events import Found
from partyctl_actors.supervision.worker_link import WorkerLink
from partyctl_confinement.client import ExitNotice, LauncherClient
from partyctl_plugins import records
from partyctl_plugins.contract import ConversationSpec, ProviderProfile, TurnRequest, TurnResult
from partyctl_plugins.errors import AgentSessionError, NoRunningTurnError, SessionStateError, TurnTimeoutError
from partyctl_plugins.events import AgentEvent

WORKER_MAIN = "partyctl_plugins.worker:main"
USUAL_LIMITS = SupervisorLimits()


class Supervisor:
    """Owns one worker and the conversation in it. Lives on one event loop.

    Args:
        launcher: who starts workers.
        plan: which worker.
        on_event: told of every event of a turn, on the loop; what it raises is logged.
        limits: how long each step may take.
        pace: awaited before each report is taken, so that a worker is slowed down to those who listen to it.

    Attributes:
        profile: what the provider can do, once it is loaded.
    """

    def __init__(
        self,
        launcher: LauncherClient,
        plan: WorkerPlan,
        on_event: Callable[[AgentEvent], None],
        limits: SupervisorLimits = USUAL_LIMITS,
        pace: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._launcher = launcher
        self._plan = plan
        self._limits = limits
        self._link = WorkerLink(plan.provider, limits, on_event, pace)
        self._closing: asyncio.Task[None] | None = None
        self._is_silent = False
        self.profile: ProviderProfile | None = None

    @property
    def state(self) -> str:
        """closed, starting, loading, loaded, opening, attaching, idle, busy, abandoned, failed or closing."""
        return self._link.state

    @property
    def conversation_id(self) -> str | None:
        """The provider's conversation, once it has a name."""
        return self._link.conversation_id

    @property
    def notice(self) -> ExitNotice | None:
        """How the worker ended, None while nobody knows."""
        return self._link.notice

    @property
    def worker_id(self) -> str | None:
        """The launcher's id of the worker, None while there is none."""
        return self._link.hired.id if self._link.hired else None

    async def open(self, on_hired: Callable[[int, str], None] | None = None) -> None:
        """Hire a worker, load the plugin, open the conversation. Once; after an error only closing is left.

        Args:
            on_hired: told the worker's pid and confinement as soon as there is one.

        Raises:
            PluginLoadError: the plugin could not be loaded, in time or at all; names it and the cause.
            AgentSessionError: the provider could not open a conversation.
            ConfinementError: no worker could be started.
            SessionStateError: it was opened before.
        """
        await self.load(on_hired)
        await self.converse()

    async def load(self, on_hired: Callable[[int, str], None] | None = None) -> ProviderProfile:
        """The first half of `open`: hire a worker and load the plugin; what the provider can do."""
        if self.state != "closed" or self._closing is not None:
            raise SessionStateError(f"a session cannot be opened while it is {self.state}")
        try:
            return await self._load(on_hired)
        except BaseException:
            self._link.become("failed")
            raise

    async def converse(self, spec: ConversationSpec | None = None, limit: float | None = None) -> None:
        """The second half of `open`: open the conversation.

        Args:
            spec: what with; that of the plan if omitted.
            limit: how long it may take, in seconds; that of the supervisor's limits if omitted.
        """
        if self._link.loss is not None:
            raise self._link.loss
        if self.state != "loaded":
            raise SessionStateError(f"a conversation cannot be opened while the session is {self.state}")
        try:
            await self._converse(spec or self._plan.spec, self._limits.open if limit is None else limit)
        except BaseException:
            self._link.become("failed")
            raise

    async def _load(self, on_hired: Callable[[int, str], None] | None) -> ProviderProfile:
        self._link.state = "starting"
        plan = self._plan
        name = f"{plan.labels.get('role', '')} {plan.provider.name}".strip()
        hired = self._link.hired = await self._launcher.spawn(
            name=name, main=WORKER_MAIN, labels=plan.labels, timeout=self._limits.hire, epoch=plan.epoch
        )
        if on_hired is not None:
            on_hired(hired.pid, hired.confinement)
        await self._link.answered(self._link.listen(), records.Ready, self._limits.hire, "start")
        self._link.become("loading")
        load = records.Load(plan.provider, plan.spec.cwd, plan.kind, plan.env, plan.options)
        loaded = await self._link.ask(load, records.Loaded, self._limits.load, "load")
        self.profile = loaded.profile
        self._link.become("loaded")
        return loaded.profile

    async def _converse(self, spec: ConversationSpec, limit: float) -> None:
        assert self.profile is not None
        self._link.become("opening")
        wanted = self.profile.auth_env_vars
        env = {key: value for key, value in self._plan.offered.items() if key in wanted}
        await self._link.ask(records.Open(spec, env), records.Opened, limit, "open")
        self._link.become("idle")

    async def attach(
        self, ticket: str = "", on_hired: Callable[[int, str], None] | None = None
    ) -> tuple[Found, AgentSessionError | None]:
        """Take over the session's worker from a supervisor that is gone, in place of `open`. Once.

        Args:
            ticket: the turn that was to be run; empty if it is only about the conversation.
            on_hired: told the worker's pid and confinement.

        Returns:
            BUSY: it runs the turn, or has its outcome: wait for it by `result`. Without a ticket, it opens the
            conversation: wait for that by `opened`. AT_REST: it was not asked for that; unless `state` is idle then,
            only closing is left. GONE: there is none, or it has died, and what is known of its end.

        Raises:
            AttachRefused: another supervisor has it by right of a later epoch.
            ConfinementError: the launcher is gone, or silent.
            SessionStateError: it was opened or attached before.
        """
        if self.state != "closed" or self._closing is not None:
            raise SessionStateError(f"a session cannot be attached while it is {self.state}")
        self._link.state = "attaching"
        try:
            return await self._attach(ticket, on_hired)
        except BaseException:
            self._link.become("failed")
            raise

    async def _attach(
        self, ticket: str, on_hired: Callable[[int, str], None] | None
    ) -> tuple[Found, AgentSessionError | None]:
        session = self._plan.labels.get("session", "")
        hired = self._link.hired = await self._launcher.attach(
            session, epoch=self._plan.epoch, timeout=self._limits.hire
        )
        if hired is None:
            self._link.become("failed")
            return Found.GONE, None
        if on_hired is not None:
            on_hired(hired.pid, hired.confinement)
        self._link.take_over(ticket or None)
        coming = self._link.listen()
        try:
            attached = await self._link.answered(
                coming, records.Attached, self._limits.hire, "attach", records.Attach()
            )
        except AgentSessionError as error:
            self._link.become("failed")
            return Found.GONE, error
        self.profile = attached.profile
        if ticket and ticket in (attached.turn_id, attached.kept):
            self._link.become("busy")
            return Found.BUSY, None
        self._link.turn_id = None
        if attached.phase is records.Phase.OPEN:
            self._link.become("opening")
            return (Found.AT_REST if ticket else Found.BUSY), None
        if attached.kept is not None:
            # Of an attempt whose outcome is durable, or it would be the one asked about.
            await asyncio.wait((self._link.expected,), timeout=self._limits.hire)
            await self.acknowledge(attached.kept)
        self._link.become("idle" if attached.is_open and attached.phase is None else "abandoned")
        return (Found.AT_REST if ticket or not attached.is_open else Found.BUSY), None

    async def opened(self, limit: float | None = None) -> str | None:
        """Wait for the conversation that a worker was found opening; its id.

        Raises:
            AgentSessionError: it could not be opened, or the worker died.
        """
        if self.state == "opening":
            limit = self._limits.open if limit is None else limit
            await self._link.answered(self._link.expected, records.Opened, limit, "open")
            self._link.become("idle")
        return self.conversation_id

    async def result(self, timeout: float | None = None, idle_timeout: float | None = None) -> TurnResult:
        """Wait for the outcome of the turn that a worker was found with; see `attach`.

        Args:
            timeout: what the turn may still take, in seconds; then the worker is killed.
            idle_timeout: as in a `TurnRequest`; counted from the first words of its model that are heard here.

        Raises:
            SessionStateError: it was found with none.
            AgentSessionError: the provider failed it, or the worker died.
        """
        if self._link.loss is not None and self.state == "failed":
            raise self._link.loss
        if self.state != "busy":
            raise SessionStateError(f"there is no turn to wait for while the session is {self.state}")
        outcome = self._link.answered(
            self._link.expected, records.Result, timeout, "turn", grace=self._limits.interrupt
        )
        return await self._concluded(outcome, idle_timeout)

    async def acknowledge(self, turn_id: str) -> None:
        """The outcome of this turn is durable: the worker need not keep it any longer."""
        if self._link.hired is not None:
            await self._link.send(records.Ack(turn_id))

    async def turn(self, turn_id: str, request: TurnRequest) -> TurnResult:
        """Run one turn.

        Raises:
            SessionStateError: the conversation is not open, or another turn runs.
            AgentSessionError: the provider failed the turn, or the worker died in it or before.
        """
        if self._link.loss is not None and self.state == "failed":
            raise self._link.loss
        if self.state != "idle":
            raise SessionStateError(f"a turn cannot start while the session is {self.state}")
        self._link.begin(turn_id)
        command, grace = records.Turn(turn_id, request), self._limits.interrupt
        outcome = self._link.ask(command, records.Result, request.timeout, "turn", grace)
        return await self._concluded(outcome, request.idle_timeout)

    async def _concluded(self, coming: Awaitable[records.Result], idle_timeout: float | None) -> TurnResult:
        self._is_silent = False
        watching = idle_timeout and asyncio.get_running_loop().create_task(self._end_if_silent(idle_timeout))
        try:
            result = await coming
        except AgentSessionError as error:
            if self._is_silent and idle_timeout:
                raise self._silent(idle_timeout) from error
            raise
        except asyncio.CancelledError:
            # The turn's report is still to come, so no other turn may begin: only closing is left.
            self._link.become("abandoned")
            raise
        finally:
            if watching:
                watching.cancel()
            self._link.turn_id = None
            if self.state == "busy":
                self._link.state = "idle"
        if self._is_silent and idle_timeout and result.result.interrupted:
            raise self._silent(idle_timeout)
        return result.result

    async def _end_if_silent(self, limit: float) -> None:
        await self._link.silence(limit)
        self._is_silent = True
        await self.interrupt()

    def _silent(self, limit: float) -> TurnTimeoutError:
        return TurnTimeoutError(
            limit,
            where=f"provider {self._plan.provider.name!r}, turn",
            why=f"it told nothing for {limit:g} s, with no tool in use, and was ended",
        )

    async def interrupt(self) -> None:
        """End the running turn, if one runs; the worker is killed when it does not obey in time."""
        turn_id = self._link.turn_id
        if turn_id is None:
            return
        answer = self._link.expected
        try:
            async with within(self._limits.interrupt):
                await self._link.send(records.Interrupt(turn_id))
                await asyncio.wait((answer,))
        except TimeoutError:
            await self._link.kill()

    async def steer(self, turn_id: str, steer_id: str, text: str) -> None:
        """Send a message into the turn of this id.

        Raises:
            NoRunningTurnError: that turn does not run, or the worker is gone.
            AgentSessionError: the conversation did not take it.
        """
        if self._link.turn_id != turn_id or self._link.loss is not None:
            raise NoRunningTurnError("the turn to steer does not run", where=turn_id)
        refusal = (await self._link.steered(turn_id, steer_id, text)).exception()
        if refusal is not None:
            raise refusal

    async def close(self) -> None:
        """Close the conversation and end the worker and everything it started. Idempotent.

        Whoever calls this may lose patience: the closing goes on, within its own limits.
        """
        if self._link.hired is None:
            return
        if self._closing is None:
            self._link.state = "closing"
            self._closing = asyncio.get_running_loop().create_task(self._link.close())
        await asyncio.shield(self._closing)
