"""The policy's table for people: rows of text, and a Mermaid state diagram. `docs/recovery.md` shows both."""

from __future__ import annotations

from partyctl_actors.supervision.policy import ANY, ATTEMPT, BUSY, REST, TABLE
from partyctl_actors.supervision.policy_events import Phase

_SETS = {ANY: "any", REST: "idle, prepared", ATTEMPT: "opening, running", BUSY: "opening, running, waiting"}


def as_rows() -> list[list[str]]:
    """One row for each of the table: phases, event, condition, what is done, next phases, rule."""
    return [
        [
            _phases(row.phases),
            f"`{row.event.__name__}`",
            "" if row.when is None else row.when.__doc__ or "",
            row.then.__name__.replace("_", " "),
            _phases(row.to),
            "" if row.rule is None else f"`{row.rule}`",
        ]
        for row in TABLE
    ]


def as_mermaid() -> str:
    """One state for each phase; an arrow for each rule that leads from one to another, or event where there is none."""
    arrows: dict[tuple[Phase, Phase], list[str]] = {}
    for row in TABLE:
        for before in row.phases:
            for after in row.to:
                label = row.event.__name__ if row.rule is None else row.rule.value
                labels = arrows.setdefault((before, after), [])
                if before is not after and label not in labels:
                    labels.append(label)
    lines = ["stateDiagram-v2", f"    [*] --> {Phase.IDLE}"]
    for (before, after), labels in arrows.items():
        lines += [f"    {before} --> {after}: {'<br/>'.join(labels)}"] if labels else []
    return "\n".join(lines)


def _phases(phases: tuple[Phase, ...]) -> str:
    return _SETS.get(phases) or ", ".join(phases)
