"""One logical conversation with a provider, across all its failures: what callers have in their hands.

`SessionPolicy` decides, and `SessionCore` carries out. The thread that calls `run` opens, runs and waits (`turn_run`);
all other calls only begin something.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import weakref
from types import TracebackType
from typing import Self

from partyctl_actors.supervision import endings, policy_commands, policy_events, telling
from partyctl_actors.supervision.left_over import LeftOver
from partyctl_actors.supervision.off_loop import off_loop
from partyctl_actors.supervision.policy_commands import Execute, Fail, Finish, Open
from partyctl_actors.supervision.policy_state import SessionState
from partyctl_actors.supervision.running_turn import Tell
from partyctl_actors.supervision.session_core import SessionCore
from partyctl_actors.supervision.session_parts import SessionParts
from partyctl_actors.supervision.turn_run import run_turn
from partyctl_plugins.checks import check_conversation, check_filled, check_instance, check_seconds
from partyctl_plugins.contract import AgentEvent, ProviderUsage, Turn, TurnRequest, TurnTicket

_log = logging.getLogger("partyctl.supervision")


class AgentSession:
    """One logical conversation with a provider; made by `Agent.session`. Usable from any thread; a context manager.

    A turn is prepared, which names it before anything runs, and then run by its ticket. One turn runs at a time.
    """

    def __init__(self, parts: SessionParts) -> None:
        self._core = SessionCore(parts)
        self._left_over = LeftOver(self._core)
        self._forgotten = weakref.finalize(self, _forgotten, self._core)
        self._forgotten.atexit = False

    @property
    def conversation_id(self) -> str | None:
        """Where the next turn continues; None for a fresh conversation, as after a reset."""
        return self._core.state.conversation_id

    @property
    def last_turn_conversation_id(self) -> str | None:
        """Where the last turn ran; a reset keeps it."""
        return self._core.state.last_turn_conversation_id

    @property
    def state(self) -> SessionState:
        """Where it stands, as a value."""
        return self._core.state

    @property
    def unfinished(self) -> TurnTicket | None:
        """The turn that a session with this log had begun before, and that goes on when this ticket is run."""
        return self._left_over.ticket

    def prepare_turn(
        self, request: TurnRequest, *, expect_conversation: str | None = None, pin: bool = False
    ) -> TurnTicket:
        """Reserve a turn. It takes the place of one that was prepared before and has not run.

        Args:
            request: what will be asked.
            expect_conversation: the conversation that the session must hold, and keep.
            pin: keep the conversation it holds, whatever happens.

        Raises:
            ContinuityError: the session holds another conversation than the expected one.
            SessionStateError: a turn is running, the session is closed, another took its checkpoint key, or this is a
                fork of its process.
        """
        check_instance("request", request, TurnRequest)
        self._core.check_process()
        self._core.kept.check()
        if expect_conversation is not None:
            check_filled("expect_conversation", expect_conversation)
        self._core.notice_deaths()
        self._left_over.drop()
        turn_id = self._core.parts.ids.new_id("turn")
        check_filled("what ids.new_id returns", turn_id)
        with self._core.lock:
            commands = self._core.step(
                policy_events.PrepareAsked(self._core.now(), turn_id, expect_conversation, bool(pin))
            )
            endings.raise_refused(commands)
            (prepared,) = (each for each in commands if isinstance(each, policy_commands.Prepared))
            ticket = TurnTicket(turn_id, request, prepared.expected_conversation, prepared.strict, prepared.pinned)
            self._core.ticket = ticket
        self._core.carry_out(commands)
        return ticket

    def run(self, ticket: TurnTicket, *, deadline: float | None = None) -> Turn:
        """Run a prepared turn, on this thread, through whatever retries it takes.

        Args:
            ticket: that of the newest `prepare_turn`. It runs once, and so do all its copies together.
            deadline: seconds within which the turn must be over, with all its retries; None for no limit.

        Raises:
            SessionStateError: the ticket is stale, was run before or was altered, or the session is closed.
            TurnCancelledError: the turn was interrupted before the provider was asked.
            TurnFailedError: the provider failed it, and no rule of recovery helped.
            TurnTimeoutError: it took longer than its request or the deadline allows.
            ContinuityError: a strict or pinned turn was, or would be, answered in another conversation.
            TurnLostError: whoever starts workers is gone.
        """
        return self._run(ticket, deadline, self._tell)

    async def arun(self, ticket: TurnTicket, *, deadline: float | None = None) -> Turn:
        """`run`, for an event loop: handlers are called on it. Cancelling it interrupts the turn."""
        return await off_loop(
            lambda on_loop: self._run(ticket, deadline, lambda event: on_loop(lambda: self._tell(event))),
            stop=lambda: self.interrupt(ticket),
        )

    def interrupt(self, ticket: TurnTicket | None = None) -> None:
        """End a turn. Returns at once; from any thread.

        Args:
            ticket: which: a turn that runs or waits is ended, a prepared one is cancelled, and one that has ended or
                was superseded is left alone, and so is the turn after it. None: whichever runs.
        """
        if ticket is not None:
            check_instance("ticket", ticket, TurnTicket)
        self._core.check_process()
        asked = policy_events.InterruptAsked(self._core.now(), None if ticket is None else ticket.turn_id)
        with self._core.lock:
            commands = self._core.step(asked)
            self._core.pass_on_interrupt(commands)
        self._core.report(commands)

    def steer(self, text: str) -> None:
        """Send a message into the running turn, from any thread. What becomes of it is told by events.

        Raises:
            ProviderCapabilityError: the provider takes none.
            NoRunningTurnError: no turn runs, or it is between attempts or about to end.
        """
        check_filled("text", text)
        self._core.check_process()
        with self._core.lock:
            endings.raise_refused(self._core.step(policy_events.SteerAsked(self._core.now())))
            connection = self._core.connections[self._core.state.connection or 0]
        connection.steer(text)

    def release(self) -> None:
        """Close the connection and keep the conversation, which the next turn reopens. Nothing happens in a turn."""
        self._core.check_process()
        with self._core.lock:
            commands = self._core.step(policy_events.ReleaseAsked(self._core.now()))
        self._core.carry_out(commands)
        if commands:
            self._core.notes.moved(self._core.state)

    def go_on(self) -> None:
        """A person says: go on. What was spent on retries is forgiven, and a wait ends.

        Raises:
            JournalError: that could not be kept.
        """
        self._core.check_process()
        with self._core.lock:
            commands = self._core.step(policy_events.ContinueAsked(self._core.now()))
            running = self._core.running
            if running is None:
                self._core.notes.moved(self._core.state)
            elif any(isinstance(each, Open | Execute | Finish | Fail) for each in commands):
                running.told_instead = commands
                running.stop.set()
                return
        self._core.report(commands)

    def adopt(self, conversation_id: str, *, previous_usage: ProviderUsage | None = None) -> bool:
        """Offer a conversation to go on with.

        Args:
            conversation_id: the provider's id of it.
            previous_usage: the last usage reported there.

        Returns:
            Whether it was taken: not if the session holds newer history, a turn is prepared or running, the session
            is closed, or the provider cannot resume.
        """
        check_instance("conversation_id", conversation_id, str)
        check_conversation("conversation_id", conversation_id or None)
        if previous_usage is not None:
            check_instance("previous_usage", previous_usage, ProviderUsage)
        self._core.check_process()
        with self._core.lock:
            commands = self._core.step(policy_events.AdoptAsked(self._core.now(), conversation_id))
            accepted = any(isinstance(each, policy_commands.AdoptVerdict) and each.accepted for each in commands)
            if accepted and previous_usage is not None:
                self._core.kept.report(conversation_id, previous_usage)
        return accepted

    def close(self) -> None:
        """End the running turn, the connection, and the worker behind it. Idempotent; from any thread.

        In a fork of its process nothing happens: what it holds is that one's.
        """
        if not self._core.is_here:
            self._forgotten.detach()
            return
        with self._core.lock:
            commands = self._core.step(policy_events.CloseAsked(self._core.now()))
            self._core.pass_on_interrupt(commands)
        self._core.carry_out(commands)
        self._core.parts.engine.close()
        self._core.let_go_if_over()
        self._forgotten.detach()

    async def arelease(self) -> None:
        """`release`, for an event loop."""
        await off_loop(lambda _on_loop: self.release())

    async def aclose(self) -> None:
        """`close`, for an event loop."""
        await off_loop(lambda _on_loop: self.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _run(self, ticket: TurnTicket, deadline: float | None, tell: Tell) -> Turn:
        check_instance("ticket", ticket, TurnTicket)
        check_seconds("deadline", deadline)
        self._core.check_process()
        self._core.notice_deaths()
        with self._core.under_way():
            return run_turn(self._core, self._left_over, ticket, deadline, tell)

    def _tell(self, event: AgentEvent) -> None:
        telling.tell(self._core.parts.handlers, event)


def _forgotten(core: SessionCore) -> None:
    """Nobody has the session any more, and nobody closed it. Python says so at any moment, on any thread."""

    def let_go() -> None:
        core.connections.close_others(())
        core.parts.engine.close()
        core.kept.let_go()

    # One with a log is not for its process alone, and whoever made it ends its worker.
    if core.is_here and core.parts.log is None:
        _log.info("An agent session was left without a close, and is closed now")
        with contextlib.suppress(RuntimeError):  # the program ends, and what it started with it
            threading.Thread(target=let_go, name="forgotten-session", daemon=True).start()
