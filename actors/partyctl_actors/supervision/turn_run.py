"""A turn from its ticket to its result, through whatever retries it takes, on the thread that called `run`."""

from __future__ import annotations

from partyctl_actors.supervision import endings, policy_events
from partyctl_actors.supervision.attempts import attempted
from partyctl_actors.supervision.deadlines import in_seconds, moment, the_earlier
from partyctl_actors.supervision.left_over import LeftOver
from partyctl_actors.supervision.policy_commands import Command, Execute, Fail, Finish, Open, Refuse, Wait
from partyctl_actors.supervision.policy_events import Phase
from partyctl_actors.supervision.running_turn import RunningTurn, Tell
from partyctl_actors.supervision.session_core import SessionCore
from partyctl_actors.supervision.spending import NOTHING
from partyctl_base.clock import StopSignal
from partyctl_plugins.contract import SessionStateError, Turn, TurnResult, TurnTicket
from partyctl_plugins.events import TurnInterrupted


def run_turn(core: SessionCore, left_over: LeftOver, ticket: TurnTicket, deadline: float | None, tell: Tell) -> Turn:
    """Run a prepared turn; raises as `AgentSession.run`.

    Args:
        core: the session.
        left_over: what its predecessor left to do.
        ticket: the reservation.
        deadline: seconds within which the turn must be over; None for no limit.
        tell: hands an event to the handlers.
    """
    running = RunningTurn(ticket, None, tell)
    try:
        commands = _begun(core, left_over, running, deadline)
        if core.running is running:
            core.notes.intend(ticket, core.state, running.deadline)
        outcome = _to_its_end(core, running, commands)
    except BaseException as error:
        _broke(core, running, error)
        raise
    with core.lock:
        core.kept.forget_others(core.state.conversation_id)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _begun(core: SessionCore, left_over: LeftOver, running: RunningTurn, deadline: float | None) -> list[Command]:
    ticket = running.ticket
    now = moment(core.now())
    limit = None if deadline is None else in_seconds(deadline, now)
    with core.lock:
        held = core.ticket
        if held is not None and ticket.turn_id == held.turn_id and ticket != held:
            raise SessionStateError("the ticket was altered", where=ticket.turn_id, fix="Prepare another turn")
        if core.running is None:
            core.running = running  # before the step: whoever presses Ctrl-C after it finds whose turn to break off
        commands, begun_with = left_over.take(ticket.turn_id)
        running.is_taken_over = bool(commands)
        if running.is_taken_over:
            limit = the_earlier(limit, begun_with and begun_with.on(now), now)
            if core.state.turn is not None and core.state.turn.interrupted:
                running.stop.set()
        else:
            commands = core.step(policy_events.RunAsked(now.monotonic, ticket.turn_id))
        if core.running is running and any(isinstance(each, Refuse) for each in commands):
            core.running = None
        endings.raise_refused(commands)
        running.deadline = limit
        running.note(core.state.turn)
        running.used = NOTHING if core.state.turn is None else core.state.turn.used
    return commands


def _to_its_end(core: SessionCore, running: RunningTurn, commands: list[Command]) -> Turn | Exception:
    """Carry out what is to be done until the turn has its result, or what it raises."""
    while True:
        end = next((command for command in commands if isinstance(command, Finish | Fail)), None)
        if end is not None:
            running.note(None, commands)
            # Durable before the connection is closed, as by a renewal: its worker holds the only copy till then.
            outcome = _outcome(core, running, end)
            core.carry_out(commands)
            return outcome
        last = core.carry_out(commands)
        assert isinstance(last, Open | Execute | Wait), "the policy leaves no turn without an end"
        event = attempted(core, running, last)
        if isinstance(last, Wait):
            core.notice_deaths()
        with core.lock:
            instead, running.told_instead = running.told_instead, None
            if instead is not None and not (core.state.turn is not None and core.state.turn.interrupted):
                running.stop = StopSignal()
            running.note(core.state.turn)
            commands = core.step(event) if instead is None else instead
            going_on = core.running is running
        if going_on and core.notes.moved(core.state):
            running.acknowledge()


def _outcome(core: SessionCore, running: RunningTurn, end: Finish | Fail) -> Turn | Exception:
    if isinstance(end, Fail):
        error = endings.raised(end, running.error, running.loss)
        if core.notes.failed(running.ticket.turn_id, error, core.state, running.rules, running.used):
            running.acknowledge()
        return error
    result = running.result
    if end.forced or result is None:
        result = TurnResult(session_id=end.conversation_id, interrupted=True)
        running.tell(TurnInterrupted())
    turn = Turn(result, end.continuity, end.turn_id, end.conversation_id, end.forced)
    if core.notes.finished(turn, core.state, running.rules, running.used):
        running.acknowledge()
    return turn


def _broke(core: SessionCore, running: RunningTurn, error: BaseException) -> None:
    """What is no provider's failure ends the turn, so that the session is left ready for the next one."""
    with core.lock:
        if core.running is not running:
            return
        if core.state.phase in (Phase.IDLE, Phase.PREPARED):
            core.running = None  # it had not begun
            return
        named = core.connections.conversation_id
        running.note(core.state.turn)
        commands = core.step(policy_events.Broke(core.now(), named, endings.words(error)))
    running.note(None, commands)
    core.carry_out(commands)
    core.notes.failed(running.ticket.turn_id, error, core.state, running.rules, running.used)
