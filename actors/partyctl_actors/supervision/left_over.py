"""The turn that an agent session with the same log had begun before: it goes on when its ticket is run."""

from __future__ import annotations

from partyctl_actors.supervision import endings
from partyctl_actors.supervision.deadlines import Deadline
from partyctl_actors.supervision.policy_commands import Command, Execute, Fail, Open, Wait
from partyctl_actors.supervision.policy_events import Found, Phase, Restored, Waited
from partyctl_actors.supervision.session_core import SessionCore
from partyctl_actors.supervision.spending import NOTHING
from partyctl_plugins.contract import TurnTicket


class LeftOver:
    """What is left to do of a turn that was begun by another session.

    Args:
        core: the session that goes on.
    """

    def __init__(self, core: SessionCore) -> None:
        self._core = core
        self._commands: list[Command] = []
        if core.recovered:
            self._restore()

    @property
    def ticket(self) -> TurnTicket | None:
        """The reservation of the turn, None if there is none or it was taken."""
        turn = self._core.state.turn
        if turn is None or not self._commands:
            return None
        request = self._core.notes.request(turn.turn_id)
        return TurnTicket(turn.turn_id, request, turn.expected, turn.strict, turn.pinned)

    def take(self, turn_id: str) -> tuple[list[Command], Deadline | None]:
        """What is to be done next for the turn of this id, and the deadline it had; nothing if it is another, or none.

        Under the lock.
        """
        turn = self._core.state.turn
        if turn is None or turn.turn_id != turn_id or not self._commands:
            return [], None
        commands, self._commands = self._commands, []
        return commands, self._core.notes.deadline

    def drop(self) -> None:
        """Nobody goes on with the turn: if it waited, it is over."""
        core = self._core
        with core.lock:
            waits = [command for command in self._commands if isinstance(command, Wait)]
            self._commands = [command for command in self._commands if command not in waits]
            for wait in waits:
                core.step(Waited(core.now(), wait.serial, stopped=True))

    def _restore(self) -> None:
        core, engine = self._core, self._core.parts.engine
        connection = engine.taken
        if connection is not None and not core.state.live and core.state.phase is not Phase.OPENING:
            connection.close()  # the session was done with it
            connection = None
        if connection is not None and core.state.connection is not None:
            core.connections.add(core.state.connection, connection)
        # What cannot be reached is as good as gone.
        found = Found.GONE if connection is None else engine.found
        cause = (engine.end or "nothing is known of the end of its worker") if found is Found.GONE else ""
        begun = core.state.turn
        last = core.carry_out(core.step(Restored(core.now(), found, cause)))
        turn = core.state.turn
        if isinstance(last, Wait):
            self._commands = [last]
        elif turn is not None and turn.phase is Phase.RUNNING:
            self._commands = [Execute(turn.serial)]
        elif turn is not None and turn.phase is Phase.OPENING:
            self._commands = [Open(turn.serial, core.state.conversation_id)]
        elif isinstance(last, Fail):
            why = f"its worker is gone: {cause}" if found is Found.GONE else "its worker was not asked for it"
            rules, used = ((), NOTHING) if begun is None else (begun.rules, begun.used)
            error = endings.raised(last, None, why)
            core.notes.failed(last.turn_id, error, core.state, (*rules, last.rule.value), used)
            if connection is not None and connection not in core.connections:
                connection.close()
