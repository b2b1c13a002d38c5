"""A protocol as indented text, for people."""

from __future__ import annotations

from datetime import timedelta

from partyctl_actors.protocol.nodes import Exchange, Loop, Par, Repeat, Row, Step

# Steps used in many places are written out in each of them, which has no natural bound.
_MOST_LINES = 5_000


def as_text(steps: Row) -> str:
    """One line per message; branches and loops are indented."""
    lines: list[str] = []
    waiting: list[tuple[int, Step | str]] = [(0, step) for step in reversed(steps)]
    while waiting and len(lines) < _MOST_LINES:
        depth, item = waiting.pop()
        head, inner = (item, []) if isinstance(item, str) else _lines(item)
        lines.append("  " * depth + head)
        waiting.extend((depth + extra, below) for extra, below in reversed(inner))
    if waiting:
        lines.append(f"... and more than {_MOST_LINES} lines further on")
    return "\n".join(lines)


def _lines(step: Step) -> tuple[str, list[tuple[int, Step | str]]]:
    """A step's own line, and what is written below it, with how much deeper."""
    if isinstance(step, Loop):
        return f"loop {step.name}".rstrip(), [(1, inner) for inner in step.body]
    if isinstance(step, Repeat):
        return f"repeat {step.target}".rstrip(), []
    if isinstance(step, Par):
        branches: list[tuple[int, Step | str]] = []
        for branch in step.branches:
            branches.append((1, "branch"))
            branches.extend((2, inner) for inner in branch)
        return "par", branches
    if not isinstance(step, Exchange):
        return "stop", []
    peers = f"{step.sender} -> {step.receiver}"
    time = f" @{_seconds(step.within)}" if step.within else ""
    if len(step.branches) == 1:
        kind, branch = step.branches[0]
        return f"{peers}: {kind.label}{time}", [(0, inner) for inner in branch]
    below: list[tuple[int, Step | str]] = []
    for kind, branch in step.branches:
        below.append((1, kind.label))
        below.extend((2, inner) for inner in branch)
    return f"{peers}: one of{time}", below


def _seconds(time: timedelta) -> str:
    return f"{time.total_seconds():g}s"
