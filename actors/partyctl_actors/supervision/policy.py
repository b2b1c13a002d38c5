"""The recovery policy as a state machine: what an agent session does about everything that can happen to it.

Rules (docs/recovery.md has them for a reader, with the diagram of the table; docs/decisions/0013 has the reasons)

1. Transient retry. Tried again in the same conversation, after each of `RetryPolicy.delays`; then the error stands.
   When the provider says when it can be asked again, that replaces the delay, up to `RESET_MAX`. After a tool was used
   in the attempt it is tried again as well, and said so; with `after_tool="fail"` the error stands.
2. Resume refused. A turn that continued a conversation drops it and is tried once in a fresh one; never a strict or
   pinned turn, and never after a tool was used in it. If the process that had the conversation before may still live,
   the same id is tried once more first. An id that a failed resume or a failed opening names is never adopted.
3. Backstop. A resumed turn that fails for no known reason forgets its conversation; one whose context overflows does,
   resumed or not; never a strict or pinned turn. With `retire_after_stalled=N` so does the N-th resumed turn in a row
   that failed without any progress. Everything else keeps it.
4. Renewal. After a success that reaches the budget the conversation is retired; never by a strict or pinned turn.
5. Idle release. A connection that was idle for the limit is closed when a turn is prepared; the conversation is kept.
6. Checkpoints. Saved after each turn that keeps a conversation, cleared when one is retired, replaced or forgotten.
7. Continuity. A strict or pinned turn that was, or would be, answered in another conversation than it was prepared for
   fails, and the session keeps the one it had.
8. An interrupt ends a turn, an opening or a wait, costs no retry and forgets nothing. A turn that was prepared and did
   not run is cancelled. One that has ended, or was superseded, is left alone: so is the turn after it.
9. What is no provider's failure is none: an exception of the caller's ends the turn and keeps the conversation, behind
   a connection that is opened anew, because the old one may still be about to answer. When launcher or host is gone, no
   counter moves; an attempt that was under way has an unknown outcome and is not begun again.

Retries of transient failures, of the same id and by a fresh conversation are counted apart, for the whole turn. Only a
person's "go on" forgives what was spent.

`TABLE` holds which event does what in which phase: the first row that fits. Nothing else changes a state; what no row
fits changes nothing. `Open`, `Execute` and `Wait` carry a serial number and so do their answers, so that an answer that
comes late is known. `step` never raises and never waits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, Never, TypeAlias

from partyctl_actors.supervision import policy_asks as asks
from partyctl_actors.supervision import policy_attempts as attempts
from partyctl_actors.supervision import policy_failures as failures
from partyctl_actors.supervision import policy_losses as losses
from partyctl_actors.supervision.policy_commands import Command, Decided, Refusal, Rule, Wait
from partyctl_actors.supervision.policy_config import PolicyConfig
from partyctl_actors.supervision.policy_events import (
    AdoptAsked,
    Broke,
    CloseAsked,
    ContinueAsked,
    Died,
    Event,
    Failed,
    Found,
    InterruptAsked,
    Lost,
    Opened,
    Outcome,
    Phase,
    PrepareAsked,
    ReleaseAsked,
    Restored,
    RunAsked,
    SteerAsked,
    Succeeded,
    Waited,
)
from partyctl_actors.supervision.policy_moves import disconnected
from partyctl_actors.supervision.policy_state import SessionState, Transition


class SessionPolicy:
    """The recovery rules under one configuration. It has no state of its own."""

    def __init__(self, config: PolicyConfig) -> None:
        self.config = config

    def begin(self, conversation_id: str | None = None) -> SessionState:
        """A session that has not done anything, holding this conversation if it can be resumed.

        Args:
            conversation_id: the caller's `resume_id`, else that of the stored checkpoint, else None.
        """
        return SessionState(conversation_id=(conversation_id or None) if self.config.supports_resume else None)

    def step(self, state: SessionState, event: Event) -> Transition:
        """What `event` makes of `state`, and what is to be done, in order."""
        noted, happened, row = self._match(state, event)
        if row is None:
            return noted, []
        # The table gives each event to functions of its own class, which the type of a table cannot say.
        after, commands = row.then(self.config, noted, happened)  # type: ignore[arg-type]
        if row.rule is None:
            return after, commands
        return _counted(row.rule, noted, happened, after, commands)

    def row(self, state: SessionState, event: Event) -> Row | None:
        """The row of the table that `step` would go by; None if the event changes nothing."""
        return self._match(state, event)[2]

    def _match(self, state: SessionState, event: Event) -> tuple[SessionState, Event, Row | None]:
        noted = _noted(self.config, state, event)
        if noted is None:
            return state, event, None
        state, event = noted
        for row in ROWS[state.phase, type(event)]:
            if row.when is None or row.when(self.config, state, event):  # type: ignore[arg-type]
                return state, event, row
        return state, event, None


def _noted(config: PolicyConfig, state: SessionState, event: Event) -> tuple[SessionState, Event] | None:
    """The state with what the event says of the conversation, whatever is then done; None if it is of the past."""
    if isinstance(event, Opened | Succeeded | Failed | Waited) and (
        state.turn is None or state.turn.serial != event.serial
    ):
        return None
    turn = state.turn
    if isinstance(event, Died):
        trying = turn.serial if turn is not None and turn.phase is Phase.OPENING else None
        if event.connection not in (state.connection, trying):
            return None
        if turn is not None and turn.phase in ATTEMPT:
            event = Failed(event.at, turn.serial, Outcome.OTHER, tool_ran=True, died=True, cause=event.cause)
    if turn is not None and isinstance(event, Failed | Broke | Lost):
        refused = isinstance(event, Failed) and event.outcome is Outcome.RESUME_REFUSED
        usable = turn.phase is Phase.RUNNING and not refused and (state.live or config.supports_resume)
        if usable and state.conversation_id is None and event.conversation_id:
            state = replace(state, conversation_id=event.conversation_id)
    if turn is not None and isinstance(event, Failed):
        ran, went = turn.tool_ran or event.tool_ran, turn.progressed or event.progressed
        state = replace(state, turn=replace(turn, tool_ran=ran, progressed=went, used=turn.used + event.used))
    if _ends_connection(event):
        state = disconnected(config, state)
    return state, event


def _ends_connection(event: Event) -> bool:
    if isinstance(event, Failed):
        return event.died
    return isinstance(event, Died | Lost) or (isinstance(event, Restored) and event.worker is Found.GONE)


def _counted(
    rule: Rule, before: SessionState, event: Event, after: SessionState, commands: list[Command]
) -> Transition:
    """The transition with the report of it in front, and the rule's counter moved."""
    times = after.counts.get(rule, 0) + 1
    after = replace(after, counts={**after.counts, rule.value: times})
    if after.turn is not None:
        after = replace(after, turn=replace(after.turn, rules=(*after.turn.rules, rule.value)))
    turn = after.turn or before.turn
    waits = [command.seconds for command in commands if isinstance(command, Wait)]
    decided = Decided(
        rule,
        None if turn is None else turn.turn_id,
        event.outcome if isinstance(event, Failed) else None,
        before.conversation_id,
        0 if turn is None else turn.retries,
        0 if turn is None else turn.same_id,
        turn is not None and turn.replaced,
        after.stalled,
        times,
        waits[0] if waits else None,
        getattr(event, "cause", ""),
    )
    return after, [decided, *commands]


