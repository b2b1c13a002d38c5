"""What the policy does about what a caller asks. What a condition says in its docstring is what the docs say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from partyctl_actors.supervision.policy_attempts import elsewhere
from partyctl_actors.supervision.policy_commands import (
    AdoptVerdict,
    Fail,
    Interrupt,
    Prepared,
    Reason,
    Refusal,
    Refuse,
    Rule,
    Steer,
)
from partyctl_actors.supervision.policy_config import PolicyConfig
from partyctl_actors.supervision.policy_events import (
    AdoptAsked,
    CloseAsked,
    ContinueAsked,
    Event,
    InterruptAsked,
    Phase,
    PrepareAsked,
    ReleaseAsked,
    RunAsked,
    SteerAsked,
)
from partyctl_actors.supervision.policy_moves import closing, disconnected, go, turn_of
from partyctl_actors.supervision.policy_state import SessionState, Transition, TurnState


def is_closed(config: PolicyConfig, state: SessionState, event: Event) -> bool:
    """the session is closed"""
    return state.closed


def refusing(refusal: Refusal) -> Callable[[PolicyConfig, SessionState, Event], Transition]:
    def act(config: PolicyConfig, state: SessionState, event: Event) -> Transition:
        return state, [Refuse(refusal)]

    act.__name__ = f"refuse_{refusal}"
    return act


def demands_another(config: PolicyConfig, state: SessionState, event: PrepareAsked) -> bool:
    """another conversation is expected than the one held"""
    return event.expect is not None and event.expect != state.conversation_id


def refuse_continuity(config: PolicyConfig, state: SessionState, event: PrepareAsked) -> Transition:
    return state, [Refuse(Refusal.CONTINUITY, event.expect, state.conversation_id)]


def has_idled(config: PolicyConfig, state: SessionState, event: PrepareAsked) -> bool:
    """the connection was idle for the limit, and its conversation can be reopened"""
    limit, since = config.idle_release_after, state.last_activity
    if limit is None or since is None:
        return False
    return can_release(config, state, event) and event.at - since >= limit


def prepare(config: PolicyConfig, state: SessionState, event: PrepareAsked) -> Transition:
    held, strict = state.conversation_id, event.expect is not None
    turn = TurnState(event.turn_id, Phase.PREPARED, held, strict, event.pin)
    return replace(state, turn=turn, cancelled=None), [Prepared(event.turn_id, held, strict, event.pin)]


def release_and_prepare(config: PolicyConfig, state: SessionState, event: PrepareAsked) -> Transition:
    after, commands = prepare(config, replace(state, connection=None), event)
    return after, [*closing(state), *commands]


def is_cancelled(config: PolicyConfig, state: SessionState, event: RunAsked) -> bool:
    """the turn was interrupted before it ran"""
    return event.turn_id == state.cancelled


def run_cancelled(config: PolicyConfig, state: SessionState, event: RunAsked) -> Transition:
    return replace(state, cancelled=None), [Fail(event.turn_id, Reason.CANCELLED, Rule.CANCELLED, 0)]


def is_another(config: PolicyConfig, state: SessionState, event: RunAsked) -> bool:
    """another turn is prepared"""
    return event.turn_id != turn_of(state).turn_id


def has_lost_it(config: PolicyConfig, state: SessionState, event: RunAsked) -> bool:
    """the conversation that it keeps is gone"""
    turn = turn_of(state)
    return turn.keeps and turn.expected not in (None, state.conversation_id)


def fail_continuity(config: PolicyConfig, state: SessionState, event: RunAsked) -> Transition:
    return elsewhere(config, state, event.at, state.conversation_id)


def run(config: PolicyConfig, state: SessionState, event: RunAsked) -> Transition:
    return go(state, replace(turn_of(state), resumed=state.conversation_id is not None))


def is_meant(config: PolicyConfig, state: SessionState, event: InterruptAsked) -> bool:
    """it names this turn or none, and is the first"""
    turn = turn_of(state)
    return event.turn_id in (None, turn.turn_id) and not turn.interrupted


def is_named(config: PolicyConfig, state: SessionState, event: InterruptAsked) -> bool:
    """it names this turn"""
    return event.turn_id == turn_of(state).turn_id


def cancel(config: PolicyConfig, state: SessionState, event: InterruptAsked) -> Transition:
    return replace(state, turn=None, cancelled=event.turn_id), []


def interrupt(config: PolicyConfig, state: SessionState, event: InterruptAsked | CloseAsked) -> Transition:
    turn = turn_of(state)
    return replace(state, turn=replace(turn, interrupted=True)), [Interrupt(turn.serial)]


def cannot_steer(config: PolicyConfig, state: SessionState, event: SteerAsked) -> bool:
    """the provider takes no message into a running turn"""
    return not config.supports_steer


def is_ending(config: PolicyConfig, state: SessionState, event: Event) -> bool:
    """it was asked to end"""
    return turn_of(state).interrupted


def steer(config: PolicyConfig, state: SessionState, event: SteerAsked) -> Transition:
    return state, [Steer(turn_of(state).serial)]


def is_adoptable(config: PolicyConfig, state: SessionState, event: AdoptAsked) -> bool:
    """it can be resumed, and nothing newer is held"""
    held = state.conversation_id
    free = held in (None, event.conversation_id) and not state.live and not state.closed
    return config.supports_resume and free and event.conversation_id != ""


def adopt(config: PolicyConfig, state: SessionState, event: AdoptAsked) -> Transition:
    if state.conversation_id != event.conversation_id:
        state = replace(state, conversation_id=event.conversation_id, turns=0, stalled=0)
    return state, [AdoptVerdict(True)]


def adopt_not(config: PolicyConfig, state: SessionState, event: AdoptAsked) -> Transition:
    return state, [AdoptVerdict(False)]


def can_release(config: PolicyConfig, state: SessionState, event: Event) -> bool:
    """there is a connection, and its conversation can be reopened"""
    return state.live and state.conversation_id is not None and config.supports_resume


def release(config: PolicyConfig, state: SessionState, event: ReleaseAsked) -> Transition:
    return replace(state, connection=None), closing(state)


def forgive(config: PolicyConfig, state: SessionState, event: ContinueAsked) -> Transition:
    turn = state.turn and replace(state.turn, retries=0, same_id=0)
    return replace(state, turn=turn, stalled=0, limited_until=None), []


def forgive_and_go(config: PolicyConfig, state: SessionState, event: ContinueAsked) -> Transition:
    forgiven, _ = forgive(config, state, event)
    return go(forgiven, turn_of(forgiven))


def is_open(config: PolicyConfig, state: SessionState, event: Event) -> bool:
    """the session is not closed yet"""
    return not state.closed


def close(config: PolicyConfig, state: SessionState, event: CloseAsked) -> Transition:
    return replace(disconnected(config, state), closed=True, turn=None), closing(state)


def close_turn(config: PolicyConfig, state: SessionState, event: CloseAsked) -> Transition:
    ending, commands = interrupt(config, state, event)
    return replace(disconnected(config, ending), closed=True), [*commands, *closing(state)]
