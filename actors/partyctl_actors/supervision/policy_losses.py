"""What the policy does about what is no provider's failure: losses, waits, another supervisor."""

from __future__ import annotations

from partyctl_actors.supervision.policy_commands import CloseConversation, Command, Interrupt, Reason, Rule
from partyctl_actors.supervision.policy_config import PolicyConfig
from partyctl_actors.supervision.policy_events import Broke, ContinueAsked, Died, Found, Lost, Phase, Restored, Waited
from partyctl_actors.supervision.policy_moves import closing, disconnected, give_up, go, turn_of, wait
from partyctl_actors.supervision.policy_state import SessionState, Transition


def stay(config: PolicyConfig, state: SessionState, event: Died | Lost | Restored) -> Transition:
    return state, []


def lose_attempt(config: PolicyConfig, state: SessionState, event: Lost | Restored) -> Transition:
    return give_up(config, state, event.at, Reason.LOST, Rule.LOST, in_flight=state.phase is Phase.RUNNING)


def break_off(config: PolicyConfig, state: SessionState, event: Broke) -> Transition:
    """The conversation may still be about to answer this turn, and its answer must not be taken for the next one's."""
    close = [CloseConversation(turn_of(state).serial)] if state.phase is Phase.OPENING else closing(state)
    after, commands = give_up(config, disconnected(config, state), event.at, Reason.BROKE, Rule.BROKE)
    return after, [*close, *commands]


def break_wait(config: PolicyConfig, state: SessionState, event: Broke) -> Transition:
    return give_up(config, state, event.at, Reason.BROKE, Rule.BROKE)


def is_gone(config: PolicyConfig, state: SessionState, event: Restored) -> bool:
    """the worker is gone"""
    return event.worker is Found.GONE


def was_not_asked(config: PolicyConfig, state: SessionState, event: Restored) -> bool:
    """the worker was never asked"""
    return event.worker is Found.AT_REST


def not_started(config: PolicyConfig, state: SessionState, event: Restored) -> Transition:
    close: list[Command] = [CloseConversation(turn_of(state).serial)] if state.phase is Phase.OPENING else []
    after, commands = give_up(config, state, event.at, Reason.LOST, Rule.LOST)
    return after, [*close, *commands]


def remind(config: PolicyConfig, state: SessionState, event: Restored) -> Transition:
    return state, [Interrupt(turn_of(state).serial)]


def is_cut(config: PolicyConfig, state: SessionState, event: Waited) -> bool:
    """it was stopped, or the turn was asked to end"""
    return event.stopped or turn_of(state).interrupted


def end_wait(config: PolicyConfig, state: SessionState, event: Waited | Restored) -> Transition:
    return give_up(config, state, event.at, Reason.FAILED, Rule.INTERRUPTED)


def end_wait_without_place(config: PolicyConfig, state: SessionState, event: Waited | ContinueAsked) -> Transition:
    return give_up(config, state, event.at, Reason.FAILED, Rule.FRESH_REFUSED)


def go_on(config: PolicyConfig, state: SessionState, event: Waited) -> Transition:
    return go(state, turn_of(state))


def wait_on(config: PolicyConfig, state: SessionState, event: Restored) -> Transition:
    """What is left of the wait; never more than all of it, whatever became of the clock."""
    turn = turn_of(state)
    return wait(state, turn, event.at, min(turn.delay, max(0.0, turn.due - event.at)))
