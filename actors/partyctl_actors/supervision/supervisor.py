"""The supervisor of one agent session: hires a worker, opens the conversation, runs turns, reports, closes.

    hire -> ready -> load -> loaded -> open -> opened -> (turn -> event* -> result | failed)* -> close -> closed

A supervisor of an agent session may find a worker whose supervisor has died, in place of hiring one:

    attach -> attached -> (result | failed of what was under way, or kept) -> turn ...

Every step has its own limit. The worker decides nothing; when it dies, the step under way fails with what the
launcher's exit notice says. A limit that passes kills the worker: it did not do what it was asked, so it is not asked
again. Time in which the supervisor itself was stopped counts for no limit; see `awake`.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from partyctl_actors.supervision.awake import within
from partyctl_actors.supervision.plan import SupervisorLimits, WorkerPlan
from partyctl_actors.supervision.policy_events import Found
from partyctl_base.channel import ChannelClosed
from partyctl_confinement.client import ExitNotice, Hired, LauncherClient
from partyctl_plugins import records
from partyctl_plugins.contract import (
    CliExitError,
    ConversationSpec,
    PluginLoadError,
    ProviderProfile,
    TurnFailedError,
    TurnRequest,
    TurnResult,
)
from partyctl_plugins.errors import (
    AgentSessionError,
    NoRunningTurnError,
    RecordError,
    SessionStateError,
    TurnTimeoutError,
)
from partyctl_plugins.events import AgentEvent

_log = logging.getLogger("partyctl.supervision")

R = TypeVar("R", bound=records.Report)

WORKER_MAIN = "partyctl_plugins.worker:main"
USUAL_LIMITS = SupervisorLimits()

STDERR_LINES = 12
"""How many of a dead worker's last lines an error shows."""


