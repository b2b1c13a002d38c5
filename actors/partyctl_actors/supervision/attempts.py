"""One step of a turn that takes time: opening a connection, asking the provider, waiting. Each is answered by an event.

On the thread that runs the turn. Whatever raises is an event too: what follows from it is the policy's business.
"""

from __future__ import annotations

from dataclasses import replace

from partyctl_actors.supervision import endings, telling
from partyctl_actors.supervision.engine import Connection
from partyctl_actors.supervision.policy_commands import Execute, Open, Wait
from partyctl_actors.supervision.policy_events import Event, Failed, Lost, Opened, Outcome, Succeeded, Waited
from partyctl_actors.supervision.running_turn import RunningTurn, attempt_name
from partyctl_actors.supervision.session_core import SessionCore
from partyctl_actors.supervision.spending import NOTHING, Used, answered, unanswered
from partyctl_plugins.contract import AgentEvent, TurnResult, TurnTimeoutError
from partyctl_plugins.events import UsageReport

LATE_LOOK = 0.05
"""Seconds to look for the result of an attempt whose deadline passed while its node was dead."""


def attempted(core: SessionCore, running: RunningTurn, command: Open | Execute | Wait) -> Event:
    """Carry out the command, within what is left of the turn's deadline; what happened.

    Args:
        core: whose turn it is.
        running: the turn; it keeps the result, or what was raised.
        command: what is to be done.
    """
    left = running.left(core.now())
    if isinstance(command, Wait):
        return _wait(core, running, command, left)
    was_asked, running.is_taken_over = running.is_taken_over and isinstance(command, Execute), False
    if was_asked and left is not None:
        # Its worker may have the result since before the deadline: that is looked for, however late it is.
        left = max(left, LATE_LOOK)
    if left is not None and left <= 0:
        running.error = running.late()
        return Failed(core.now(), command.serial, Outcome.TIMEOUT, cause=str(running.error))
    if isinstance(command, Open):
        return _open(core, running, command, left)
    return _execute(core, running, command.serial, left)


def _open(core: SessionCore, running: RunningTurn, command: Open, left: float | None) -> Event:
    held, limit = command.conversation_id, core.parts.limits.open
    spec = replace(core.parts.spec, resume_id=held, previous_usage=core.kept.usage(held))
    try:
        connection = core.parts.engine.open(spec, running.stop, limit if left is None else min(left, limit))
        conversation_id = connection.conversation_id
    except Exception as error:
        return _failed(core, running, command.serial, error, "open")
    core.connections.add(command.serial, connection)
    return Opened(core.now(), command.serial, conversation_id)


def _execute(core: SessionCore, running: RunningTurn, serial: int, left: float | None) -> Event:
    connection = core.connections[core.state.connection or 0]
    watch, began = endings.Watch(), core.now()

    def emit(event: AgentEvent) -> None:
        watch.note(event)
        running.tell(event)

    try:
        attempt = attempt_name(running.ticket.turn_id, serial)
        running.asked = connection, attempt
        result = connection.turn(attempt, running.request(left), emit, running.stop)
        ran_in = result.session_id or connection.conversation_id
    except BaseException as error:
        used = _account(core, running, connection.conversation_id, None, watch.report, core.now() - began)
        if not isinstance(error, Exception):
            raise
        return _failed(core, running, serial, error, "turn", connection, watch, used)
    running.result = result
    _account(core, running, ran_in, result, watch.report, core.now() - began)
    return Succeeded(
        core.now(), serial, ran_in, result.usage.tokens.input_tokens, result.duration_ms, result.interrupted
    )


def _account(
    core: SessionCore, running: RunningTurn, ran_in: str | None, result: TurnResult | None, report: UsageReport | None,
    seconds: float,
) -> Used:  # fmt: skip
    """Count what an attempt used, however it ended: for its turn, for whoever pays, and for the next turn there."""
    # Without `raw` there is nothing to count from, and an interrupted turn's result may be ours, not the provider's.
    is_theirs = result is not None and not (result.interrupted and result.usage.raw is None)
    reported = None if report is None else report.usage
    if result is not None and (is_theirs or report is None):
        reported, used = result.usage if is_theirs else None, answered(result)
    else:
        used = unanswered(report, seconds)
    if ran_in and reported is not None:
        core.kept.report(ran_in, reported)
    running.used += used
    telling.used(core.parts.on_used, used)
    return used


def _wait(core: SessionCore, running: RunningTurn, command: Wait, left: float | None) -> Event:
    if left is not None and command.seconds >= left:
        running.error = running.late()
        return Waited(core.now(), command.serial, stopped=True)
    stopped = core.parts.clock.wait(command.seconds, running.stop)
    return Waited(core.now(), command.serial, stopped)


def _failed(
    core: SessionCore, running: RunningTurn, serial: int, raised: Exception, doing: str,
    connection: Connection | None = None, watch: endings.Watch | None = None, used: Used | None = None,
) -> Failed | Lost:  # fmt: skip
    running.error = error = endings.own(raised, doing)
    left = running.left(core.now())
    if isinstance(error, TurnTimeoutError) and left is not None and left <= 0:
        running.error = error = running.late()
    named = None if connection is None else connection.conversation_id
    died = connection is not None and not connection.alive
    event = endings.happened(
        error, core.now(), serial, named, watch, died, core.parts.engine.predecessor_dead, used or NOTHING
    )
    running.loss = event.cause
    return event
