"""One logical conversation with a provider, across all its failures: what callers have in their hands.

`SessionPolicy` decides; this carries out. Whatever changes the state is a step of the policy under one lock; what a
step tells to do is done outside of it, except that an interrupt is passed on within, so that it meets the turn that it
was decided about or none. The thread that calls `run` opens, runs and waits; all other calls only begin something.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from types import TracebackType
from typing import Self, TypeAlias

from partyctl_actors.supervision import endings, policy_commands, policy_events
from partyctl_actors.supervision.checkpoint_keys import CheckpointKey
from partyctl_actors.supervision.engine import Connection
from partyctl_actors.supervision.off_loop import off_loop
from partyctl_actors.supervision.policy import SessionPolicy
from partyctl_actors.supervision.policy_commands import Command, Decided, Execute, Fail, Finish, Open, Wait
from partyctl_actors.supervision.policy_events import Event, Failed, Found, Lost, Opened, Outcome, Phase, Waited
from partyctl_actors.supervision.policy_state import SessionState
from partyctl_actors.supervision.running_turn import RunningTurn, Tell, attempt_name
from partyctl_actors.supervision.session_parts import SessionParts
from partyctl_actors.supervision.turn_notes import TurnNotes
from partyctl_base.clock import StopSignal
from partyctl_plugins.checks import check_filled, check_instance, check_seconds
from partyctl_plugins.contract import (
    AgentEvent,
    Checkpoint,
    ProviderUsage,
    SessionStateError,
    Turn,
    TurnRequest,
    TurnResult,
    TurnTicket,
)
from partyctl_plugins.events import TurnInterrupted

_log = logging.getLogger("partyctl.supervision")

Last: TypeAlias = Open | Execute | Wait | Finish | Fail


class AgentSession:
    """One logical conversation with a provider; made by `Agent.session`. Usable from any thread; a context manager.

    A turn is prepared, which names it before anything runs, and then run by its ticket. One turn runs at a time.
    """

    def __init__(self, parts: SessionParts) -> None:
        if (parts.checkpoints is None) != (parts.checkpoint_key is None):
            raise ValueError("checkpoints and checkpoint_key belong together: give both or neither")
        self._parts = parts
        self._clock = parts.clock
        self._engine = parts.engine
        self._policy = SessionPolicy(parts.config())
        self._lock = threading.RLock()
        self._usage: dict[str, ProviderUsage] = {}
        self._connections: dict[int, Connection] = {}
        self._running: RunningTurn | None = None
        self._ticket: TurnTicket | None = None
        self._let_go = False
        self._notes = TurnNotes(parts.log)
        self._left_over: list[Command] = []
        found = self._notes.recover()
        begin = parts.beginning() if found is None else None
        self._key: CheckpointKey | None = None
        if parts.checkpoints is not None and parts.checkpoint_key is not None:
            self._key = CheckpointKey(parts.checkpoints, parts.checkpoint_key)
        self._state = found or self._policy.begin(None if begin is None else begin.conversation_id)
        if begin is not None and begin.usage is not None and self._state.conversation_id:
            self._usage[begin.conversation_id] = begin.usage
        if found is not None:
            self._restore()

    @property
    def conversation_id(self) -> str | None:
        """Where the next turn continues; None for a fresh conversation, as after a reset."""
        return self._state.conversation_id

    @property
    def last_turn_conversation_id(self) -> str | None:
        """Where the last turn ran; a reset keeps it."""
        return self._state.last_turn_conversation_id

    @property
    def state(self) -> SessionState:
        """Where it stands, as a value."""
        return self._state

    @property
    def unfinished(self) -> TurnTicket | None:
        """The turn that a session with this log had begun before, and that goes on when this ticket is run."""
        turn = self._state.turn
        if turn is None or not self._left_over:
            return None
        request = self._notes.request(turn.turn_id)
        return TurnTicket(turn.turn_id, request, turn.expected, turn.strict, turn.pinned)

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
            SessionStateError: a turn is running, the session is closed, or another took its checkpoint key.
        """
        check_instance("request", request, TurnRequest)
        if self._key is not None:
            self._key.check()
        if expect_conversation is not None:
            check_filled("expect_conversation", expect_conversation)
        self._notice_deaths()
        self._drop_left_over()
        turn_id = self._parts.ids.new_id("turn")
        with self._lock:
            commands = self._step(
                policy_events.PrepareAsked(self._clock.monotonic(), turn_id, expect_conversation, bool(pin))
            )
            endings.raise_refused(commands)
            (prepared,) = (each for each in commands if isinstance(each, policy_commands.Prepared))
            ticket = TurnTicket(turn_id, request, prepared.expected_conversation, prepared.strict, prepared.pinned)
            self._ticket = ticket
        self._carry_out(commands)
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
        asked = policy_events.InterruptAsked(self._clock.monotonic(), None if ticket is None else ticket.turn_id)
        with self._lock:
            commands = self._step(asked)
            self._pass_on_interrupt(commands)
        self._report(commands)

    def steer(self, text: str) -> None:
        """Send a message into the running turn, from any thread. What becomes of it is told by events.

        Raises:
            ProviderCapabilityError: the provider takes none.
            NoRunningTurnError: no turn runs, or it is between attempts or about to end.
        """
        check_filled("text", text)
        with self._lock:
            endings.raise_refused(self._step(policy_events.SteerAsked(self._clock.monotonic())))
            connection = self._connections[self._state.connection or 0]
        connection.steer(text)

    def release(self) -> None:
        """Close the connection and keep the conversation, which the next turn reopens. Nothing happens in a turn."""
        with self._lock:
            commands = self._step(policy_events.ReleaseAsked(self._clock.monotonic()))
        self._carry_out(commands)
        if commands:
            self._notes.moved(self._state)

    def go_on(self) -> None:
        """A person says: go on. What was spent on retries is forgiven, and a wait ends.

        Raises:
            JournalError: that could not be kept.
        """
        with self._lock:
            commands = self._step(policy_events.ContinueAsked(self._clock.monotonic()))
            running = self._running
            if running is None:
                self._notes.moved(self._state)
            elif any(isinstance(each, Open | Execute | Finish | Fail) for each in commands):
                running.told_instead = commands
                running.stop.set()
                return
        self._report(commands)

    def adopt(self, conversation_id: str, *, previous_usage: ProviderUsage | None = None) -> bool:
        """Offer a conversation to go on with.

        Args:
            conversation_id: the provider's id of it.
            previous_usage: the last usage reported there.

        Returns:
            Whether it was taken: not if the session holds newer history, a turn is prepared or running, the session
            is closed, or the provider cannot resume.
        """
        with self._lock:
            commands = self._step(policy_events.AdoptAsked(self._clock.monotonic(), conversation_id))
            accepted = any(isinstance(each, policy_commands.AdoptVerdict) and each.accepted for each in commands)
            if accepted and previous_usage is not None:
                self._usage[conversation_id] = previous_usage
        return accepted

    def close(self) -> None:
        """End the running turn, the connection, and the worker behind it. Idempotent; from any thread."""
        with self._lock:
            commands = self._step(policy_events.CloseAsked(self._clock.monotonic()))
            self._pass_on_interrupt(commands)
            first, self._let_go = not self._let_go, True
        self._carry_out(commands)
        if first:
            self._engine.close()
            if self._key is not None:
                self._key.let_go()

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

    # --- the thread that runs the turn ---

    def _run(self, ticket: TurnTicket, deadline: float | None, tell: Tell) -> Turn:
        check_instance("ticket", ticket, TurnTicket)
        check_seconds("deadline", deadline)
        self._notice_deaths()
        running, commands = self._begun(ticket, deadline, tell)
        try:
            if self._running is running:
                self._notes.intend(ticket, self._state)
            outcome = self._to_its_end(running, commands)
        except BaseException as error:
            self._broke(running, error)
            raise
        with self._lock:
            held = self._state.conversation_id
            self._usage = {each: usage for each, usage in self._usage.items() if each == held}
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _begun(self, ticket: TurnTicket, deadline: float | None, tell: Tell) -> tuple[RunningTurn, list[Command]]:
        now = self._clock.monotonic()
        until = None if deadline is None else now + deadline
        with self._lock:
            held = self._ticket
            if held is not None and ticket.turn_id == held.turn_id and ticket != held:
                raise SessionStateError("the ticket was altered", where=ticket.turn_id, fix="Prepare another turn")
            turn, is_ending = self._state.turn, False
            if self._left_over and turn is not None and turn.turn_id == ticket.turn_id:
                commands, self._left_over = self._left_over, []
                is_ending = turn.interrupted
            else:
                commands = self._step(policy_events.RunAsked(now, ticket.turn_id))
            endings.raise_refused(commands)
            running = RunningTurn(ticket, until, deadline, tell)
            if self._state.phase is not Phase.IDLE:
                self._running = running
            if is_ending:
                running.stop.set()
        return running, commands

    def _to_its_end(self, running: RunningTurn, commands: list[Command]) -> Turn | Exception:
        """Carry out what is to be done until the turn has its result, or what it raises."""
        while True:
            end = next((command for command in commands if isinstance(command, Finish | Fail)), None)
            if end is not None:
                # Durable before the connection is closed, as by a renewal: its worker holds the only copy till then.
                outcome = self._outcome(running, end)
                self._carry_out(commands)
                return outcome
            last = self._carry_out(commands)
            assert isinstance(last, Open | Execute | Wait), "the policy leaves no turn without an end"
            if isinstance(last, Wait):
                event: Event = self._wait(running, last)
            elif isinstance(last, Open):
                event = self._open(running, last)
            else:
                event = self._execute(running, last.serial)
            with self._lock:
                instead, running.told_instead = running.told_instead, None
                if instead is not None and not (self._state.turn is not None and self._state.turn.interrupted):
                    running.stop = StopSignal()
                commands = self._step(event) if instead is None else instead
                going_on = self._running is running
            if going_on and self._notes.moved(self._state):
                running.acknowledge()

    def _open(self, running: RunningTurn, command: Open) -> Event:
        spec, held = self._parts.spec, command.conversation_id
        spec = replace(spec, resume_id=held, previous_usage=self._usage.get(held) if held else None)
        left, limit = running.left(self._clock.monotonic()), self._parts.limits.open
        if left is not None and left <= 0:
            return self._too_late(running, command.serial)
        try:
            connection = self._engine.open(spec, running.stop, limit if left is None else min(left, limit))
            conversation_id = connection.conversation_id
        except Exception as error:
            return self._failed(running, command.serial, error, "open")
        with self._lock:
            self._connections[command.serial] = connection
        return Opened(self._clock.monotonic(), command.serial, conversation_id)

    def _execute(self, running: RunningTurn, serial: int) -> Event:
        connection = self._connections[self._state.connection or 0]
        left = running.left(self._clock.monotonic())
        if left is not None and left <= 0:
            return self._too_late(running, serial)
        watch = endings.Watch()

        def emit(event: AgentEvent) -> None:
            watch.note(event)
            running.tell(event)

        try:
            attempt = attempt_name(running.ticket.turn_id, serial)
            running.asked = connection, attempt
            result = connection.turn(attempt, running.request(left), emit, running.stop)
            ran_in = result.session_id or connection.conversation_id
        except Exception as error:
            return self._failed(running, serial, error, "turn", connection, watch)
        running.result = result
        if ran_in and not result.interrupted:
            self._usage[ran_in] = result.usage
        return policy_events.Succeeded(
            self._clock.monotonic(), serial, ran_in, result.usage.tokens.input_tokens, result.duration_ms,
            result.interrupted,
        )  # fmt: skip

    def _wait(self, running: RunningTurn, command: Wait) -> Event:
        left = running.left(self._clock.monotonic())
        if left is not None and command.seconds >= left:
            running.error = running.late()
            return Waited(self._clock.monotonic(), command.serial, stopped=True)
        stopped = self._clock.wait(command.seconds, running.stop)
        return Waited(self._clock.monotonic(), command.serial, stopped)

    def _too_late(self, running: RunningTurn, serial: int) -> Failed:
        running.error = running.late()
        return Failed(self._clock.monotonic(), serial, Outcome.TIMEOUT, cause=str(running.error))

    def _failed(
        self, running: RunningTurn, serial: int, raised: Exception, doing: str, connection: Connection | None = None,
        watch: endings.Watch | None = None,
    ) -> Failed | Lost:  # fmt: skip
        error = endings.own(raised, doing)
        running.error = error
        named = None if connection is None else connection.conversation_id
        died = connection is not None and not connection.alive
        event = endings.happened(
            error, self._clock.monotonic(), serial, named, watch, died, self._engine.predecessor_dead
        )
        running.loss = event.cause
        return event

    def _outcome(self, running: RunningTurn, end: Finish | Fail) -> Turn | Exception:
        if isinstance(end, Fail):
            error = endings.raised(end, running.error, running.loss)
            if self._notes.failed(running.ticket.turn_id, error, self._state):
                running.acknowledge()
            return error
        result = running.result
        if end.forced or result is None:
            result = TurnResult(session_id=end.conversation_id, interrupted=True)
            running.tell(TurnInterrupted())
        turn = Turn(result, end.continuity, end.turn_id, end.conversation_id, end.forced)
        if self._notes.finished(turn, self._state):
            running.acknowledge()
        return turn

    def _broke(self, running: RunningTurn, error: BaseException) -> None:
        """What is no provider's failure ends the turn, so that the session is left ready for the next one."""
        with self._lock:
            if self._running is not running:
                return
            named = next((each.conversation_id for each in self._connections.values()), None)
            commands = self._step(policy_events.Broke(self._clock.monotonic(), named, repr(error)))
        self._carry_out(commands)
        self._notes.failed(running.ticket.turn_id, error, self._state)

    # --- any thread ---

    def _restore(self) -> None:
        """Go on where another session with this log was. A turn that is not over goes on when its ticket is run."""
        connection = self._engine.taken
        if connection is not None and not self._state.live and self._state.phase is not Phase.OPENING:
            connection.close()  # the session was done with it
            connection = None
        if connection is not None and self._state.connection is not None:
            self._connections[self._state.connection] = connection
        # What cannot be reached is as good as gone.
        found = Found.GONE if connection is None else self._engine.found
        cause = (self._engine.end or "nothing is known of the end of its worker") if found is Found.GONE else ""
        last = self._carry_out(self._step(policy_events.Restored(self._clock.monotonic(), found, cause)))
        turn = self._state.turn
        if isinstance(last, Wait):
            self._left_over = [last]
        elif turn is not None and turn.phase is Phase.RUNNING:
            self._left_over = [Execute(turn.serial)]
        elif turn is not None and turn.phase is Phase.OPENING:
            self._left_over = [Open(turn.serial, self._state.conversation_id)]
        elif isinstance(last, Fail):
            why = f"its worker is gone: {cause}" if found is Found.GONE else "its worker was not asked for it"
            error = endings.raised(last, None, why)
            self._notes.failed(last.turn_id, error, self._state)
            if connection is not None and connection not in self._connections.values():
                connection.close()

    def _drop_left_over(self) -> None:
        """Nobody goes on with the turn that waited: it is over."""
        with self._lock:
            waits = [command for command in self._left_over if isinstance(command, Wait)]
            self._left_over = [command for command in self._left_over if command not in waits]
            for wait in waits:
                self._step(Waited(self._clock.monotonic(), wait.serial, stopped=True))

    def _step(self, event: Event) -> list[Command]:
        with self._lock:
            self._state, commands = self._policy.step(self._state, event)
            if self._state.phase in (Phase.IDLE, Phase.PREPARED):
                self._running = None
            return commands

    def _carry_out(self, commands: list[Command]) -> Last | None:
        """Do what can be done at once; the command that is left, which ends the turn or is yet to be answered."""
        self._report(commands)
        last: Last | None = None
        for command in commands:
            if isinstance(command, policy_commands.CloseConversation):
                self._hang_up(command.connection)
            elif isinstance(command, policy_commands.SaveCheckpoint):
                self._keep(command.conversation_id)
            elif isinstance(command, policy_commands.ClearCheckpoint):
                self._keep(None)
            elif isinstance(command, Open | Execute | Wait | Finish | Fail):
                last = command
        with self._lock:
            turn = self._state.turn
            needed = {self._state.connection, None if turn is None else turn.serial}
            left = [serial for serial in self._connections if serial not in needed]
        for serial in left:
            self._hang_up(serial)
        return last

    def _hang_up(self, serial: int) -> None:
        with self._lock:
            connection = self._connections.pop(serial, None)
        if connection is not None:
            connection.close()

    def _keep(self, conversation_id: str | None) -> None:
        """Keep the checkpoint, or clear it. A store that raises takes nothing from the turn."""
        if self._key is None:
            return
        try:
            known = conversation_id and Checkpoint(conversation_id, self._usage.get(conversation_id))
            self._key.keep(known or None)
        except Exception:
            _log.exception("The checkpoint %r could not be kept; the session goes on without", self._key.key)

    def _pass_on_interrupt(self, commands: list[Command]) -> None:
        running = self._running
        if running is None or not any(isinstance(each, policy_commands.Interrupt) for each in commands):
            return
        running.stop.set()
        self._engine.abandon()
        for connection in self._connections.values():
            connection.interrupt()

    def _notice_deaths(self) -> None:
        with self._lock:
            gone = [serial for serial, connection in self._connections.items() if not connection.alive]
            if self._running is not None or not gone:
                return
            commands = [
                command
                for serial in gone
                for command in self._step(policy_events.Died(self._clock.monotonic(), serial, "the worker ended"))
            ]
        self._carry_out(commands)

    def _report(self, commands: list[Command]) -> None:
        for command in commands:
            if not isinstance(command, Decided):
                continue
            _log.info("%s", command)
            if self._parts.on_decided is None:
                continue
            try:
                self._parts.on_decided(command)
            except Exception:
                _log.exception("Whoever watches the decisions of a session failed; the session goes on")

    def _tell(self, event: AgentEvent) -> None:
        for handler in self._parts.handlers:
            try:
                handler.on_event(event)
            except Exception:
                _log.exception("An event handler failed on %s; the turn goes on", type(event).__name__)
