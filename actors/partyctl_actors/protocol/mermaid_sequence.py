"""A declaration as a Mermaid sequence diagram: choices are `alt`, loops `loop`, branches `par`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from partyctl_actors.protocol.nodes import Exchange, Loop, Par, Repeat, Row, Step
from partyctl_actors.protocol.role import Role
from partyctl_actors.protocol.rows import fold, inner_rows

# Steps used in many places are drawn in each of them, which has no natural bound.
_MOST_LINES = 5_000
_Item = Step | str


def as_sequence(steps: Row, roles: tuple[Role, ...], role: Role | None) -> str:
    """The diagram; with a role, of what it takes part in and of the choices and loops around that."""
    names = {one: f"r{number}" for number, one in enumerate(roles)}
    concerned = _concerned(steps, role)
    shown = [one for one in roles if role is None or one in _peers(steps, role)]
    lines = ["sequenceDiagram", *(f"    participant {names[one]} as {escaped(one.name)}" for one in shown)]
    everybody = ",".join(dict.fromkeys((names[shown[0]], names[shown[-1]])))
    waiting: list[tuple[int, _Item]] = [(1, step) for step in reversed(steps)]
    while waiting and len(lines) < _MOST_LINES:
        depth, item = waiting.pop()
        if isinstance(item, Step):
            if concerned(item):
                waiting.extend(
                    (depth + deeper, inner) for deeper, inner in reversed(_items(item, names, everybody, role))
                )
        else:
            lines.append("    " * depth + item)
    if waiting:
        lines += _closed(waiting, everybody)
    return "\n".join(lines)


def _closed(waiting: list[tuple[int, _Item]], everybody: str) -> Iterator[str]:
    """A note that something is left out, and the ends of the blocks that are open."""
    yield f"    Note over {everybody}: more than {_MOST_LINES} lines are left out"
    for depth, item in reversed(waiting):
        if item == "end":
            yield "    " * depth + "end"


def _items(step: Step, names: dict[Role, str], everybody: str, role: Role | None) -> list[tuple[int, _Item]]:
    if isinstance(step, Loop):
        return [(0, f"loop {escaped(step.name)}".rstrip()), *_inner(step.body), (0, "end")]
    if isinstance(step, Repeat):
        again = f"repeat {escaped(step.target)}".rstrip()
        return [(0, f"Note over {everybody}: {again}")]
    if isinstance(step, Par):
        branches = [row for row, roles in zip(step.branches, step.members, strict=True) if role in (None, *roles)]
        if role is not None:
            return [(0, inner) for row in branches for inner in row]
        items: list[tuple[int, _Item]] = []
        for number, row in enumerate(branches):
            items += [(0, "and" if number else "par"), *_inner(row)]
        return [*items, (0, "end")]
    if not isinstance(step, Exchange):
        return [(0, f"Note over {everybody}: stop")]
    peers = f"{names[step.sender]}->>{names[step.receiver]}" if _sees(step, role) else ""
    if len(step.branches) == 1:
        kind, branch = step.branches[0]
        return [*([(0, f"{peers}: {kind.label}")] if peers else []), *[(0, inner) for inner in branch]]
    choice: list[tuple[int, _Item]] = []
    for number, (kind, branch) in enumerate(step.branches):
        choice.append((0, f"{'else' if number else 'alt'} {kind.label}" if peers else "else" if number else "alt"))
        if peers:
            choice.append((1, f"{peers}: {kind.label}"))
        choice += _inner(branch)
    return [*choice, (0, "end")]


def _inner(row: Row) -> list[tuple[int, _Item]]:
    return [(1, step) for step in row]


def _sees(step: Exchange, role: Role | None) -> bool:
    return role is None or role in (step.sender, step.receiver)


def _concerned(steps: Row, role: Role | None) -> Callable[[Step], bool]:
    """Whether a step, or one in it, is the role's business; jumps are, for they say where it goes on."""
    if role is None:
        return lambda step: True
    rows: dict[int, bool] = {}

    def step_concerns(step: Step) -> bool:
        if isinstance(step, Exchange) and _sees(step, role):
            return True
        return not isinstance(step, (Exchange, Loop, Par)) or any(rows[id(row)] for row in inner_rows(step))

    def row_concerns(row: Row, inner: Callable[[Row], bool]) -> bool:
        rows[id(row)] = any(step_concerns(step) for step in row if isinstance(step, (Exchange, Loop, Par)))
        return rows[id(row)]

    fold(steps, row_concerns)
    return step_concerns


def _peers(steps: Row, role: Role) -> set[Role]:
    found = {role}

    def look(row: Row, inner: Callable[[Row], None]) -> None:
        for step in row:
            if isinstance(step, Exchange) and _sees(step, role):
                found.update((step.sender, step.receiver))

    fold(steps, look)
    return found


def escaped(text: str) -> str:
    """Text that Mermaid takes literally: its own signs as character codes."""
    return "".join(
        character if character.isalnum() or character in " _-.,()" else f"#{ord(character)};" for character in text
    )
