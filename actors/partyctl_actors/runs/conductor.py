"""The run as a state machine: what the conductor does, and in which order.

Rules

1. OPENING. Every role joins once, with the protocol's id, before the limit. When all are there they are welcomed and
   the first interaction begins. A role that is missing at the limit, or follows another protocol, ends the run.
2. Each interaction: charge steps and unfoldings, check tokens and elapsed time; no room ends the run before anyone is
   asked. Then, if the record holds the decision, its sender is told and it is delivered; else the sender is granted the
   turn. The grant rides on the delivery that enabled it, if that goes to the same role.
3. ASKING. Exactly one role may speak: the one that was granted the turn, to the receiver of the interaction, one of its
   labels, with fields that fit, in time. Anything else ends the run and names the role that did it.
4. What was said is recorded, and only then delivered. Nobody but its receiver sees it.
5. A role that reports a failure or is gone ends the run.
6. STOPPING. Whatever ends a run early is told to every role that is still there; the run is over when all have
   confirmed that they stopped, or at the limit. A role that joins meanwhile is told as well. Nothing is said any more.
7. DONE. Whatever arrives is ignored.

`TABLE` holds which event counts in which phase; nothing else changes a state. Events carry the time (`at`, in seconds
on any clock that never goes back). `step` never raises and never waits; a state is a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Never, TypeAlias

from partyctl_actors.payloads import unpack
from partyctl_actors.protocol.graph import Arm, End, Interaction
from partyctl_actors.protocol.message import Message
from partyctl_actors.runs.allowance import Excess, Spent, charge
from partyctl_actors.runs.journal import Decision
from partyctl_actors.runs.run_state import (
    CancelAsked,
    Command,
    Deliver,
    Dismiss,
    Event,
    Failed,
    Finish,
    Garbled,
    Grant,
    Joined,
    Left,
    Opened,
    Phase,
    Plan,
    Recall,
    Record,
    Sent,
    State,
    Stop,
    Stopped,
    Tick,
    Transition,
    Unrecorded,
    Welcome,
)
from partyctl_actors.runs.verdict import Ending, Verdict


def begin(plan: Plan) -> State:
    """The state before anything happened."""
    everyone = frozenset(plan.roles)
    return State(plan, Phase.OPENING, plan.graph.start, 0, Spent(), 0.0, None, None, everyone, frozenset(), None)


def step(state: State, event: Event) -> Transition:
    """What `event` makes of `state`, and what is to be done, in order."""
    handler = TABLE[state.phase].get(type(event))
    if handler is None or _is_stranger(state, event):
        return state, []
    # The table gives each event to the handler of its own class, which the type of a table cannot say.
    return handler(state, event)  # type: ignore[arg-type]


def _is_stranger(state: State, event: Event) -> bool:
    """Whether it comes from somebody who has no part in this run, and so cannot end it."""
    role = getattr(event, "role", None)
    return role is not None and role not in state.plan.roles


# --- opening ---


def _open(state: State, event: Opened) -> Transition:
    return state._replace(wake=event.at + state.plan.limits.join), []


def _join(state: State, event: Joined) -> Transition:
    if event.role not in state.waiting:
        return _blame(state, event.role, "it joined twice", event.at)
    present = state.present | {event.role}
    if event.protocol != state.plan.protocol_id:
        why = f"its protocol is {event.protocol[:80]}, the run's is {state.plan.protocol_id}"
        return _stop(state._replace(present=present), Verdict(Ending.MISMATCH, 0, event.role, why), event.at)
    waiting = state.waiting - {event.role}
    state = state._replace(waiting=waiting, present=present)
    if waiting:
        return state, []
    commands: list[Command] = [Welcome(role) for role in state.plan.roles]
    return _go_on(state._replace(began=event.at), state.plan.graph.start, state.spent, None, event.at, commands)


def _absent(state: State, event: Tick) -> Transition:
    if state.wake is None or event.at < state.wake:
        return state, []
    missing = ", ".join(sorted(state.waiting))
    why = f"not heard of within {state.plan.limits.join:g} s"
    return _stop(state, Verdict(Ending.ABSENT, 0, missing, why), event.at)


# --- asking ---


def _hear(state: State, event: Sent) -> Transition:
    node = state.plan.graph.states[state.position]
    assert isinstance(node, Interaction)
    trouble = _trouble(state, node, event)
    if trouble is not None:
        return _stop(state, trouble, event.at)
    arm = node.arms[event.label]
    try:
        message = _message(arm, event.payload)
    # A message class is the user's own code: whatever its checks raise, the fields do not fit.
    except Exception as error:
        return _stop(state, Verdict(Ending.CONTENT, state.turn, event.role, f"{event.label}: {error}"), event.at)
    decision = Decision(event.turn, event.role, event.receiver, event.label, event.payload, event.tokens)
    spent = state.spent
    if event.tokens:
        spent = spent._replace(tokens=spent.tokens + event.tokens)
    return _go_on(state, arm.next, spent, Deliver(decision, message, None), event.at, [Record(decision)])


def _trouble(state: State, node: Interaction, event: Sent) -> Verdict | None:
    """What is wrong with what a role said, its fields apart."""
    if event.role != node.sender.name:
        why = f"it is the turn of {node.sender} to speak to {node.receiver}"
    elif event.turn != state.turn:
        why = f"it spoke in turn {event.turn}, and this is turn {state.turn}"
    elif event.receiver != node.receiver.name:
        why = f"it spoke to {event.receiver[:80]}, and this turn's receiver is {node.receiver}"
    elif event.label not in node.arms:
        why = f"it said {event.label[:80]}, on offer: {', '.join(node.arms)}"
    elif event.tokens < 0:
        why = "it reported a negative number of tokens"
    elif state.due is not None and event.at > state.due + state.plan.limits.lateness:
        return _overdue(state, node)
    else:
        return None
    return Verdict(Ending.ILLEGAL, state.turn, event.role, why)


def _late(state: State, event: Tick) -> Transition:
    if state.wake is None or event.at < state.wake:
        return state, []
    node = state.plan.graph.states[state.position]
    assert isinstance(node, Interaction)
    return _stop(state, _overdue(state, node), event.at)


def _overdue(state: State, node: Interaction) -> Verdict:
    assert node.within is not None
    why = f"it had {node.within.total_seconds():g} s to speak to {node.receiver}"
    return Verdict(Ending.DEADLINE, state.turn, node.sender.name, why)


def _unrecorded(state: State, event: Unrecorded) -> Transition:
    return _stop(state, Verdict(Ending.JOURNAL, state.turn, None, event.why), event.at)


def _go_on(
    state: State, position: int, spent: Spent, delivery: Deliver | None, at: float, commands: list[Command]
) -> Transition:
    """Begin the interaction at `position`; `delivery` is the message that led there."""
    plan, turn = state.plan, state.turn
    while True:
        node = plan.graph.states[position]
        if isinstance(node, End):
            _flush(delivery, commands)
            return _complete(state, position, turn, spent, commands)
        charged = charge(plan.allowance, spent, node.unfolds, at - state.began)
        turn += 1
        if isinstance(charged, Excess):
            _flush(delivery, commands)
            refused = Verdict(Ending.ALLOWANCE, turn, None, excess=charged)
            return _stop(_at(state, position, turn, spent, None, None), refused, at, commands)
        spent = charged
        if turn > len(plan.recorded):
            return _ask(state, position, turn, spent, delivery, at, commands)
        _flush(delivery, commands)
        decision = plan.recorded[turn - 1]
        try:
            arm = _recorded_arm(node, decision, turn)
            delivery = Deliver(decision, _message(arm, decision.payload), None)
        except Exception as error:
            unlike = Verdict(Ending.JOURNAL, turn, None, f"the record does not fit the protocol: {error}")
            return _stop(_at(state, position, turn, spent, None, None), unlike, at, commands)
        commands.append(Recall(decision))
        position = arm.next
        spent = spent._replace(tokens=spent.tokens + decision.tokens)


def _ask(
    state: State, position: int, turn: int, spent: Spent, delivery: Deliver | None, at: float, commands: list[Command]
) -> Transition:
    node = state.plan.graph.states[position]
    assert isinstance(node, Interaction)
    within = None if node.within is None else node.within.total_seconds()
    grant = Grant(turn, node.sender.name, node.receiver.name, within)
    if delivery is not None and delivery.decision.receiver == grant.role:
        commands.append(Deliver(delivery.decision, delivery.message, grant))
    else:
        _flush(delivery, commands)
        commands.append(grant)
    due = None if within is None else at + within
    wake = None if due is None else due + state.plan.limits.lateness
    return _at(state, position, turn, spent, due, wake), commands


def _complete(state: State, position: int, turn: int, spent: Spent, commands: list[Command]) -> Transition:
    unread = len(state.plan.recorded) - turn
    verdict = Verdict(Ending.COMPLETE, turn)
    if unread > 0:
        verdict = Verdict(Ending.JOURNAL, turn, None, f"the record holds {unread} decisions beyond the protocol's end")
    commands += [Dismiss(role) for role in state.plan.roles]
    commands.append(Finish(verdict))
    return _at(state, position, turn, spent, None, None)._replace(phase=Phase.DONE, verdict=verdict), commands


def _at(state: State, position: int, turn: int, spent: Spent, due: float | None, wake: float | None) -> State:
    # Built in full, because `_replace` costs three times as much and this is done for every message.
    return State(
        state.plan, Phase.ASKING, position, turn, spent, state.began, due, wake, state.waiting, state.present, None
    )


def _flush(delivery: Deliver | None, commands: list[Command]) -> None:
    if delivery is not None:
        commands.append(delivery)


def _recorded_arm(node: Interaction, decision: Decision, turn: int) -> Arm:
    said = (decision.turn, decision.sender, decision.receiver)
    if said != (turn, node.sender.name, node.receiver.name) or decision.label not in node.arms:
        offered = f"turn {turn}, {node.sender} to {node.receiver}: {', '.join(node.arms)}"
        recorded = f"turn {decision.turn}, {decision.sender} to {decision.receiver}: {decision.label}"
        raise ValueError(f"recorded is {recorded}; on offer is {offered}")
    return node.arms[decision.label]


def _message(arm: Arm, payload: bytes) -> Message:
    return arm.kind.from_wire(unpack(payload))


# --- whatever ends a run early ---


def _fail(state: State, event: Failed) -> Transition:
    verdict = Verdict(Ending.FAILED, state.turn, event.role, failure=event.report)
    return _stop(_without(state, event.role), verdict, event.at)


def _leave(state: State, event: Left) -> Transition:
    verdict = Verdict(Ending.LOST, state.turn, event.role, event.why)
    return _stop(_without(state, event.role), verdict, event.at)


def _garbled(state: State, event: Garbled) -> Transition:
    return _blame(state, event.role, event.why, event.at)


def _unasked(state: State, event: Sent | Stopped) -> Transition:
    why = "it spoke before the run began" if isinstance(event, Sent) else "it stopped without being told to"
    return _blame(state, event.role, why, event.at)


def _again(state: State, event: Joined) -> Transition:
    return _blame(state, event.role, "it joined twice", event.at)


def _cancel(state: State, event: CancelAsked) -> Transition:
    return _stop(state, Verdict(Ending.CANCELLED, state.turn, None, event.reason), event.at)


def _blame(state: State, role: str, why: str, at: float) -> Transition:
    return _stop(state, Verdict(Ending.ILLEGAL, state.turn, role, why), at)


def _without(state: State, role: str | None) -> State:
    return state if role is None else state._replace(present=state.present - {role})


def _stop(state: State, verdict: Verdict, at: float, commands: list[Command] | None = None) -> Transition:
    commands = [] if commands is None else commands
    reason = _reason(verdict)
    commands += [Stop(role, reason) for role in state.plan.roles if role in state.present]
    stopping = state._replace(
        phase=Phase.STOPPING, verdict=verdict, waiting=state.present, due=None, wake=at + state.plan.limits.stop
    )
    return _settled(stopping, commands)


def _reason(verdict: Verdict) -> str:
    cause = verdict.why or (verdict.failure.text if verdict.failure else "") or verdict.ending.value
    return f"{verdict.role}: {cause}" if verdict.role else cause


# --- stopping ---


def _confirm(state: State, event: Stopped | Failed) -> Transition:
    return _settled(state._replace(waiting=state.waiting - {event.role}), [])


def _gone(state: State, event: Left) -> Transition:
    # Without a link nobody elsewhere can confirm, but those in this process still will; the limit decides.
    return (state, []) if event.role is None else _settled(state._replace(waiting=state.waiting - {event.role}), [])


def _join_late(state: State, event: Joined) -> Transition:
    if event.role in state.present or state.verdict is None:
        return state, []
    joined = state._replace(present=state.present | {event.role}, waiting=state.waiting | {event.role})
    return joined, [Stop(event.role, _reason(state.verdict))]


def _give_up(state: State, event: Tick) -> Transition:
    if state.wake is None or event.at < state.wake or state.verdict is None:
        return state, []
    return _finish(state, _noting(state.verdict, state.waiting), [])


def _settled(state: State, commands: list[Command]) -> Transition:
    if state.waiting or state.verdict is None:
        return state, commands
    return _finish(state, state.verdict, commands)


def _finish(state: State, verdict: Verdict, commands: list[Command]) -> Transition:
    commands.append(Finish(verdict))
    return state._replace(phase=Phase.DONE, verdict=verdict, waiting=frozenset(), wake=None), commands


def _noting(verdict: Verdict, unanswered: frozenset[str]) -> Verdict:
    return Verdict(
        verdict.ending,
        verdict.turn,
        verdict.role,
        verdict.why,
        verdict.excess,
        verdict.failure,
        tuple(sorted(unanswered)),
    )


# Each handler takes the state and its own class of event.
Handler: TypeAlias = Callable[[State, Never], Transition]

_ENDS: Mapping[type, Handler] = {Failed: _fail, Garbled: _garbled, Left: _leave, CancelAsked: _cancel}
TABLE: Mapping[Phase, Mapping[type, Handler]] = {
    Phase.OPENING: {Opened: _open, Joined: _join, Sent: _unasked, Stopped: _unasked, Tick: _absent, **_ENDS},
    Phase.ASKING: {Sent: _hear, Joined: _again, Stopped: _unasked, Unrecorded: _unrecorded, Tick: _late, **_ENDS},
    Phase.STOPPING: {Stopped: _confirm, Failed: _confirm, Left: _gone, Joined: _join_late, Tick: _give_up},
    Phase.DONE: {},
}
