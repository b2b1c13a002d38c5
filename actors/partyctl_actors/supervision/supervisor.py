"""The supervisor of one agent session: hires a worker, opens the conversation, runs turns, reports, closes.

    hire -> ready -> load -> loaded -> open -> opened -> (turn -> event* -> result | failed)* -> close -> closed

Every step has its own limit. The worker decides nothing; when it dies, the step under way fails with what the
launcher's exit notice says. A limit that passes kills the worker: it did not do what it was asked, so it is not asked
again.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from partyctl_actors.supervision.plan import SupervisorLimits, WorkerPlan
from partyctl_base.channel import ChannelClosed
from partyctl_confinement.client import ExitNotice, Hired, LauncherClient
from partyctl_plugins import records
from partyctl_plugins.contract import CliExitError, PluginLoadError, TurnFailedError, TurnRequest, TurnResult
from partyctl_plugins.errors import AgentSessionError, SessionStateError, TurnTimeoutError
from partyctl_plugins.events import AgentEvent

R = TypeVar("R", bound=records.Report)

WORKER_MAIN = "partyctl_plugins.worker:main"
STDERR_LINES = 12
"""How many of a dead worker's last lines an error shows."""


class Supervisor:
    """Owns one worker and the conversation in it. Lives on one event loop.

    Args:
        launcher: who starts workers.
        plan: which worker.
        on_event: told of every event of a turn, on the loop.
        limits: how long each step may take.
    """

    def __init__(
        self,
        launcher: LauncherClient,
        plan: WorkerPlan,
        on_event: Callable[[AgentEvent], None],
        limits: SupervisorLimits = SupervisorLimits(),
    ) -> None:
        self._launcher = launcher
        self._plan = plan
        self._on_event = on_event
        self._limits = limits
        self._hired: Hired | None = None
        self._listener: asyncio.Task[None] | None = None
        self._answer: asyncio.Future[records.Report] | None = None
        self._turn_id: str | None = None
        self.conversation_id: str | None = None
        self.state = "closed"

    @property
    def worker_id(self) -> str | None:
        """The launcher's id of the worker, None while there is none."""
        return self._hired.id if self._hired else None

    async def open(self, on_hired: Callable[[int, str], None] | None = None) -> None:
        """Hire a worker, load the plugin, open the conversation.

        Args:
            on_hired: told the worker's pid and confinement as soon as there is one.

        Raises:
            PluginLoadError: the plugin could not be loaded, in time or at all; names it and the cause.
            AgentSessionError: the provider could not open a conversation.
            ConfinementError: no worker could be started.
        """
        self.state = "starting"
        plan = self._plan
        name = f"{plan.labels.get('role', '')} {plan.provider.name}".strip()
        self._hired = await self._launcher.spawn(
            name=name, main=WORKER_MAIN, labels=plan.labels, timeout=self._limits.hire
        )
        if on_hired is not None:
            on_hired(self._hired.pid, self._hired.confinement)
        self._answer = asyncio.get_running_loop().create_future()
        self._listener = asyncio.get_running_loop().create_task(self._listen(self._hired))
        await self._answered(records.Ready, self._limits.hire, "start")
        self.state = "loading"
        load = records.Load(plan.provider, plan.spec.cwd, plan.kind, plan.env, plan.options)
        loaded = await self._ask(load, records.Loaded, self._limits.load, "load")
        self.state = "opening"
        wanted = loaded.profile.auth_env_vars
        env = {key: value for key, value in plan.offered.items() if key in wanted}
        opened = await self._ask(records.Open(plan.spec, env), records.Opened, self._limits.open, "open")
        self.conversation_id = opened.conversation_id
        self.state = "idle"

    async def turn(self, turn_id: str, request: TurnRequest) -> TurnResult:
        """Run one turn.

        Raises:
            SessionStateError: the conversation is not open, or another turn runs.
            AgentSessionError: the provider failed the turn, or the worker died in it.
        """
        if self.state != "idle":
            raise SessionStateError(f"a turn cannot start while the session is {self.state}")
        self.state, self._turn_id = "busy", turn_id
        try:
            limit = None if request.timeout is None else request.timeout + self._limits.interrupt
            result = await self._ask(records.Turn(turn_id, request), records.Result, limit, "turn")
        except asyncio.CancelledError:
            # The turn's report is still to come and must not be taken for that of another: only closing is left.
            self.state = "abandoned"
            raise
        finally:
            self._turn_id = None
            self.state = "idle" if self.state == "busy" else self.state
        self.conversation_id = result.conversation_id or self.conversation_id
        return result.result

    async def interrupt(self) -> None:
        """End the running turn, if one runs; the worker is killed when it does not obey in time."""
        answer = self._answer
        if self._turn_id is None or answer is None:
            return
        await self._send(records.Interrupt(self._turn_id))
        done, _ = await asyncio.wait((answer,), timeout=self._limits.interrupt)
        if not done:
            await self._kill()

    async def close(self) -> None:
        """Close the conversation and end the worker and everything it started. Idempotent."""
        hired = self._hired
        if hired is None:
            return
        self.state = "closing"
        try:
            async with asyncio.timeout(self._limits.close):
                await self._send(records.Close())
                await hired.exited()
        except TimeoutError:
            await self._kill()
        hired.channel.close()
        if self._listener is not None:
            await self._listener
        self._hired, self.state = None, "closed"

    async def _ask(self, command: records.Command, answer: type[R], limit: float | None, doing: str) -> R:
        self._answer = asyncio.get_running_loop().create_future()
        await self._send(command)
        return await self._answered(answer, limit, doing)

    async def _answered(self, answer: type[R], limit: float | None, doing: str) -> R:
        assert self._answer is not None
        try:
            async with asyncio.timeout(limit):
                report = await asyncio.shield(self._answer)
        except TimeoutError:
            await self._kill()
            raise self._late(doing, limit or 0.0) from None
        if isinstance(report, records.Failed):
            raise report.exception()
        if not isinstance(report, answer):
            await self._kill()
            raise TurnFailedError(f"the worker answered {type(report).__name__} when asked to {doing}")
        return report

    async def _send(self, command: records.Command) -> None:
        assert self._hired is not None
        try:
            await self._hired.channel.send(records.encode_command(command))
        except ChannelClosed:
            return  # the exit notice says why, and fails what is under way

    async def _kill(self) -> None:
        if self._hired is not None:
            await self._hired.kill()

    async def _listen(self, hired: Hired) -> None:
        while (received := await hired.channel.receive()) is not None:
            try:
                report = records.decode_report(received.data)
            except AgentSessionError as error:
                await hired.kill()
                self._fail(error)
                return
            if isinstance(report, records.Event):
                self._on_event(report.event)
            elif self._answer is not None and not self._answer.done():
                self._answer.set_result(report)
        self._fail(self._lost(await hired.exited()))

    def _fail(self, error: AgentSessionError) -> None:
        self.state = "failed" if self.state != "closing" else self.state
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
            # Nobody may be waiting any more; then the error is not an unheard one.
            self._answer.exception()

    def _lost(self, notice: ExitNotice) -> AgentSessionError:
        provider = self._plan.provider
        tail = "\n".join(notice.stderr.decode(errors="replace").strip().splitlines()[-STDERR_LINES:])
        where = f"provider {provider.name!r} of {provider.package}, worker pid {notice.pid}"
        message = f"the worker ended while its session was {self.state}"
        why = "\n".join(part for part in (notice.describe(), tail) if part)
        if self.state in ("starting", "loading"):
            return PluginLoadError(message, where=where, why=why, detail=tail)
        returncode = -notice.signal if notice.signal else notice.status
        return CliExitError((provider.name,), returncode, stderr=tail, message=message, where=where, why=why)

    def _late(self, doing: str, limit: float) -> AgentSessionError:
        provider = self._plan.provider
        where = f"provider {provider.name!r} of {provider.package}"
        if doing in ("start", "load"):
            return PluginLoadError(
                f"the plugin of provider {provider.name!r} did not {doing} within {limit:g} s",
                where=where,
                fix="A plugin must not wait when it is imported",
            )
        return TurnTimeoutError(limit, where=f"{where}, {doing}", why="the worker was killed")