class Supervisor:
    """Owns one worker and the conversation in it. Lives on one event loop.

    Args:
        launcher: who starts workers.
        plan: which worker.
        on_event: told of every event of a turn, on the loop; what it raises is logged.
        limits: how long each step may take.
        pace: awaited before each report is taken, so that a worker is slowed down to those who listen to it.

    Attributes:
        conversation_id: the provider's conversation, once it has a name.
        profile: what the provider can do, once it is loaded.
        state: closed, starting, loading, loaded, opening, attaching, idle, busy, abandoned, failed or closing.
        notice: how the worker ended, None while nobody knows.
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
        self._on_event = on_event
        self._limits = limits
        self._pace = pace
        self._hired: Hired | None = None
        self._listener: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._answer: asyncio.Future[records.Report] | None = None
        self._turn_id: str | None = None
        self._loss: AgentSessionError | None = None
        self._steers: dict[str, asyncio.Future[records.Steered]] = {}
        self.conversation_id: str | None = None
        self.profile: ProviderProfile | None = None
        self.notice: ExitNotice | None = None
        self.state = "closed"

    @property
    def worker_id(self) -> str | None:
        """The launcher's id of the worker, None while there is none."""
        return self._hired.id if self._hired else None

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
            self._become("failed")
            raise

    async def converse(self, spec: ConversationSpec | None = None, limit: float | None = None) -> None:
        """The second half of `open`: open the conversation.

        Args:
            spec: what with; that of the plan if omitted.
            limit: how long it may take, in seconds; that of the supervisor's limits if omitted.
        """
        if self._loss is not None:
            raise self._loss
        if self.state != "loaded":
            raise SessionStateError(f"a conversation cannot be opened while the session is {self.state}")
        try:
            await self._converse(spec or self._plan.spec, self._limits.open if limit is None else limit)
        except BaseException:
            self._become("failed")
            raise

    async def _load(self, on_hired: Callable[[int, str], None] | None) -> ProviderProfile:
        self.state = "starting"
        plan = self._plan
        name = f"{plan.labels.get('role', '')} {plan.provider.name}".strip()
        self._hired = await self._launcher.spawn(
            name=name, main=WORKER_MAIN, labels=plan.labels, timeout=self._limits.hire, epoch=plan.epoch
        )
        if on_hired is not None:
            on_hired(self._hired.pid, self._hired.confinement)
        ready = self._expect()
        self._listener = asyncio.get_running_loop().create_task(self._listen(self._hired))
        await self._answered(ready, records.Ready, self._limits.hire, "start")
        self._become("loading")
        load = records.Load(plan.provider, plan.spec.cwd, plan.kind, plan.env, plan.options)
        loaded = await self._ask(load, records.Loaded, self._limits.load, "load")
        self.profile = loaded.profile
        self._become("loaded")
        return loaded.profile

    async def _converse(self, spec: ConversationSpec, limit: float) -> None:
        assert self.profile is not None
        self._become("opening")
        wanted = self.profile.auth_env_vars
        env = {key: value for key, value in self._plan.offered.items() if key in wanted}
        opened = await self._ask(records.Open(spec, env), records.Opened, limit, "open")
        self.conversation_id = opened.conversation_id
        self._become("idle")

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
        self.state = "attaching"
        try:
            return await self._attach(ticket, on_hired)
        except BaseException:
            self._become("failed")
            raise

    async def _attach(
        self, ticket: str, on_hired: Callable[[int, str], None] | None
    ) -> tuple[Found, AgentSessionError | None]:
        session = self._plan.labels.get("session", "")
        self._hired = await self._launcher.attach(session, epoch=self._plan.epoch, timeout=self._limits.hire)
        if self._hired is None:
            self._become("failed")
            return Found.GONE, None
        if on_hired is not None:
            on_hired(self._hired.pid, self._hired.confinement)
        coming = self._expect()
        self._turn_id = ticket or None
        self._listener = asyncio.get_running_loop().create_task(self._listen(self._hired))
        try:
            attached = await self._answered(coming, records.Attached, self._limits.hire, "attach", records.Attach())
        except AgentSessionError as error:
            self._become("failed")
            return Found.GONE, error
        self.conversation_id, self.profile = attached.conversation_id, attached.profile
        if ticket and ticket in (attached.turn_id, attached.kept):
            self._become("busy")
            return Found.BUSY, None
        self._turn_id = None
        if attached.phase is records.Phase.OPEN:
            self._become("opening")
            return (Found.AT_REST if ticket else Found.BUSY), None
        if attached.kept is not None:
            # Of an attempt whose outcome is durable, or it would be the one asked about.
            await asyncio.wait((self._expected(),), timeout=self._limits.hire)
            await self.acknowledge(attached.kept)
        self._become("idle" if attached.is_open and attached.phase is None else "abandoned")
        return (Found.AT_REST if ticket or not attached.is_open else Found.BUSY), None

    async def opened(self, limit: float | None = None) -> str | None:
        """Wait for the conversation that a worker was found opening; its id.

        Raises:
            AgentSessionError: it could not be opened, or the worker died.
        """
        if self.state == "opening":
            limit = self._limits.open if limit is None else limit
            opened = await self._answered(self._expected(), records.Opened, limit, "open")
            self.conversation_id = opened.conversation_id
            self._become("idle")
        return self.conversation_id

    async def result(self, timeout: float | None = None) -> TurnResult:
        """Wait for the outcome of the turn that a worker was found with; see `attach`.

        Args:
            timeout: what the turn may still take, in seconds; then the worker is killed.

        Raises:
            SessionStateError: it was found with none.
            AgentSessionError: the provider failed it, or the worker died.
        """
        if self._loss is not None and self.state == "failed":
            raise self._loss
        if self.state != "busy":
            raise SessionStateError(f"there is no turn to wait for while the session is {self.state}")
        limit = None if timeout is None else timeout + self._limits.interrupt
        return await self._concluded(self._answered(self._expected(), records.Result, limit, "turn"))

    async def acknowledge(self, turn_id: str) -> None:
        """The outcome of this turn is durable: the worker need not keep it any longer."""
        if self._hired is not None:
            await self._send(records.Ack(turn_id))

    async def turn(self, turn_id: str, request: TurnRequest) -> TurnResult:
        """Run one turn.

        Raises:
            SessionStateError: the conversation is not open, or another turn runs.
            AgentSessionError: the provider failed the turn, or the worker died in it or before.
        """
        if self._loss is not None and self.state == "failed":
            raise self._loss
        if self.state != "idle":
            raise SessionStateError(f"a turn cannot start while the session is {self.state}")
        self.state, self._turn_id = "busy", turn_id
        limit = None if request.timeout is None else request.timeout + self._limits.interrupt
        return await self._concluded(self._ask(records.Turn(turn_id, request), records.Result, limit, "turn"))

    async def _concluded(self, coming: Awaitable[records.Result]) -> TurnResult:
        try:
            result = await coming
        except asyncio.CancelledError:
            # The turn's report is still to come, so no other turn may begin: only closing is left.
            self._become("abandoned")
            raise
        finally:
            self._turn_id = None
            if self.state == "busy":
                self.state = "idle"
        self.conversation_id = result.conversation_id or self.conversation_id
        return result.result

    async def interrupt(self) -> None:
        """End the running turn, if one runs; the worker is killed when it does not obey in time."""
        answer = self._answer
        if self._turn_id is None or answer is None:
            return
        try:
            async with within(self._limits.interrupt):
                await self._send(records.Interrupt(self._turn_id))
                await asyncio.wait((answer,))
        except TimeoutError:
            await self._kill()

    async def steer(self, turn_id: str, steer_id: str, text: str) -> None:
        """Send a message into the turn of this id.

        Raises:
            NoRunningTurnError: that turn does not run, or the worker is gone.
            AgentSessionError: the conversation did not take it.
        """
        if self._turn_id != turn_id or self._loss is not None:
            raise NoRunningTurnError("the turn to steer does not run", where=turn_id)
        answer = self._steers[steer_id] = asyncio.get_running_loop().create_future()
        try:
            async with within(self._limits.interrupt):
                await self._send(records.Steer(turn_id, steer_id, text))
                refusal = (await answer).exception()
        except TimeoutError:
            raise TurnTimeoutError(self._limits.interrupt, where="steer", why="the provider did not take it") from None
        finally:
            del self._steers[steer_id]
        if refusal is not None:
            raise refusal

    async def close(self) -> None:
        """Close the conversation and end the worker and everything it started. Idempotent.

        Whoever calls this may lose patience: the closing goes on, within its own limits.
        """
        if self._hired is None:
            return
        if self._closing is None:
            self.state = "closing"
            self._closing = asyncio.get_running_loop().create_task(self._close(self._hired))
        await asyncio.shield(self._closing)

    async def _close(self, hired: Hired) -> None:
        try:
            async with within(self._limits.close):
                await self._send(records.Close())
                await hired.exited()
        except TimeoutError:
            await self._kill()
        hired.channel.close()
        if self._listener is not None:
            # It ends with the exit notice, which a launcher that hangs does not send.
            _, late = await asyncio.wait((self._listener,), timeout=self._limits.kill)
            for listener in late:
                listener.cancel()
                self._fail(CliExitError((self._plan.provider.name,), None, message="nobody knows how the worker ended"))
        self._hired, self.state = None, "closed"

    # --- asking the worker ---

    async def _ask(self, command: records.Command, answer: type[R], limit: float | None, doing: str) -> R:
        if self._loss is not None:
            raise self._loss
        report = self._expect()
        return await self._answered(report, answer, limit, doing, command)

    def _expected(self) -> "asyncio.Future[records.Report]":
        assert self._answer is not None
        return self._answer

    def _expect(self) -> "asyncio.Future[records.Report]":
        self._answer = asyncio.get_running_loop().create_future()
        return self._answer

    async def _answered(
        self,
        coming: "asyncio.Future[records.Report]",
        answer: type[R],
        limit: float | None,
        doing: str,
        command: records.Command | None = None,
    ) -> R:
        try:
            async with within(limit):
                if command is not None:
                    await self._send(command)
                report = await asyncio.shield(coming)
        except TimeoutError:
            self._fail(self._late(doing, limit or 0.0))
            await self._kill()
            report = await coming
        if isinstance(report, records.Failed):
            self.conversation_id = report.conversation_id or self.conversation_id
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
            with contextlib.suppress(TimeoutError):
                async with within(self._limits.kill):
                    await self._hired.kill()

    # --- hearing it ---

    async def _listen(self, hired: Hired) -> None:
        while True:
            if self._pace is not None:
                await self._pace()
            received = await hired.channel.receive()
            if received is None:
                break
            for fd in received.fds:
                os.close(fd)
            try:
                self._hear(records.decode_report(received.data))
            except AgentSessionError as error:
                self._fail(error)
                self.notice = await hired.kill()
                return
        self.notice = await hired.exited()
        self._fail(self._lost(self.notice))

    def _hear(self, report: records.Report) -> None:
        if isinstance(report, records.Event):
            # Those of a turn that was abandoned concern nobody any more.
            if report.turn_id == self._turn_id:
                self._watched(report.event)
            return
        if isinstance(report, records.Steered):
            steer = self._steers.get(report.steer_id)
            if steer is not None and not steer.done():
                steer.set_result(report)
            return
        if isinstance(report, records.Result) and self.state == "busy" and report.turn_id != self._turn_id:
            raise RecordError("a worker reported the result of another turn", why=report.turn_id[:100])
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(report)
            if isinstance(report, records.Attached):
                self._expect()  # what was under way is answered next, and may be so at once

    def _watched(self, event: AgentEvent) -> None:
        try:
            self._on_event(event)
        except Exception:
            _log.exception("A watcher of %s failed; the turn goes on", self._plan.provider.name)

    def _fail(self, error: AgentSessionError) -> None:
        """The worker is lost, for the first reason that is known: what is under way fails, and nothing can follow."""
        self._loss = self._loss or error
        self._become("failed")
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(self._loss)
            # Nobody may be waiting any more; then the error is not an unheard one.
            self._answer.exception()
        for steer in self._steers.values():
            if not steer.done():
                steer.set_exception(NoRunningTurnError("the worker ended before it took the message"))

    def _become(self, state: str) -> None:
        if self.state not in ("failed", "closing", "closed"):
            self.state = state

    def _lost(self, notice: ExitNotice) -> AgentSessionError:
        provider = self._plan.provider
        tail = "\n".join(notice.stderr.decode(errors="replace").strip().splitlines()[-STDERR_LINES:])
        where = f"provider {provider.name!r} of {provider.package}, worker pid {notice.pid}"
        message = f"the worker ended while its session was {self.state}"
        why = "\n".join(part for part in (notice.describe(), tail) if part)
        if self.state in ("starting", "loading", "loaded"):
            return PluginLoadError(message, where=where, why=why, detail=tail)
        returncode = -notice.signal if notice.signal else notice.status
        fix = "See how it ended; the next turn, or a run that is resumed, gets a new worker"
        return CliExitError((provider.name,), returncode, stderr=tail, message=message, where=where, why=why, fix=fix)

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
