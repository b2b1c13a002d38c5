"""The conductor's shell: carries out over a mailbox what `conductor.step` says."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator

from partyctl_actors.journals import MemoryJournal, Record
from partyctl_actors.protocol.protocol import Protocol
from partyctl_actors.protocol.role import Role
from partyctl_actors.runs import messages
from partyctl_actors.runs.addresses import conductor_address, role_address
from partyctl_actors.runs.allowance import Allowance
from partyctl_actors.runs.conductor import begin, step
from partyctl_actors.runs.limits import Limits
from partyctl_actors.runs.lines import DirectLines, PostToRoles, ToRoles, Ways
from partyctl_actors.runs.run_state import (
    CancelAsked,
    Command,
    Deliver,
    Dismiss,
    Event,
    Failed,
    Finish,
    Garbled,
    Grant,
    Joined,
    Left,
    Opened,
    Plan,
    Recall,
    Recorded,
    Sent,
    State,
    Stop,
    Stopped,
    Tick,
    Unrecorded,
    Welcome,
)
from partyctl_actors.runs.run_state import Record as Keep
from partyctl_actors.runs.tracing import Delivered, RunEnded, RunEvent, RunFailed, RunStarted, TurnGranted
from partyctl_actors.runs.verdict import Ending, Verdict, error_of
from partyctl_actors.transcript import Envelope, Log, Transcript
from partyctl_broker.errors import BusError
from partyctl_broker.port import Letter


class Conductor:
    """Conducts one run. Open it before its roles join, then `run` it.

    Args:
        protocol: what is run.
        run_id: the run's id; the conductor is at `run/<id>`, its roles at `run/<id>/<Role>`.
        allowance: what the run may spend.
        record: where decisions are kept; omitted, in memory. It is closed at the end.
        on_event: called on the event loop with every event of the run; must not raise.
        limits: how long it waits.
    """

    def __init__(
        self,
        protocol: Protocol,
        run_id: str,
        *,
        allowance: Allowance | None = None,
        record: Record | None = None,
        on_event: Callable[[RunEvent], None] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.run_id = run_id
        self.verdict: Verdict | None = None
        """How the run ended; None until it did."""
        self._record = record if record is not None else MemoryJournal().open(run_id, protocol.id)
        self._log = Log(protocol.messages)
        self._on_event = on_event
        self._addresses = {role.name: role_address(run_id, role) for role in protocol.roles}
        self._roles = {address: role for role, address in self._addresses.items()}
        plan = Plan(
            protocol.flow,
            protocol.id,
            tuple(self._addresses),
            allowance or Allowance(),
            limits or Limits(),
            tuple(self._record.decisions()),
        )
        self._state = begin(plan)
        self._line: ToRoles | None = None
        self._events: deque[Event] = deque()
        self._busy = False
        # What was appended and is not durable yet: until it is, no command is carried out and no event taken.
        self._keeping: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._cancelled_early: str | None = None
        self._welcomed = False

    @property
    def transcript(self) -> Transcript:
        """What was delivered so far."""
        return self._log.snapshot()

    async def open(self, bus: Ways) -> None:
        """Take the conductor's place; from now on roles may join.

        Raises:
            BusError: the address is taken, or not ours to take.
        """
        self._loop = asyncio.get_running_loop()
        self._over = self._loop.create_future()
        if isinstance(bus, DirectLines):
            self._line = bus.conductor(self)
        else:
            self._line = PostToRoles(await bus.open(conductor_address(self.run_id), self), self._addresses)
        self._feed(Opened(self._loop.time()))
        if self._cancelled_early is not None:
            self.cancel(self._cancelled_early)

    async def run(self) -> Transcript:
        """Conduct the run to its end.

        Returns:
            What was said.

        Raises:
            SessionError, ContentError, ProtocolMismatch: the run ended early; see `verdict`.
            RoleFailed: a role's participant raised an error of its own in another process.
        """
        assert self._line is not None, "open() comes first"
        try:
            try:
                await asyncio.shield(self._over)
            except asyncio.CancelledError:
                self.cancel("its caller was cancelled")
                # Ends at the latest when the limit for stopping is reached.
                await asyncio.shield(self._over)
                raise
        finally:
            self.close()
        verdict = self.verdict
        assert verdict is not None
        error = error_of(verdict, self.run_id)
        if error is not None:
            raise error
        return self.transcript

    def cancel(self, reason: str) -> None:
        """Stop the run: every role is told, and `run` ends when all have stopped."""
        if self._line is None:
            self._cancelled_early = reason
        else:
            self._feed(CancelAsked(reason, self._loop.time()))

    def lost(self, role: str, why: str) -> None:
        """Take note that `role` is gone."""
        if self._line is not None:
            self._feed(Left(role, why, self._loop.time()))

    def close(self) -> None:
        """Let go of the address and the record; `run` does so by itself. Idempotent."""
        self._disarm()
        self._record.close(self._ending())
        if self._line is not None:
            self._line.close()

    # --- what the roles tell ---

    def told(self, role: str, message: messages.RunMessage) -> None:
        """A role said something."""
        at = self._loop.time()
        if isinstance(message, messages.Sent):
            said = message
            self._feed(Sent(role, said.turn, said.receiver, said.label, said.payload, said.tokens, at, said.message))
        elif isinstance(message, messages.Join):
            self._feed(Joined(role, message.protocol, at))
        elif isinstance(message, messages.Failed):
            self._feed(Failed(role, message, at))
        elif isinstance(message, messages.Cancelled):
            self._feed(Stopped(role, at))
        else:
            self._feed(Garbled(role, f"it sent what only a conductor sends: {type(message).__name__}", at))

    def letter(self, letter: Letter) -> None:
        """See `Receiver`."""
        role = self._roles.get(letter.source)
        if role is None:
            return
        try:
            message = messages.decode(letter.payload)
        except messages.Malformed as error:
            self._feed(Garbled(role, str(error), self._loop.time()))
        else:
            self.told(role, message)

    def undelivered(self, letter_id: int, destination: str, why: str) -> None:
        """See `Receiver`."""
        self.gone(destination, (), why)

    def gone(self, address: str, unknown: tuple[int, ...], why: str) -> None:
        """See `Receiver`."""
        role = self._roles.get(address)
        if role is not None:
            self.lost(role, why)
        elif address == conductor_address(self.run_id):
            self._feed(Left(None, why, self._loop.time()))

    def link_lost(self, why: str) -> None:
        """See `Receiver`. Nothing said is lost by it, so the run goes on."""

    # --- the machine ---

    def _feed(self, event: Event) -> None:
        self._events.append(event)
        self._turn_over()

    def _turn_over(self) -> None:
        """Take what has happened, as far as the journal lets it go on."""
        if self._busy or self._keeping is not None:
            return
        self._busy = True
        try:
            while self._events and self._keeping is None:
                self._step(self._events.popleft())
        finally:
            self._busy = False
        if self._state.wake is not None:
            self._arm()

    def _step(self, event: Event) -> None:
        before = self._state
        self._state, commands = step(before, event)
        self._go_through(iter(commands), before)

    def _go_through(self, commands: Iterator[Command], before: State) -> None:
        """Carry out what a step said, up to its end or to a decision that is not durable yet."""
        for command in commands:
            try:
                if isinstance(command, Keep):
                    kept = self._record.append(command.decision)
                    if kept is not None:
                        self._keeping = kept
                        kept.add_done_callback(lambda kept: self._kept(kept, commands, before))
                        return
                else:
                    self._carry_out(command)
            except BusError as error:
                self._events.append(Left(_addressee(command), str(error), self._loop.time()))
            # A record is somebody else's code, and whatever it raises, the decision was not kept.
            except Exception as error:
                if not isinstance(command, Keep):
                    raise
                self._not_kept(error, before)
                return

    def _kept(self, kept: asyncio.Future[None], commands: Iterator[Command], before: State) -> None:
        """The decision is durable, or never will be."""
        self._keeping = None
        error = asyncio.CancelledError("it was cancelled") if kept.cancelled() else kept.exception()
        if error is not None:
            self._not_kept(error, before)
        else:
            # What is carried out may say something at once, and that comes after the rest of this step.
            self._busy = True
            try:
                self._go_through(commands, before)
                if self._state.wake is not None:
                    self._events.appendleft(Recorded(self._loop.time()))
            finally:
                self._busy = False
        self._turn_over()

    def _not_kept(self, error: BaseException, before: State) -> None:
        # The step is not taken: the decision was not kept, so nothing may follow from it.
        self._state = before
        self._events.appendleft(Unrecorded(str(error) or type(error).__name__, self._loop.time()))

    def _carry_out(self, command: Command) -> None:
        if isinstance(command, Deliver):
            self._deliver(command)
        elif isinstance(command, Grant):
            self._send(command.role, messages.Grant(command.turn, command.within))
            self._granted(command)
        elif isinstance(command, Welcome):
            self._send(command.role, messages.Welcome())
            self._started()
        elif isinstance(command, Recall):
            turn, sender, receiver, label, payload, _ = command.decision
            self._send(sender, messages.Recalled(turn, receiver, label, payload))
        elif isinstance(command, Stop):
            self._send(command.role, messages.Cancel(command.reason))
        elif isinstance(command, Dismiss):
            self._send(command.role, messages.End())
        elif isinstance(command, Finish):
            self._finish(command.verdict)

    def _deliver(self, command: Deliver) -> None:
        turn, sender, receiver, label, payload, _ = command.decision
        grant = command.grant
        self._log.append(sender, receiver, label, payload)
        within = None if grant is None else grant.within
        shared = command.message if command.message.is_plain else None
        assert self._line is not None
        self._line.send(receiver, messages.Deliver(turn, sender, label, payload, grant is not None, within, shared))
        if self._on_event is not None:
            envelope = Envelope(Role(sender), Role(receiver), command.message)
            self._on_event(Delivered(self.run_id, turn, envelope, turn <= len(self._state.plan.recorded)))
            if grant is not None:
                self._granted(grant)

    def _started(self) -> None:
        # Roles are welcomed together, so the first welcome is the start.
        if not self._welcomed:
            self._welcomed = True
            if self._on_event is not None:
                self._on_event(RunStarted(self.run_id))

    def _granted(self, grant: Grant) -> None:
        if self._on_event is not None:
            self._on_event(TurnGranted(self.run_id, grant.turn, grant.role, grant.receiver))

    def _finish(self, verdict: Verdict) -> None:
        self.verdict = verdict
        if self._on_event is not None:
            if verdict.ending is Ending.COMPLETE:
                self._on_event(RunEnded(self.run_id, verdict.turn))
            else:
                why = str(error_of(verdict, self.run_id))
                self._on_event(RunFailed(self.run_id, verdict.turn, verdict.role, why))
        if not self._over.done():
            self._over.set_result(None)

    def _ending(self) -> str:
        """How the run ended, for its record; "" as long as it has not."""
        error = None if self.verdict is None else error_of(self.verdict, self.run_id)
        return str(error) if error is not None else "complete" if self.verdict is not None else ""

    def _send(self, role: str, message: messages.ToRole) -> None:
        assert self._line is not None
        self._line.send(role, message)

    # --- time ---

    def _arm(self) -> None:
        """See that a Tick comes when the state wants one; a timer that is early finds out and is set again."""
        wake = self._state.wake
        if wake is None or self.verdict is not None:
            return
        if self._timer is None or self._timer.when() > wake:
            self._disarm()
            self._timer = self._loop.call_at(wake, self._tick)

    def _tick(self) -> None:
        self._timer = None
        # The loop may call a little early by its own clock's resolution.
        wake = self._state.wake
        now = self._loop.time()
        self._feed(Tick(now if wake is None or now < wake - 0.001 else max(now, wake)))

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _addressee(command: Command) -> str | None:
    """The role that a command sends a letter to."""
    if isinstance(command, Deliver):
        return command.decision.receiver
    if isinstance(command, Recall):
        return command.decision.sender
    return command.role if isinstance(command, (Welcome, Grant, Stop, Dismiss)) else None


async def conduct(
    bus: Ways,
    protocol: Protocol,
    run_id: str,
    *,
    allowance: Allowance | None = None,
    record: Record | None = None,
    on_event: Callable[[RunEvent], None] | None = None,
    limits: Limits | None = None,
) -> Transcript:
    """Conduct one run over `bus`; arguments, result and errors are those of `Conductor`."""
    conductor = Conductor(protocol, run_id, allowance=allowance, record=record, on_event=on_event, limits=limits)
    await conductor.open(bus)
    return await conductor.run()