When: TypeAlias = Callable[[PolicyConfig, SessionState, Never], bool]
Then: TypeAlias = Callable[[PolicyConfig, SessionState, Never], Transition]


class Row(NamedTuple):
    """What an event does in some phases.

    Attributes:
        phases: in which it counts.
        event: its class.
        when: what must hold besides, told in its docstring; None if nothing must.
        then: what makes the next state and the commands.
        to: where that leads; empty for the phase it comes from.
        rule: the recovery rule that is applied and reported, None if nothing is decided.
    """

    phases: tuple[Phase, ...]
    event: type[Event]
    when: When | None
    then: Then
    to: tuple[Phase, ...] = ()
    rule: Rule | None = None


IDLE, PREPARED, OPENING, RUNNING, WAITING = (
    (Phase.IDLE,),
    (Phase.PREPARED,),
    (Phase.OPENING,),
    (Phase.RUNNING,),
    (Phase.WAITING,),
)
REST = IDLE + PREPARED
ATTEMPT = OPENING + RUNNING
BUSY = ATTEMPT + WAITING
ANY = REST + BUSY

TABLE: tuple[Row, ...] = (
    Row(ANY, PrepareAsked, asks.is_closed, asks.refusing(Refusal.CLOSED)),
    Row(BUSY, PrepareAsked, None, asks.refusing(Refusal.BUSY)),
    Row(REST, PrepareAsked, asks.demands_another, asks.refuse_continuity),
    Row(REST, PrepareAsked, asks.has_idled, asks.release_and_prepare, PREPARED, Rule.IDLE_RELEASE),
    Row(REST, PrepareAsked, None, asks.prepare, PREPARED),
    Row(ANY, RunAsked, asks.is_closed, asks.refusing(Refusal.CLOSED)),
    Row(IDLE, RunAsked, asks.is_cancelled, asks.run_cancelled),
    Row(IDLE + BUSY, RunAsked, None, asks.refusing(Refusal.STALE)),
    Row(PREPARED, RunAsked, asks.is_another, asks.refusing(Refusal.STALE)),
    Row(PREPARED, RunAsked, asks.has_lost_it, asks.fail_continuity, IDLE, Rule.CONTINUITY),
    Row(PREPARED, RunAsked, None, asks.run, ATTEMPT),
    Row(PREPARED, InterruptAsked, asks.is_named, asks.cancel, IDLE, Rule.CANCELLED),
    Row(BUSY, InterruptAsked, asks.is_meant, asks.interrupt),
    Row(ANY, SteerAsked, asks.cannot_steer, asks.refusing(Refusal.CANNOT_STEER)),
    Row(REST + OPENING + WAITING, SteerAsked, None, asks.refusing(Refusal.NO_RUNNING_TURN)),
    Row(RUNNING, SteerAsked, asks.is_ending, asks.refusing(Refusal.NO_RUNNING_TURN)),
    Row(RUNNING, SteerAsked, None, asks.steer),
    Row(IDLE, AdoptAsked, asks.is_adoptable, asks.adopt),
    Row(ANY, AdoptAsked, None, asks.adopt_not),
    Row(REST, ReleaseAsked, asks.can_release, asks.release),
    Row(WAITING, ContinueAsked, asks.is_ending, asks.forgive),
    Row(WAITING, ContinueAsked, failures.has_no_place, losses.end_wait_without_place, IDLE, Rule.FRESH_REFUSED),
    Row(WAITING, ContinueAsked, None, asks.forgive_and_go, ATTEMPT, Rule.CONTINUE),
    Row(REST + ATTEMPT, ContinueAsked, None, asks.forgive, (), Rule.CONTINUE),
    Row(REST, CloseAsked, asks.is_open, asks.close, IDLE),
    Row(BUSY, CloseAsked, asks.is_open, asks.close_turn),
    Row(OPENING, Opened, asks.is_ending, attempts.opened_ending, IDLE, Rule.INTERRUPTED),
    Row(OPENING, Opened, attempts.opened_elsewhere, attempts.refuse_opened, IDLE, Rule.CONTINUITY),
    Row(OPENING, Opened, None, attempts.opened, RUNNING),
    Row(RUNNING, Succeeded, attempts.succeeded_elsewhere, attempts.refuse_answer, IDLE, Rule.CONTINUITY),
    Row(RUNNING, Succeeded, attempts.has_grown_old, attempts.retire, IDLE, Rule.RENEWAL),
    Row(RUNNING, Succeeded, None, attempts.keep, IDLE),
    Row(RUNNING, Failed, asks.is_ending, failures.finish_forced, IDLE, Rule.INTERRUPTED),
    Row(OPENING, Failed, asks.is_ending, failures.opening_cut_short, IDLE, Rule.INTERRUPTED),
    Row(ATTEMPT, Failed, failures.may_not_repeat, failures.keeping(Rule.RETRY_UNSAFE), IDLE, Rule.RETRY_UNSAFE),
    Row(ATTEMPT, Failed, failures.has_nowhere, failures.keeping(Rule.FRESH_REFUSED), IDLE, Rule.FRESH_REFUSED),
    Row(ATTEMPT, Failed, failures.may_retry_after_tool, failures.retry, WAITING, Rule.RETRY_AFTER_TOOL),
    Row(ATTEMPT, Failed, failures.may_retry, failures.retry, WAITING, Rule.RETRY),
    Row(ATTEMPT, Failed, failures.is_refused_too_soon, failures.try_same_id, WAITING, Rule.SAME_ID),
    Row(ATTEMPT, Failed, failures.is_refused_and_kept, failures.keeping(Rule.REFUSED), IDLE, Rule.REFUSED),
    Row(
        ATTEMPT,
        Failed,
        failures.is_refused_after_tool,
        failures.forgetting(Rule.FRESH_REFUSED),
        IDLE,
        Rule.FRESH_REFUSED,
    ),
    Row(ATTEMPT, Failed, failures.is_refused_and_resumed, failures.begin_fresh, OPENING, Rule.REPLACE),
    Row(ATTEMPT, Failed, failures.is_refused, failures.forgetting(Rule.REFUSED), IDLE, Rule.REFUSED),
    Row(ATTEMPT, Failed, failures.has_stalled, failures.forgetting(Rule.STALLED), IDLE, Rule.STALLED),
    Row(ATTEMPT, Failed, failures.is_unknown_and_resumed, failures.forgetting(Rule.BACKSTOP), IDLE, Rule.BACKSTOP),
    Row(ATTEMPT, Failed, failures.is_overflow, failures.forgetting(Rule.OVERFLOW), IDLE, Rule.OVERFLOW),
    Row(ATTEMPT, Failed, failures.is_over_budget, failures.keeping(Rule.EXHAUSTED), IDLE, Rule.EXHAUSTED),
    Row(ATTEMPT, Failed, None, failures.keeping(Rule.PROPAGATE), IDLE, Rule.PROPAGATE),
    Row(WAITING, Waited, losses.is_cut, losses.end_wait, IDLE, Rule.INTERRUPTED),
    Row(WAITING, Waited, failures.has_no_place, losses.end_wait_without_place, IDLE, Rule.FRESH_REFUSED),
    Row(WAITING, Waited, None, losses.go_on, ATTEMPT),
    Row(REST + WAITING, Died, None, losses.stay),
    Row(REST + WAITING, Lost, None, losses.stay),
    Row(ATTEMPT, Lost, None, losses.lose_attempt, IDLE, Rule.LOST),
    Row(ATTEMPT, Broke, None, losses.break_off, IDLE, Rule.BROKE),
    Row(WAITING, Broke, None, losses.break_wait, IDLE, Rule.BROKE),
    Row(REST, Restored, losses.is_gone, losses.stay),
    Row(ATTEMPT, Restored, losses.is_gone, losses.lose_attempt, IDLE, Rule.LOST),
    Row(ATTEMPT, Restored, losses.was_not_asked, losses.not_started, IDLE, Rule.LOST),
    Row(ATTEMPT, Restored, asks.is_ending, losses.remind),
    Row(WAITING, Restored, asks.is_ending, losses.end_wait, IDLE, Rule.INTERRUPTED),
    Row(WAITING, Restored, None, losses.wait_on),
)

ROWS = {
    (phase, event): tuple(row for row in TABLE if phase in row.phases and row.event is event)
    for phase in Phase
    for event in Event.__args__
}
