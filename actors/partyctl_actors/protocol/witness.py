"""Why a role cannot follow a protocol: two runs that look the same to it, and where they part.

Two situations in which a role has to act differently are a contradiction if it would have to speak differently, or to
speak in one and be silent in the other. Three more are refused although a judge who sees everything could get the role
through; the refusal names the rule:

ONE_SENDER  a role listens to one other role at a time, so that it never depends on which of two messages is faster
KNOWN_END   a role knows by itself when its part is over, so that it never waits for what does not come
SAME_OFFER  a role is offered the same choice in situations that look the same to it
TOO_MUCH    a view has a bounded number of states
"""

from __future__ import annotations

from collections import deque

from partyctl_actors.errors import ProjectionError
from partyctl_actors.protocol.frontier import Shape
from partyctl_actors.protocol.graph import Interaction, State
from partyctl_actors.protocol.role import Role

ONE_SENDER = "a role listens to one other role at a time"
KNOWN_END = "a role knows by itself when its part is over"
SAME_OFFER = "a role is offered the same choice in situations that look the same to it"
TOO_MUCH = "a view has a bounded number of states"

_Node = tuple[int, int]
_Step = tuple[_Node, str]
Run = tuple[tuple[str, str, str], ...]
_SHOWN = 6


def explain(shape: Shape, role: Role, word: list[str], clash: tuple[int, int]) -> ProjectionError:
    """The error for a role that cannot act.

    Args:
        word: the labels the role has said and heard so far.
        clash: two states it may be in then, in which it has to act differently; each stands for those that look the
            same (`Shape.same`).
    """
    states = shape.flow.states
    came = _walk(shape, role, word)
    ends = [node for node in came if node[1] == len(word)]
    one, other = (_path(came, next(node for node in ends if shape.same[node[0]] == state)) for state in clash)
    parting = next(i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    (node, this), (_, that) = one[parting], other[parting]
    choice = states[node[0]]
    assert isinstance(choice, Interaction)
    where = f"{choice.sender} -> {choice.receiver}"
    acts = [_act(states[state], role) for state in clash]
    rule = _rule(states[clash[0]], states[clash[1]], role)
    runs = (_run(states, one), _run(states, other))
    return ProjectionError(
        f"{role} cannot know what to do",
        role=role,
        where=where,
        why=(
            f"after {this} it {acts[0]}, after {that} it {acts[1]}, and it does not see which of them was said; "
            f"to {role} the run [{_shown(runs[0])}] looks like the run [{_shown(runs[1])}]"
            + (f"; the rule: {rule}" if rule else "")
        ),
        recipe=(
            f"Tell {role}: begin every branch of the choice {where} ({_few(list(choice.arms))}) with a message to "
            f"{role}, send({choice.sender}, {role}, ...), of a different class in each branch"
        ),
        runs=runs,
        rule=rule,
    )


def too_much(role: Role, limit: int) -> ProjectionError:
    """The error for a role whose view has more than `limit` states."""
    return ProjectionError(
        f"{role} would have to remember too much",
        role=role,
        why=f"its view has more than {limit} states; the rule: {TOO_MUCH}",
        recipe=f"Tell {role} the outcome of choices where they are made",
        rule=TOO_MUCH,
    )


def _walk(shape: Shape, role: Role, word: list[str]) -> dict[_Node, _Step | None]:
    """Every state with the number of labels of `word` seen on the way to it, and how it was first reached."""
    states, after = shape.flow.states, shape.after_for(role)
    root = (shape.flow.start, 0)
    came: dict[_Node, _Step | None] = {root: None}
    waiting = deque([root])
    while waiting:
        node = waiting.popleft()
        number, seen = node
        state = states[number]
        concerned = isinstance(state, Interaction) and role in (state.sender, state.receiver)
        if isinstance(state, Interaction):
            moves = [(label, arm.next) for label, arm in state.arms.items()]
            if concerned:
                moves = [move for move in moves if seen < len(word) and move[0] == word[seen]]
        else:
            moves = [("", following) for following in after[number]]
        for label, following in moves:
            reached = (following, seen + concerned)
            if reached not in came:
                came[reached] = (node, label)
                waiting.append(reached)
    return came


def _path(came: dict[_Node, _Step | None], node: _Node) -> list[_Step]:
    path: list[_Step] = []
    step = came[node]
    while step is not None:
        path.append(step)
        step = came[step[0]]
    return path[::-1]


def _run(states: tuple[State, ...], path: list[_Step]) -> Run:
    found = [(states[number], label) for (number, _), label in path]
    return tuple(
        (state.sender.name, state.receiver.name, label) for state, label in found if isinstance(state, Interaction)
    )


def _shown(run: Run) -> str:
    said = [f"{sender} -> {receiver}: {label}" for sender, receiver, label in run[-_SHOWN:]]
    return ", ".join([f"{len(run) - _SHOWN} messages", *said] if len(run) > _SHOWN else said)


def _rule(one: State, other: State, role: Role) -> str:
    """The rule that keeps the role from either of these; "" if they contradict each other."""
    acts = [state for state in (one, other) if isinstance(state, Interaction)]
    if any(act.sender == role for act in acts):
        same = len(acts) == 2 and acts[0].sender == acts[1].sender and acts[0].receiver == acts[1].receiver
        return SAME_OFFER if same and acts[0].arms.keys() & acts[1].arms.keys() else ""
    return ONE_SENDER if len(acts) == 2 else KNOWN_END


def _act(state: State, role: Role) -> str:
    if not isinstance(state, Interaction):
        return "has nothing more to do"
    shown = _few(list(state.arms))
    if state.sender == role:
        return f"must send {shown} to {state.receiver}"
    return f"must wait for {shown} from {state.sender}"


def _few(labels: list[str]) -> str:
    return " or ".join(labels[:3]) + (" or another" if len(labels) > 3 else "")
