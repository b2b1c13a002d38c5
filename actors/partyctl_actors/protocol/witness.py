"""Why a role cannot follow a protocol: two courses of events that look the same to it, and where they part."""

from __future__ import annotations

from collections import deque

from partyctl_actors.errors import ProjectionError
from partyctl_actors.protocol.graph import End, Graph, Interaction
from partyctl_actors.protocol.role import Role

_Node = tuple[int, int]


def explain(graph: Graph, role: Role, word: list[str], clash: tuple[int, int], same: list[int]) -> ProjectionError:
    """The error for a role that cannot act.

    Args:
        word: the labels the role has said and heard so far.
        clash: two states it may be in then, in which it has to act differently.
        same: for each state the one that stands for it in `clash`.
    """
    came = _walk(graph, role, word)
    ends = [node for node in came if node[1] == len(word)]
    one, other = (_path(came, next(node for node in ends if same[node[0]] == state)) for state in clash)
    parting = next(i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    (node, this), (_, that) = one[parting], other[parting]
    choice = graph.states[node[0]]
    assert isinstance(choice, Interaction)
    where = f"{choice.sender} -> {choice.receiver}"
    acts = [_act(graph.states[state], role) for state in clash]
    return ProjectionError(
        f"{role} cannot know what to do",
        role=role,
        where=where,
        why=f"after {this} it {acts[0]}, after {that} it {acts[1]}, and it does not see which of them was said",
        recipe=(
            f"Tell {role}: begin every branch of the choice {where} with a message to {role}, "
            f"send({choice.sender}, {role}, ...), of a different class in each branch"
        ),
    )


def _walk(graph: Graph, role: Role, word: list[str]) -> dict[_Node, tuple[_Node, str] | None]:
    """Every state with the number of labels of `word` seen on the way to it, and how it was first reached."""
    root = (graph.start, 0)
    came: dict[_Node, tuple[_Node, str] | None] = {root: None}
    waiting = deque([root])
    while waiting:
        node = waiting.popleft()
        number, seen = node
        state = graph.states[number]
        if isinstance(state, End):
            continue
        concerned = role in (state.sender, state.receiver)
        for label, arm in state.arms.items():
            if concerned and (seen == len(word) or word[seen] != label):
                continue
            after = (arm.next, seen + concerned)
            if after not in came:
                came[after] = (node, label)
                waiting.append(after)
    return came


def _path(came: dict[_Node, tuple[_Node, str] | None], node: _Node) -> list[tuple[_Node, str]]:
    path: list[tuple[_Node, str]] = []
    step = came[node]
    while step is not None:
        path.append(step)
        step = came[step[0]]
    return path[::-1]


def _act(state: Interaction | End, role: Role) -> str:
    if isinstance(state, End):
        return "has nothing more to do"
    labels = list(state.arms)
    shown = " or ".join(labels[:3]) + (" or another" if len(labels) > 3 else "")
    if state.sender == role:
        return f"must send {shown} to {state.receiver}"
    return f"must wait for {shown} from {state.sender}"
