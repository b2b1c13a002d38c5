"""What the policy does about an attempt that was opened or has its result."""

from __future__ import annotations

from dataclasses import replace

from partyctl_actors.supervision.policy_commands import ClearCheckpoint, Fail, Finish, Reason, Rule
from partyctl_actors.supervision.policy_config import PolicyConfig
from partyctl_actors.supervision.policy_events import Opened, Succeeded
from partyctl_actors.supervision.policy_moves import (
    closing,
    disconnected,
    execute,
    give_up,
    over,
    saved,
    turn_of,
    where_it_ran,
)
from partyctl_actors.supervision.policy_state import SessionState, Transition, TurnState
from partyctl_plugins.contract import Continuity


def opened_elsewhere(config: PolicyConfig, state: SessionState, event: Opened) -> bool:
    """it keeps its conversation, and another was opened"""
    return _is_elsewhere(turn_of(state), event.conversation_id)


def _is_elsewhere(turn: TurnState, conversation_id: str | None) -> bool:
    return turn.keeps and bool(turn.expected and conversation_id) and conversation_id != turn.expected


def refuse_opened(config: PolicyConfig, state: SessionState, event: Opened) -> Transition:
    return elsewhere(config, replace(state, connection=event.serial), event.at, event.conversation_id)


def elsewhere(config: PolicyConfig, state: SessionState, at: float, actual: str | None) -> Transition:
    """The turn fails because another conversation has answered, or would have to; what is held is kept."""
    turn = turn_of(state)
    fail = Fail(turn.turn_id, Reason.CONTINUITY, Rule.CONTINUITY, turn.attempts, expected=turn.expected, actual=actual)
    return over(disconnected(config, state), at), [*closing(state), *saved(config, state), fail]


def opened_ending(config: PolicyConfig, state: SessionState, event: Opened) -> Transition:
    """The connection is kept, for the next turn; of a closed session it is not."""
    turn = turn_of(state)
    state = replace(state, connection=event.serial)
    close = closing(state) if state.closed else []
    after, commands = cut_short(config, disconnected(config, state) if state.closed else state, event.at, turn)
    return after, [*close, *commands]


def cut_short(config: PolicyConfig, state: SessionState, at: float, turn: TurnState) -> Transition:
    """Interrupted while nothing ran: between attempts the last one's error stands, before the first there is none."""
    if turn.attempts == 0:
        return give_up(config, state, at, Reason.CANCELLED, Rule.CANCELLED)
    return give_up(config, state, at, Reason.FAILED, Rule.INTERRUPTED)


def opened(config: PolicyConfig, state: SessionState, event: Opened) -> Transition:
    return execute(replace(state, connection=event.serial), turn_of(state))


def succeeded_elsewhere(config: PolicyConfig, state: SessionState, event: Succeeded) -> bool:
    """it keeps its conversation, and another has answered"""
    return _is_elsewhere(turn_of(state), event.conversation_id)


def refuse_answer(config: PolicyConfig, state: SessionState, event: Succeeded) -> Transition:
    after, commands = elsewhere(config, state, event.at, event.conversation_id)
    return replace(after, last_turn_conversation_id=event.conversation_id), commands


def has_grown_old(config: PolicyConfig, state: SessionState, event: Succeeded) -> bool:
    """it reaches the renewal budget, and its conversation need not be kept"""
    budget = config.renewal
    if budget is None or event.interrupted or turn_of(state).keeps:
        return False
    figures = (
        (_turns(state, event), budget.max_turns),
        (event.input_tokens, budget.max_turn_input_tokens),
        (event.duration_ms, budget.max_turn_duration_ms),
    )
    return any(limit is not None and figure >= limit for figure, limit in figures)


def _turns(state: SessionState, event: Succeeded) -> int:
    """Successful turns in the conversation, with this one."""
    moved = event.conversation_id and state.conversation_id and event.conversation_id != state.conversation_id
    return (0 if moved else state.turns) + (not event.interrupted)


def retire(config: PolicyConfig, state: SessionState, event: Succeeded) -> Transition:
    ran_in = where_it_ran(state, event.conversation_id)
    after = replace(
        over(state, event.at, stalled=0),
        conversation_id=None,
        connection=None,
        turns=0,
        last_turn_conversation_id=ran_in,
        limited_until=None,
    )
    finish = Finish(turn_of(state).turn_id, continuity(turn_of(state), ran_in, Continuity.RESET), ran_in)
    return after, [*closing(state), ClearCheckpoint(), finish]


def keep(config: PolicyConfig, state: SessionState, event: Succeeded) -> Transition:
    ran_in = where_it_ran(state, event.conversation_id)
    held = ran_in if state.live or config.supports_resume else None
    limited = state.limited_until if event.interrupted else None
    after = replace(
        over(state, event.at, stalled=None if event.interrupted else 0),
        conversation_id=held,
        turns=_turns(state, event),
        last_turn_conversation_id=ran_in,
        limited_until=limited,
    )
    kept = continuity(turn_of(state), ran_in, Continuity.CONTINUED)
    return after, [*saved(config, after), Finish(turn_of(state).turn_id, kept, ran_in)]


def continuity(turn: TurnState, ran_in: str | None, otherwise: Continuity) -> Continuity:
    moved = turn.expected is not None and ran_in not in (None, turn.expected)
    return Continuity.REPLACED if turn.replaced or moved else otherwise
