"""What most rows of the policy's table are made of."""

from __future__ import annotations

from dataclasses import replace

from partyctl_actors.supervision.policy_commands import (
    ClearCheckpoint,
    CloseConversation,
    Command,
    Execute,
    Fail,
    Open,
    Reason,
    Rule,
    SaveCheckpoint,
    Wait,
)
from partyctl_actors.supervision.policy_config import PolicyConfig
from partyctl_actors.supervision.policy_events import Phase
from partyctl_actors.supervision.policy_state import SessionState, Transition, TurnState


def turn_of(state: SessionState) -> TurnState:
    assert state.turn is not None
    return state.turn


def where_it_ran(state: SessionState, named: str | None = None) -> str | None:
    """The conversation of the attempt; one that ended with its connection is not held any more, but it ran there."""
    turn = turn_of(state)
    return named or state.conversation_id or (turn.expected if turn.resumed else None)


def disconnected(config: PolicyConfig, state: SessionState) -> SessionState:
    """Without its connection, and without a conversation that cannot outlive it."""
    if config.supports_resume:
        return replace(state, connection=None)
    return replace(state, connection=None, conversation_id=None, turns=0, stalled=0)


def closing(state: SessionState) -> list[Command]:
    return [] if state.connection is None else [CloseConversation(state.connection)]


def saved(config: PolicyConfig, state: SessionState) -> list[Command]:
    return [SaveCheckpoint(state.conversation_id)] if state.conversation_id and config.supports_resume else []


def _at(state: SessionState, turn: TurnState, phase: Phase) -> SessionState:
    """The turn in a phase that something is under way in, under a serial of its own."""
    serial = state.serial + 1
    return replace(state, serial=serial, turn=replace(turn, phase=phase, serial=serial))


def begin_opening(state: SessionState, turn: TurnState) -> Transition:
    state = _at(state, turn, Phase.OPENING)
    return state, [Open(state.serial, state.conversation_id)]


def execute(state: SessionState, turn: TurnState) -> Transition:
    state = _at(state, replace(turn, attempts=turn.attempts + 1), Phase.RUNNING)
    return state, [Execute(state.serial)]


def wait(state: SessionState, turn: TurnState, at: float, seconds: float) -> Transition:
    state = _at(state, replace(turn, delay=seconds, due=at + seconds), Phase.WAITING)
    return state, [Wait(state.serial, seconds)]


def go(state: SessionState, turn: TurnState) -> Transition:
    """The next attempt, wherever there is a place for it."""
    if state.live:
        return execute(state, turn)
    if state.conversation_id is None:
        turn = replace(turn, resumed=False, replaced=turn.replaced or turn.expected is not None)
    return begin_opening(state, turn)


def over(state: SessionState, at: float, stalled: int | None = None) -> SessionState:
    stalled = state.stalled if stalled is None else stalled
    return replace(state, turn=None, last_activity=at, stalled=stalled)


def _fail(state: SessionState, reason: Reason, rule: Rule, in_flight: bool = False) -> Fail:
    turn = turn_of(state)
    return Fail(turn.turn_id, reason, rule, turn.attempts, in_flight)


def give_up(
    config: PolicyConfig, state: SessionState, at: float, reason: Reason, rule: Rule, in_flight: bool = False
) -> Transition:
    """The turn fails and the conversation is kept."""
    return over(state, at), [*saved(config, state), _fail(state, reason, rule, in_flight)]


def forget(state: SessionState, at: float, rule: Rule) -> Transition:
    """The turn fails and so does the conversation: the next turn begins a fresh one."""
    after = replace(over(state, at, stalled=0), conversation_id=None, connection=None, turns=0)
    return after, [*closing(state), ClearCheckpoint(), _fail(state, Reason.FAILED, rule)]
