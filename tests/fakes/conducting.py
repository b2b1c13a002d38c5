"""The conductor's step function, driven by hand."""

from __future__ import annotations

from partyctl_actors.journals import Decision
from partyctl_actors.protocol import Protocol
from partyctl_actors.runs.allowance import Allowance
from partyctl_actors.runs.conductor import begin, step
from partyctl_actors.runs.limits import Limits
from partyctl_actors.runs.run_state import Command, Event, Joined, Opened, Plan, State
from partyctl_actors.runs.verdict import Verdict


def plan(protocol: Protocol, *recorded: Decision, **allowance: float) -> Plan:
    names = tuple(role.name for role in protocol.roles)
    return Plan(protocol.flow, protocol.id, names, Allowance(**allowance), Limits(), recorded)  # type: ignore[arg-type]


def run(state: State, *events: Event) -> tuple[State, list[Command]]:
    """The commands of all events together."""
    commands: list[Command] = []
    for event in events:
        state, more = step(state, event)
        commands += more
    return state, commands


def joined(protocol: Protocol, *recorded: Decision, **allowance: float) -> tuple[State, list[Command]]:
    """The state when every role has joined, and all commands until then."""
    joins = [Joined(role.name, protocol.id, 0.0) for role in protocol.roles]
    return run(begin(plan(protocol, *recorded, **allowance)), Opened(0.0), *joins)


def asking(protocol: Protocol, **allowance: float) -> State:
    """The state in which the first role is asked."""
    return joined(protocol, **allowance)[0]


def ending(state: State) -> Verdict:
    """How the run ended, which it has."""
    assert state.verdict is not None
    return state.verdict
