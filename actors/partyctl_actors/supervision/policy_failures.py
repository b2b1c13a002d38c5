"""What the policy does about an attempt that failed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from partyctl_actors.supervision.policy_attempts import continuity, cut_short
from partyctl_actors.supervision.policy_commands import ClearCheckpoint, Finish, Reason, Rule
from partyctl_actors.supervision.policy_config import PolicyConfig
from partyctl_actors.supervision.policy_events import Event, Failed, Outcome
from partyctl_actors.supervision.policy_moves import (
    begin_opening,
    closing,
    disconnected,
    forget,
    give_up,
    over,
    saved,
    turn_of,
    wait,
    where_it_ran,
)
from partyctl_actors.supervision.policy_state import SessionState, Transition
from partyctl_plugins.contract import Continuity

RESET_MAX = 3600.0
"""The longest wait for a provider that says when it can be asked again, in seconds. An hour is what the longest windows
of rate limits are; what says more is a usage limit, which is not waited for, or nonsense (ten years were seen)."""

SAME_ID_DELAY = 2.0
"""Seconds until a refused id is tried again, so that the process that still held it can end (reports: 2 s sufficed)."""

STALLS = frozenset({Outcome.TRANSIENT, Outcome.TIMEOUT, Outcome.SCHEMA, Outcome.CONTEXT_OVERFLOW, Outcome.OTHER})
"""How a turn fails whose conversation may be at fault; no login, no limit and no person is."""


def finish_forced(config: PolicyConfig, state: SessionState, event: Failed) -> Transition:
    """What an interrupted turn fails with is its end, however it is put."""
    ran_in, turn = where_it_ran(state), turn_of(state)
    after = replace(over(state, event.at), last_turn_conversation_id=ran_in)
    finish = Finish(turn.turn_id, continuity(turn, ran_in, Continuity.CONTINUED), ran_in, forced=True)
    return after, [*saved(config, state), finish]


def opening_cut_short(config: PolicyConfig, state: SessionState, event: Failed) -> Transition:
    return cut_short(config, state, event.at, turn_of(state))


def _is_transient(config: PolicyConfig, state: SessionState, event: Failed) -> bool:
    return event.outcome is Outcome.TRANSIENT


def may_not_repeat(config: PolicyConfig, state: SessionState, event: Failed) -> bool:
    """transient, after a tool was used, with `after_tool="fail"`"""
    return _is_transient(config, state, event) and event.tool_ran and config.retry.after_tool == "fail"


def is_over_budget(config: PolicyConfig, state: SessionState, event: Failed) -> bool:
    """transient, without a retry left"""
    return _is_transient(config, state, event) and turn_of(state).retries >= len(config.retry.delays)


def has_no_place(config: PolicyConfig, state: SessionState, event: Event) -> bool:
    """only a fresh conversation is left, and it keeps its own or has used a tool"""
    turn = turn_of(state)
    gone = not state.live and state.conversation_id is None
    return gone and (turn.tool_ran or (turn.keeps and turn.expected is not None))


def has_nowhere(config: PolicyConfig, state: SessionState, event: Failed) -> bool:
    """transient, and only a fresh conversation is left, and it keeps its own or has used a tool"""
    return (
        _is_transient(config, state, event)
        and not is_over_budget(config, state, event)
        and has_no_place(config, state, event)
    )


def may_retry_after_tool(config: PolicyConfig, state: SessionState, event: Failed) -> bool:
    """transient, after a tool was used, with a retry left"""
    return event.tool_ran and may_retry(config, state, event)


def may_retry(config: PolicyConfig, state: SessionState, event: Failed) -> bool:
    """transient, with a retry left"""
    return _is_transient(config, state, event) and not is_over_budget(config, state, event)


def retry(config: PolicyConfig, state: SessionState, event: Failed) -> Transition:
    turn = turn_of(state)
    seconds = config.retry.delays[turn.retries]
    if event.resets_at is not None and event.resets_at > event.epoch:
        seconds = min(event.resets_at - event.epoch, RESET_MAX)
    return wait(state, replace(turn, retries=turn.retries + 1), event.at, seconds)


def is_refused(config: PolicyConfig, state: SessionState, event: Failed) -> bool:
    """resume refused, lost under its own turn or refused again"""
    return event.outcome is Outcome.RESUME_REFUSED


def is_refused_too_soon(config: PolicyConfig, state: SessionState, event: Failed) -> bool:
    """resume refused for the first time, while the process before may still live"""
    first = turn_of(state).same_id == 0 and state.conversation_id is not None and config.supports_resume
    return is_refused(config, state, event) and first and not event.predecessor_dead


def try_same_id(config: PolicyConfig, state: SessionState, event: Failed) -> Transition:
    turn = replace(turn_of(state), same_id=1)
    after, commands = wait(disconnected(config, state), turn, event.at, SAME_ID_DELAY)
    return after, [*closing(state), *commands]


def is_refused_and_kept(config: PolicyConfig, state: SessionState, event: Failed) -> bool:
    """resume refused, and it keeps its conversation"""
    return is_refused(config, state, event) and turn_of(state).keeps


def is_refused_after_tool(config: PolicyConfig, state: SessionState, event: Failed) -> bool:
    """resume refused, it continued that conversation, and a tool was used in it"""
    return is_refused_and_resumed(config, state, event) and turn_of(state).tool_ran


def is_refused_and_resumed(config: PolicyConfig, state: SessionState, event: Failed) -> bool:
    """resume refused, and it continued that conversation"""
    return is_refused(config, state, event) and turn_of(state).resumed


def begin_fresh(config: PolicyConfig, state: SessionState, event: Failed) -> Transition:
    turn = replace(turn_of(state), resumed=False, replaced=True)
    after, commands = begin_opening(replace(state, conversation_id=None, connection=None, turns=0, stalled=0), turn)
    return after, [*closing(state), ClearCheckpoint(), *commands]


def _stalls(state: SessionState, event: Failed) -> int:
    """Turns in a row without progress, with this one."""
    turn = turn_of(state)
    if turn.progressed:
        return 0
    return state.stalled + (turn.resumed and event.outcome in STALLS)


def has_stalled(config: PolicyConfig, state: SessionState, event: Failed) -> bool:
    """the last of `retire_after_stalled` in a row without progress, and it need not keep its conversation"""
    limit, turn = config.retry.retire_after_stalled, turn_of(state)
    may_forget = turn.resumed and not turn.keeps and event.outcome in STALLS and not turn.progressed
    return limit is not None and may_forget and _stalls(state, event) >= limit


def is_unknown_and_resumed(config: PolicyConfig, state: SessionState, event: Failed) -> bool:
    """no known kind, it continued a conversation, and need not keep it"""
    return event.outcome is Outcome.OTHER and turn_of(state).resumed and not turn_of(state).keeps


def is_overflow(config: PolicyConfig, state: SessionState, event: Failed) -> bool:
    """context overflow, and it need not keep its conversation"""
    return event.outcome is Outcome.CONTEXT_OVERFLOW and not turn_of(state).keeps


def forgetting(rule: Rule) -> Callable[[PolicyConfig, SessionState, Failed], Transition]:
    def fail_and_forget(config: PolicyConfig, state: SessionState, event: Failed) -> Transition:
        return forget(state, event.at, rule)

    return fail_and_forget


def keeping(rule: Rule) -> Callable[[PolicyConfig, SessionState, Failed], Transition]:
    def fail_and_keep(config: PolicyConfig, state: SessionState, event: Failed) -> Transition:
        stalled, limited = _stalls(state, event), state.limited_until
        if event.outcome is Outcome.USAGE_LIMIT and event.resets_at is not None and math.isfinite(event.resets_at):
            limited = event.resets_at
        after, commands = give_up(config, state, event.at, Reason.FAILED, rule)
        return replace(after, stalled=stalled, limited_until=limited), commands

    return fail_and_keep
