"""The records that go to and fro between a supervisor and its worker: one question at a time, each with a limit.

When the worker dies, whatever was asked fails with what the launcher says of its end. A limit that passes kills it.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from partyctl_actors.supervision import worker_ends
from partyctl_actors.supervision.awake import within
from partyctl_actors.supervision.plan import SupervisorLimits
from partyctl_base.channel import ChannelClosed
from partyctl_confinement.client import ExitNotice, Hired
from partyctl_plugins import records
from partyctl_plugins.contract import CliExitError, TurnFailedError
from partyctl_plugins.errors import AgentSessionError, NoRunningTurnError, RecordError, TurnTimeoutError
from partyctl_plugins.events import AgentEvent, AssistantText, EventsDropped, Reasoning, ToolCall, ToolResult
from partyctl_plugins.manager import ProviderEntry

_log = logging.getLogger("partyctl.supervision")

R = TypeVar("R", bound=records.Report)

_UNKNOWN = ""
"""A tool that may have been in use before this supervisor listened."""


class WorkerLink:
    """One worker, as far as its supervisor knows it. Lives on one event loop.

    Args:
        provider: whose plugin it runs.
        limits: how long an interrupt, closing and killing may take.
        on_event: told of every event of the turn; what it raises is logged.
        pace: awaited before each report is taken; None to take them as they come.

    Attributes:
        hired: the launcher's hold of the worker, None while there is none.
        state: see `Supervisor`.
        turn_id: the turn whose events are heard, None if none is.
        conversation_id: the conversation that it named last.
        loss: why nothing can be asked of it any more, None while it can.
        notice: how it ended, None while nobody knows.
    """

    def __init__(
        self,
        provider: ProviderEntry,
        limits: SupervisorLimits,
        on_event: Callable[[AgentEvent], None],
        pace: Callable[[], Awaitable[None]] | None,
    ) -> None:
        self._provider = provider
        self._limits = limits
        self._on_event = on_event
        self._pace = pace
        self._listener: asyncio.Task[None] | None = None
        self._answer: asyncio.Future[records.Report] | None = None
        self._steers: dict[str, asyncio.Future[records.Steered]] = {}
        self._heard = asyncio.Event()
        self._tools: set[str] = set()
        self._is_held_up = False
        self.hired: Hired | None = None
        self.state = "closed"
        self.turn_id: str | None = None
        self.conversation_id: str | None = None
        self.loss: AgentSessionError | None = None
        self.notice: ExitNotice | None = None

    def become(self, state: str) -> None:
        """It does something else now, unless it is as good as gone."""
        if self.state not in ("failed", "closing", "closed"):
            self.state = state

    def begin(self, turn_id: str) -> None:
        """The turn of this id is asked for next."""
        self.state, self.turn_id = "busy", turn_id
        self._tools.clear()

    def take_over(self, turn_id: str | None) -> None:
        """The turn of this id may be under way; what it does already was told to somebody else."""
        self.turn_id = turn_id
        self._tools = {_UNKNOWN}

    async def silence(self, limit: float) -> None:
        """Returns once nothing was told of the turn for `limit` seconds, while it was listened to and used no tool."""
        while True:
            self._heard.clear()
            try:
                async with within(limit):
                    await self._heard.wait()
            except TimeoutError:
                if not self._tools and not self._is_held_up:
                    return

    def listen(self) -> "asyncio.Future[records.Report]":
        """From now on hear what the worker says; its first answer to come."""
        assert self.hired is not None
        first = self._expect()
        self._listener = asyncio.get_running_loop().create_task(self._listen(self.hired))
        return first

    @property
    def expected(self) -> "asyncio.Future[records.Report]":
        """The answer to come."""
        assert self._answer is not None
        return self._answer

    async def ask(
        self, command: records.Command, answer: type[R], limit: float | None, doing: str, grace: float = 0.0
    ) -> R:
        """Send a command and wait for its answer; see `answered`."""
        if self.loss is not None:
            raise self.loss
        return await self.answered(self._expect(), answer, limit, doing, command, grace)

    async def answered(
        self,
        coming: "asyncio.Future[records.Report]",
        answer: type[R],
        limit: float | None,
        doing: str,
        command: records.Command | None = None,
        grace: float = 0.0,
    ) -> R:
        """Wait for an answer.

        Args:
            coming: where it will be.
            answer: what it has to be.
            limit: seconds it may take. None for no limit.
            doing: what the worker was asked to do, in a word.
            command: what to send before.
            grace: seconds over its limit that the worker has to say itself that it took too long; then it is killed.

        Raises:
            AgentSessionError: the worker could not do it, took too long, ended, or said something else.
        """
        try:
            async with within(None if limit is None else limit + grace):
                if command is not None:
                    await self.send(command)
                report = await asyncio.shield(coming)
        except TimeoutError:
            self._fail(worker_ends.late(self._provider, doing, limit or 0.0))
            await self.kill()
            report = await coming
        if isinstance(report, records.Failed):
            self.conversation_id = report.conversation_id or self.conversation_id
            raise report.exception()
        if not isinstance(report, answer):
            await self.kill()
            raise TurnFailedError(f"the worker answered {type(report).__name__} when asked to {doing}")
        if isinstance(report, records.Opened | records.Attached | records.Result):
            self.conversation_id = report.conversation_id or self.conversation_id
        return report

    async def steered(self, turn_id: str, steer_id: str, text: str) -> records.Steered:
        """Send a message into a turn; what became of it.

        Raises:
            TurnTimeoutError: nothing, within the limit of an interrupt.
            NoRunningTurnError: the worker ended.
        """
        answer: asyncio.Future[records.Steered] = asyncio.get_running_loop().create_future()
        self._steers[steer_id] = answer
        try:
            async with within(self._limits.interrupt):
                await self.send(records.Steer(turn_id, steer_id, text))
                return await answer
        except TimeoutError:
            raise TurnTimeoutError(self._limits.interrupt, where="steer", why="the provider did not take it") from None
        finally:
            del self._steers[steer_id]

    async def send(self, command: records.Command) -> None:
        """Send a command; nothing if the worker is gone, because the exit notice fails what is under way."""
        assert self.hired is not None
        with contextlib.suppress(ChannelClosed):
            await self.hired.channel.send(records.encode_command(command))

    async def kill(self) -> None:
        """End the worker by force, and wait for its end within the limit."""
        if self.hired is not None:
            with contextlib.suppress(TimeoutError):
                async with within(self._limits.kill):
                    await self.hired.kill()

    async def close(self) -> None:
        """Have the worker close its conversation and end; kill it if it is late."""
        assert self.hired is not None
        try:
            async with within(self._limits.close):
                await self.send(records.Close())
                await self.hired.exited()
        except TimeoutError:
            await self.kill()
        self.hired.channel.close()
        if self._listener is not None:
            # It ends with the exit notice, which a launcher that hangs does not send.
            _, late = await asyncio.wait((self._listener,), timeout=self._limits.kill)
            for listener in late:
                listener.cancel()
                self._fail(CliExitError((self._provider.name,), None, message="nobody knows how the worker ended"))
        self.hired, self.state = None, "closed"

    # --- hearing it ---

    def _expect(self) -> "asyncio.Future[records.Report]":
        self._answer = asyncio.get_running_loop().create_future()
        return self._answer

    async def _listen(self, hired: Hired) -> None:
        while True:
            if self._pace is not None:
                self._is_held_up = True
                await self._pace()
                self._is_held_up = False
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
        self._fail(worker_ends.ended(self._provider, self.state, self.notice))

    def _hear(self, report: records.Report) -> None:
        if isinstance(report, records.Event):
            # Those of a turn that was abandoned concern nobody any more.
            if report.turn_id == self.turn_id:
                self._note(report.event)
                self._watched(report.event)
            return
        if isinstance(report, records.Steered):
            steer = self._steers.get(report.steer_id)
            if steer is not None and not steer.done():
                steer.set_result(report)
            return
        if isinstance(report, records.Result) and self.state == "busy" and report.turn_id != self.turn_id:
            raise RecordError("a worker reported the result of another turn", why=report.turn_id[:100])
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(report)
            if isinstance(report, records.Attached):
                self._expect()  # what was under way is answered next, and may be so at once
                if report.dropped and self.turn_id in (report.turn_id, report.kept):
                    self._watched(EventsDropped(report.dropped))

    def _note(self, event: AgentEvent) -> None:
        self._heard.set()
        if isinstance(event, ToolCall):
            self._tools.add(event.tool_id)
        elif isinstance(event, ToolResult):
            self._tools.discard(event.tool_id)
        elif isinstance(event, AssistantText | Reasoning):
            self._tools.discard(_UNKNOWN)

    def _watched(self, event: AgentEvent) -> None:
        try:
            self._on_event(event)
        except Exception:
            _log.exception("A watcher of %s failed; the turn goes on", self._provider.name)

    def _fail(self, error: AgentSessionError) -> None:
        """The worker is lost, for the first reason that is known: what is under way fails, and nothing can follow."""
        self.loss = self.loss or error
        self.become("failed")
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(self.loss)
            # Nobody may be waiting any more; then the error is not an unheard one.
            self._answer.exception()
        for steer in self._steers.values():
            if not steer.done():
                steer.set_exception(NoRunningTurnError("the worker ended before it took the message"))
