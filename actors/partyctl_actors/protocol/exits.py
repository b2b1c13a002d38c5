"""Whether a protocol can come to its end, and who waits for ever if it does not.

Three findings, none of which keeps a protocol from being run: a service may well go on for ever.

no-exit         from some state on, no course of events leads to the end
starvation      a role waits for a message that, from some state on, is never sent, though the others go on
never-repeated  a loop without a `repeat` that means it
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

from partyctl_actors.protocol.frontier import Shape
from partyctl_actors.protocol.graph import End, Flow, Fork, Interaction, Join
from partyctl_actors.protocol.nodes import Loop
from partyctl_actors.protocol.projection import EndState, View
from partyctl_actors.protocol.protocol import Protocol
from partyctl_actors.protocol.role import Role
from partyctl_actors.protocol.rows import steps_in_order


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a reader of the protocol should know.

    Attributes:
        level: "error" keeps the protocol from being made; "warning" does not.
        code: one word for the kind of finding.
        what: what was found, as a sentence without its full stop.
        where: the interaction, loop or choice, as it is written in errors.
        role: whom it concerns; None is everybody.
        recipe: the change that cures it.
    """

    level: Literal["error", "warning"]
    code: str
    what: str
    where: str = ""
    role: Role | None = None
    recipe: str = ""

    def __str__(self) -> str:
        where = f" ({self.where})" if self.where else ""
        return f"{self.level}, {self.code}: {self.what}{where}" + (f". {self.recipe}" if self.recipe else "")


def exits(protocol: Protocol) -> list[Finding]:
    """The findings about loops and ends, in the order of the states."""
    flow = protocol.flow
    finishing = can_finish(flow)
    endless = {number for number, state in enumerate(flow.states) if not finishing[number]}
    findings = [
        Finding(
            "warning",
            "never-repeated",
            "A loop is never repeated",
            where=repr(step),
            recipe="Write its steps without loop(), or a repeat() where it goes on",
        )
        for step in steps_in_order(protocol.steps)
        if isinstance(step, Loop) and not step.repeats
    ]
    if endless:
        findings += [_no_exit(flow, number) for number in _entries(flow, endless)]
        shape = Shape(flow)
        found = (_starved(shape, protocol.view(role)) for role in protocol.roles)
        findings += [finding for finding in found if finding is not None]
    return findings


def can_finish(flow: Flow) -> list[bool]:
    """For each state, whether some course of events leads from it to the end, or to the end of its branch."""
    before: list[list[int]] = [[] for _ in flow.states]
    needs = [1] * len(flow.states)
    ready: deque[int] = deque()
    for number, state in enumerate(flow.states):
        if isinstance(state, (End, Join)):
            ready.append(number)
            needs[number] = 0
        elif isinstance(state, Interaction):
            for following in {arm.next for arm in state.arms.values()}:
                before[following].append(number)
        else:
            join = flow.states[state.join]
            assert isinstance(join, Join)
            # All branches, and what follows them; never, if that is never reached.
            needs[number] = len(state.branches) + 1
            for following in (*state.branches, *(() if join.next is None else (join.next,))):
                before[following].append(number)
    while ready:
        for number in before[ready.popleft()]:
            needs[number] -= 1
            if needs[number] == 0:
                ready.append(number)
    return [need <= 0 for need in needs]


def _next(flow: Flow, number: int) -> tuple[int, ...]:
    state = flow.states[number]
    if isinstance(state, Interaction):
        return tuple(arm.next for arm in state.arms.values())
    if isinstance(state, Fork):
        return state.branches
    return () if isinstance(state, End) or state.next is None else (state.next,)


def _entries(flow: Flow, endless: set[int]) -> list[int]:
    """The first state of each region that is never left."""
    inside = {following for number in endless for following in _next(flow, number)}
    others = (number for number in range(len(flow.states)) if number not in endless)
    entered = {following for number in others for following in _next(flow, number)} | {flow.start}
    return sorted(number for number in endless if number in entered or number not in inside)


def _no_exit(flow: Flow, number: int) -> Finding:
    state = flow.states[number]
    where = f"{state.sender} -> {state.receiver}" if isinstance(state, Interaction) else "par()"
    return Finding(
        "warning",
        "no-exit",
        "The protocol never ends from here on",
        where=where,
        recipe="Give a choice in the loop a branch without repeat(), or bound the run: Allowance(steps=...)",
    )


def _starved(shape: Shape, view: View) -> Finding | None:
    """Whether the role may be waiting where it never hears anything again."""
    flow, after = shape.flow, shape.after_for(view.role)
    acting = _acting_later(shape, view.role, after)
    root = (flow.start, view.start)
    seen = {root}
    waiting = deque([root])
    while waiting:
        number, place = waiting.popleft()
        state, mine = flow.states[number], view.states[place]
        if number not in acting and not isinstance(mine, EndState):
            return Finding(
                "warning",
                "starvation",
                f"{view.role} may wait for ever, while the others go on without it",
                where=f"{state.sender} -> {state.receiver}" if isinstance(state, Interaction) else "par()",
                role=view.role,
                recipe=f"Tell {view.role} before this that its part is over",
            )
        pairs = [(following, place) for following in after[number]]
        if isinstance(state, Interaction) and view.role in (state.sender, state.receiver):
            assert not isinstance(mine, EndState)
            pairs = [(arm.next, mine.arms[label]) for label, arm in state.arms.items()]
        fresh = [pair for pair in pairs if pair not in seen]
        seen.update(fresh)
        waiting.extend(fresh)
    return None


def _acting_later(shape: Shape, role: Role, after: list[tuple[int, ...]]) -> set[int]:
    """The states from which the role may still say or hear something."""
    before: list[list[int]] = [[] for _ in after]
    found: list[int] = []
    for number, following in enumerate(after):
        if role.name in shape.parties[number]:
            found.append(number)
        for one in following:
            before[one].append(number)
    acting = set(found)
    while found:
        for number in before[found.pop()]:
            if number not in acting:
                acting.add(number)
                found.append(number)
    return acting
