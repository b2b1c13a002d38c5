"""What all of an agent session shares: where it stands, and who carries out what the policy decides.

Whatever changes the state is a `step` of the policy, under one lock. What a step tells to do is done outside of it,
except that an interrupt is passed on within, so that it meets the turn that it was decided about or none.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from partyctl_actors.supervision import policy_commands, policy_events, telling
from partyctl_actors.supervision.kept_conversation import KeptConversation
from partyctl_actors.supervision.open_connections import OpenConnections
from partyctl_actors.supervision.policy import SessionPolicy
from partyctl_actors.supervision.policy_commands import Command, Execute, Fail, Finish, Open, Wait
from partyctl_actors.supervision.policy_events import Event, Phase
from partyctl_actors.supervision.running_turn import RunningTurn
from partyctl_actors.supervision.session_parts import SessionParts
from partyctl_actors.supervision.turn_notes import TurnNotes
from partyctl_plugins.contract import SessionStateError, TurnTicket

Last: TypeAlias = Open | Execute | Wait | Finish | Fail
"""What only the thread that runs the turn carries out: it ends the turn, or is answered by an event."""


class SessionCore:
    """Where one agent session stands, and what it holds.

    Args:
        parts: what it is made of.

    Attributes:
        parts: as given.
        pid: the process that it belongs to.
        lock: held while the state changes, or what is below it.
        state: where it stands.
        recovered: whether another session with this log stood there before.
        ticket: the newest reservation.
        running: the turn that a thread carries out now.
        connections: those that are open.
        kept: its checkpoint, and what its conversations used.
        notes: its log.
    """

    def __init__(self, parts: SessionParts) -> None:
        self.parts = parts
        self.pid = os.getpid()
        self.lock = threading.RLock()
        self.ticket: TurnTicket | None = None
        self.running: RunningTurn | None = None
        self._under_way = 0
        self.connections = OpenConnections()
        self.notes = TurnNotes(parts.log)
        self._policy = SessionPolicy(parts.config())
        found = self.notes.recover()
        # The key comes first: what is read under it must not be that of a session which still writes.
        self.kept = KeptConversation(parts.checkpoints, parts.checkpoint_key)
        try:
            begin = parts.beginning() if found is None else None
        except BaseException:
            self.kept.let_go()
            raise
        self.recovered = found is not None
        self.state = found or self._policy.begin(None if begin is None else begin.conversation_id)
        if begin is not None and begin.usage is not None and self.state.conversation_id:
            self.kept.report(begin.conversation_id, begin.usage)

    @property
    def is_here(self) -> bool:
        """Whether it belongs to this process; a fork has its locks and connections, and none of the threads."""
        return self.pid == os.getpid()

    def check_process(self) -> None:
        """Raises SessionStateError: this process is a fork of the one that it belongs to."""
        if not self.is_here:
            raise SessionStateError(
                "the session belongs to another process",
                where=f"pid {self.pid}",
                why="this process is a fork of that one, and two cannot drive one conversation",
                fix="Make a session in the process that uses it",
            )

    def now(self) -> float:
        """What the session's clock says, in seconds."""
        return self.parts.clock.monotonic()

    def step(self, event: Event) -> list[Command]:
        """Let something happen to the session; what is to be done about it."""
        with self.lock:
            self.state, commands = self._policy.step(self.state, event)
            if self.state.phase in (Phase.IDLE, Phase.PREPARED):
                self.running = None
            return commands

    def carry_out(self, commands: Sequence[Command]) -> Last | None:
        """Do what can be done at once; the command that is left for the thread that runs the turn."""
        self.report(commands)
        last: Last | None = None
        for command in commands:
            if isinstance(command, policy_commands.CloseConversation):
                self.connections.close(command.connection)
            elif isinstance(command, policy_commands.SaveCheckpoint):
                self.kept.save(command.conversation_id)
            elif isinstance(command, policy_commands.ClearCheckpoint):
                self.kept.save(None)
            elif isinstance(command, Last):
                last = command
        self._close_unneeded()
        return last

    def report(self, commands: Sequence[Command]) -> None:
        """Tell the decisions among `commands` to whoever watches."""
        telling.report(self.parts.on_decided, commands)

    def pass_on_interrupt(self, commands: Sequence[Command]) -> None:
        """Have the opening, attempt or wait under way end if `commands` say so. Under the lock."""
        if self.running is None or not any(isinstance(each, policy_commands.Interrupt) for each in commands):
            return
        self.running.stop.set()
        self.parts.engine.abandon()
        self.connections.interrupt()

    @contextlib.contextmanager
    def under_way(self) -> Iterator[None]:
        """A thread is in a turn, and may save under the checkpoint key until it is out of it."""
        with self.lock:
            self._under_way += 1
        try:
            yield
        finally:
            with self.lock:
                self._under_way -= 1
            self.let_go_if_over()

    def let_go_if_over(self) -> None:
        """Leave the checkpoint key to others, if the session is closed and no thread is in a turn of it."""
        with self.lock:
            over = self.state.closed and not self._under_way
        if over:
            self.kept.let_go()

    def notice_deaths(self) -> None:
        """Take note of connections that have ended between turns, or between the attempts of one.

        One that ends in an attempt fails it: that says so itself, with what is known of the end.
        """
        with self.lock:
            gone = self.connections.dead
            if self.state.phase in (Phase.OPENING, Phase.RUNNING) or not gone:
                return
            commands = [
                command
                for serial in gone
                for command in self.step(policy_events.Died(self.now(), serial, "the worker ended"))
            ]
        self.carry_out(commands)

    def _close_unneeded(self) -> None:
        with self.lock:
            turn = self.state.turn
            needed = (self.state.connection, None if turn is None else turn.serial)
        self.connections.close_others(needed)
