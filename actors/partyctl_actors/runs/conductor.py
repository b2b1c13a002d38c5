"""The run as a state machine: what the conductor does, and in which order.

Rules

1. OPENING. Every role joins once, with the protocol's id, before the limit. When all are there they are welcomed and
   the first interactions begin. A role that is missing at the limit, or follows another protocol, ends the run.
2. Each interaction: charge steps and unfoldings, check tokens and elapsed time; no room ends the run before anyone is
   asked. Then, if the record holds the decision, its sender is told and it is delivered; else the sender is granted the
   turn. The grant rides on the delivery that enabled it, if that goes to the same role.
3. ASKING. Only those may speak that were granted a turn, each to the receiver of its interaction, one of its labels,
   with fields that fit, in its own time. Anything else ends the run and names the role that did it. More than one is
   asked only within a `par`, whose branches go on independently; what follows it begins with the last decision in it.
4. What was said is recorded, and only then delivered. Nobody but its receiver sees it. The time of whoever is granted a
   turn by it begins when it is delivered. Decisions are numbered in the
   order in which they are recorded, and an interaction has for its turn the number that the next decision had when it
   began. So a record is one order in which everything could have happened, and is followed in that order: the sender of
   a decision tells which branch it is of, for no role is in two.
5. A role that reports a failure or is gone ends the run.
6. STOPPING. Whatever ends a run early is told to every role that is still there; the run is over when all have
   confirmed that they stopped, or at the limit. A role that joins meanwhile is told as well. Nothing is said any more.
7. DONE. Whatever arrives is ignored.

`TABLE` holds which event counts in which phase; nothing else changes a state. Events carry the time (`at`, in seconds
on any clock that never goes back). `step` never raises and never waits; a state is a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Never, TypeAlias

from partyctl_actors.journals import Decision
from partyctl_actors.payloads import unpack
from partyctl_actors.protocol import tracks
from partyctl_actors.protocol.graph import Arm, Interaction
from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.tracks import Marking
from partyctl_actors.runs.allowance import Excess, Spent, charge
from partyctl_actors.runs.run_state import (
    Asked,
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
    Recorded,
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
    marking = tracks.begin(plan.flow)
    return State(plan, Phase.OPENING, marking, {}, 0, Spent(), 0.0, None, everyone, frozenset(), None)


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
    return replace(state, wake=event.at + state.plan.limits.join), []


def _join(state: State, event: Joined) -> Transition:
    if event.role not in state.waiting:
        return _blame(state, event.role, "it joined twice", event.at)
    present = state.present | {event.role}
    if event.protocol != state.plan.protocol_id:
        why = f"its protocol is {event.protocol[:80]}, the run's is {state.plan.protocol_id}"
        return _stop(replace(state, present=present), Verdict(Ending.MISMATCH, 0, event.role, why), event.at)
    waiting = state.waiting - {event.role}
    state = replace(state, waiting=waiting, present=present)
    if waiting:
        return state, []
    commands: list[Command] = [Welcome(role) for role in state.plan.roles]
    return _go_on(replace(state, began=event.at), state.marking, {}, 0, state.spent, None, event.at, commands)


def _absent(state: State, event: Tick) -> Transition:
    if state.wake is None or event.at < state.wake:
        return state, []
    missing = ", ".join(sorted(state.waiting))
    why = f"not heard of within {state.plan.limits.join:g} s"
    return _stop(state, Verdict(Ending.ABSENT, 0, missing, why), event.at)


# --- asking ---


def _hear(state: State, event: Sent) -> Transition:
    asked = state.asked.get(event.role)
    if asked is None:
        return _stop(state, _out_of_turn(state, event), event.at)
    trouble = _trouble(state, asked, event)
    if trouble is not None:
        return _stop(state, trouble, event.at)
    arm = asked.node.arms[event.label]
    try:
        message = _message(arm, event.payload) if event.message is None else event.message
    # A message class is the user's own code: whatever its checks raise, the fields do not fit.
    except Exception as error:
        return _stop(state, Verdict(Ending.CONTENT, asked.grant.turn, event.role, f"{event.label}: {error}"), event.at)
    decision = Decision(state.turn, event.role, event.receiver, event.label, event.payload, event.tokens)
    spent = state.spent
    if event.tokens:
        spent = spent._replace(tokens=spent.tokens + event.tokens)
    commands: list[Command] = [Record(decision)]
    if not asked.path:
        quick = _next(state, arm.next, spent, decision, message, event.at, commands)
        if quick is not None:
            return quick, commands
    others = dict(state.asked)
    del others[event.role]
    marking = tracks.advance(state.plan.flow, state.marking, asked.path, event.label)
    return _go_on(state, marking, others, state.turn, spent, Deliver(decision, message, None), event.at, commands)


def _next(
    state: State,
    position: int,
    spent: Spent,
    decision: Decision,
    message: Message,
    at: float,
    commands: list[Command],
) -> State | None:
    """`_go_on` for what nearly every step is: there is one track, and it goes on to one more interaction.

    None if it is something else. It takes 2 us less, a tenth of what an interaction takes in one process.
    """
    plan, turn = state.plan, state.turn + 1
    node = plan.flow.states[position]
    if turn <= len(plan.recorded) or not isinstance(node, Interaction):
        return None
    charged = charge(plan.allowance, spent, node.unfolds, at - state.began)
    if isinstance(charged, Excess):
        return None
    within = None if node.within is None else node.within.total_seconds()
    grant = Grant(turn, node.sender.name, node.receiver.name, within)
    if grant.role == decision.receiver:
        commands.append(Deliver(decision, message, grant))
    else:
        commands += (Deliver(decision, message, None), grant)
    due = None if within is None else at + within
    return State(
        plan,
        Phase.ASKING,
        tracks.alone(position),
        {grant.role: Asked((), node, grant, due)},
        turn,
        charged,
        state.began,
        None if due is None else due + plan.limits.lateness,
        state.waiting,
        state.present,
        None,
    )


def _out_of_turn(state: State, event: Sent) -> Verdict:
    turns = " and ".join(f"of {asked.node.sender} to speak to {asked.node.receiver}" for asked in state.asked.values())
    return Verdict(Ending.ILLEGAL, state.turn, event.role, f"it is the turn {turns}")


def _trouble(state: State, asked: Asked, event: Sent) -> Verdict | None:
    """What is wrong with what a role said in its turn, the fields apart."""
    node = asked.node
    if event.turn != asked.grant.turn:
        why = f"it spoke in turn {event.turn}, and this is turn {asked.grant.turn}"
    elif event.receiver != node.receiver.name:
        why = f"it spoke to {event.receiver[:80]}, and this turn's receiver is {node.receiver}"
    elif event.label not in node.arms:
        why = f"it said {event.label[:80]}, on offer: {', '.join(node.arms)}"
    elif event.tokens < 0:
        why = "it reported a negative number of tokens"
    elif asked.due is not None and event.at > asked.due + state.plan.limits.lateness:
        return _overdue(asked)
    else:
        return None
    return Verdict(Ending.ILLEGAL, asked.grant.turn, event.role, why)


def _late(state: State, event: Tick) -> Transition:
    if state.wake is None or event.at < state.wake:
        return state, []
    timed = [(asked.due, asked) for asked in state.asked.values() if asked.due is not None]
    return _stop(state, _overdue(min(timed, key=lambda pair: pair[0])[1]), event.at)


def _overdue(asked: Asked) -> Verdict:
    node = asked.node
    assert node.within is not None
    why = f"it had {node.within.total_seconds():g} s to speak to {node.receiver}"
    return Verdict(Ending.DEADLINE, asked.grant.turn, node.sender.name, why)


def _recorded(state: State, event: Recorded) -> Transition:
    """The time of those who were granted a turn by the last decision begins now: a slow disk does not take of it."""
    asked = {
        role: replace(each, due=event.at + each.node.within.total_seconds())
        if each.node.within is not None and each.grant.turn == state.turn
        else each
        for role, each in state.asked.items()
    }
    return _at(state, state.marking, asked, state.turn, state.spent), []


def _unrecorded(state: State, event: Unrecorded) -> Transition:
    return _stop(state, Verdict(Ending.JOURNAL, state.turn, None, event.why), event.at)


def _go_on(
    state: State,
    marking: Marking,
    others: dict[str, Asked],
    done: int,
    spent: Spent,
    delivery: Deliver | None,
    at: float,
    commands: list[Command],
) -> Transition:
    """Begin what is fresh in `marking`. `others` are asked already, `delivery` is the message that led there, and
    `done` is the number of decisions with it."""
    plan = state.plan
    states, allowance = plan.flow.states, plan.allowance
    begun: dict[str, Asked] = {}
    while not marking.over:
        before = marking.unfolds
        for path in marking.fresh:
            node = states[marking.at[path]]
            assert isinstance(node, Interaction)
            charged = charge(allowance, spent, before + node.unfolds, at - state.began)
            if isinstance(charged, Excess):
                _flush(delivery, commands)
                refused = Verdict(Ending.ALLOWANCE, done + 1, None, excess=charged)
                return _stop(_at(state, marking, others, done + 1, spent), refused, at, commands)
            spent, before = charged, 0
            role = node.sender.name
            within = None if node.within is None else node.within.total_seconds()
            grant = Grant(done + 1, role, node.receiver.name, within)
            begun[role] = Asked(path, node, grant, None if within is None else at + within)
        if done >= len(plan.recorded):
            _grant(begun, delivery, commands)
            return _at(state, marking, others | begun if others else begun, done + 1, spent), commands
        _flush(delivery, commands)
        decision = plan.recorded[done]
        done += 1
        try:
            path, arm = _recorded_arm(begun, decision, done)
            delivery = Deliver(decision, _message(arm, decision.payload), None)
        except Exception as error:
            unlike = Verdict(Ending.JOURNAL, done, None, f"the record does not fit the protocol: {error}")
            return _stop(_at(state, marking, others, done, spent), unlike, at, commands)
        commands.append(Recall(decision))
        del begun[decision.sender]
        marking = tracks.advance(plan.flow, marking, path, decision.label)
        spent = spent._replace(tokens=spent.tokens + decision.tokens)
    _flush(delivery, commands)
    return _complete(state, marking, done, spent, commands)


def _grant(begun: Mapping[str, Asked], delivery: Deliver | None, commands: list[Command]) -> None:
    """Deliver what led here, and grant the turn to the sender of each interaction that has begun."""
    riding = None
    if delivery is not None:
        riding = begun.get(delivery.decision.receiver)
        commands.append(delivery if riding is None else Deliver(delivery.decision, delivery.message, riding.grant))
    commands += [asked.grant for asked in begun.values() if asked is not riding]


def _complete(state: State, marking: Marking, turn: int, spent: Spent, commands: list[Command]) -> Transition:
    unread = len(state.plan.recorded) - turn
    verdict = Verdict(Ending.COMPLETE, turn)
    if unread > 0:
        verdict = Verdict(Ending.JOURNAL, turn, None, f"the record holds {unread} decisions beyond the protocol's end")
    commands += [Dismiss(role) for role in state.plan.roles]
    commands.append(Finish(verdict))
    return replace(_at(state, marking, {}, turn, spent), phase=Phase.DONE, verdict=verdict), commands


def _at(state: State, marking: Marking, asked: Mapping[str, Asked], turn: int, spent: Spent) -> State:
    wake = None
    for each in asked.values():
        if each.due is not None and (wake is None or each.due < wake):
            wake = each.due
    if wake is not None:
        wake += state.plan.limits.lateness
    # Built in full, because `replace` costs three times as much and this is done for every message.
    return State(
        state.plan, Phase.ASKING, marking, asked, turn, spent, state.began, wake, state.waiting, state.present, None
    )


def _flush(delivery: Deliver | None, commands: list[Command]) -> None:
    if delivery is not None:
        commands.append(delivery)


def _recorded_arm(begun: Mapping[str, Asked], decision: Decision, turn: int) -> tuple[tracks.Path, Arm]:
    """Where the decision was made, and what it was."""
    asked = begun.get(decision.sender)
    if asked is None or (decision.turn, decision.receiver) != (turn, asked.grant.receiver):
        arm = None
    else:
        arm = asked.node.arms.get(decision.label)
    if asked is None or arm is None:
        offers = [f"{each.node.sender} to {each.node.receiver}: {', '.join(each.node.arms)}" for each in begun.values()]
        recorded = f"turn {decision.turn}, {decision.sender} to {decision.receiver}: {decision.label}"
        raise ValueError(f"recorded is {recorded}; on offer is turn {turn}, {'; '.join(offers)}")
    return asked.path, arm


def _message(arm: Arm, payload: bytes) -> Message:
    return arm.kind.from_wire(unpack(payload))


# --- whatever ends a run early ---


def _fail(state: State, event: Failed) -> Transition:
    verdict = Verdict(Ending.FAILED, _turn(state, event.role), event.role, failure=event.report)
    return _stop(_without(state, event.role), verdict, event.at)


def _leave(state: State, event: Left) -> Transition:
    verdict = Verdict(Ending.LOST, _turn(state, event.role), event.role, event.why)
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
    return _stop(state, Verdict(Ending.ILLEGAL, _turn(state, role), role, why), at)


def _turn(state: State, role: str | None) -> int:
    """The turn in which the role is asked; the next one if it is not."""
    asked = None if role is None else state.asked.get(role)
    return state.turn if asked is None else asked.grant.turn


def _without(state: State, role: str | None) -> State:
    return state if role is None else replace(state, present=state.present - {role})


def _stop(state: State, verdict: Verdict, at: float, commands: list[Command] | None = None) -> Transition:
    commands = [] if commands is None else commands
    reason = _reason(verdict)
    commands += [Stop(role, reason) for role in state.plan.roles if role in state.present]
    stopping = replace(
        state, phase=Phase.STOPPING, verdict=verdict, waiting=state.present, asked={}, wake=at + state.plan.limits.stop
    )
    return _settled(stopping, commands)


def _reason(verdict: Verdict) -> str:
    cause = verdict.why or (verdict.failure.text if verdict.failure else "") or verdict.ending.value
    return f"{verdict.role}: {cause}" if verdict.role else cause


# --- stopping ---


def _confirm(state: State, event: Stopped | Failed) -> Transition:
    return _settled(replace(state, waiting=state.waiting - {event.role}), [])


def _gone(state: State, event: Left) -> Transition:
    # Without a link nobody elsewhere can confirm, but those in this process still will; the limit decides.
    return (state, []) if event.role is None else _settled(replace(state, waiting=state.waiting - {event.role}), [])


def _join_late(state: State, event: Joined) -> Transition:
    if event.role in state.present or state.verdict is None:
        return state, []
    joined = replace(state, present=state.present | {event.role}, waiting=state.waiting | {event.role})
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
    return replace(state, phase=Phase.DONE, verdict=verdict, waiting=frozenset(), wake=None), commands


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
    Phase.ASKING: {
        Sent: _hear,
        Joined: _again,
        Stopped: _unasked,
        Recorded: _recorded,
        Unrecorded: _unrecorded,
        Tick: _late,
        **_ENDS,
    },
    Phase.STOPPING: {Stopped: _confirm, Failed: _confirm, Left: _gone, Joined: _join_late, Tick: _give_up},
    Phase.DONE: {},
}
