"""When a party that takes no new run may stop; pure."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Survey:
    """What the nodes said when they were asked.

    Attributes:
        runs: the ids of the runs that go on.
        silent: the nodes that did not answer, whose runs nobody knows.
        sessions: the agent sessions that are at a turn.
    """

    runs: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Drain:
    """A drain so far: what was told already, so that it is told once.

    Args:
        deadline: when it ends at the latest, on the caller's monotonic clock.
        limit: how many seconds that were at its begin, to be told.
    """

    deadline: float
    limit: float
    told: frozenset[str] = frozenset()

    def step(self, survey: Survey, now: float) -> tuple["Drain | None", Sequence[str]]:
        """The drain after a survey at `now`, None if it is over, and the lines to tell."""
        waited = [f"run {run}" for run in survey.runs] + [f"a turn of session {each}" for each in survey.sessions]
        waited += [f"{node}, which does not answer" for node in survey.silent]
        lines = [f"waiting for {each}" for each in waited if each not in self.told]
        if not waited:
            return None, lines
        if now >= self.deadline:
            return None, [*lines, f"cut off after {self.limit:.0f} s: {_counted(survey)}"]
        return Drain(self.deadline, self.limit, self.told.union(waited)), lines


def _counted(survey: Survey) -> str:
    parts = [_number(len(survey.runs), "run")]
    if survey.sessions:
        parts.append(f"{_number(len(survey.sessions), 'turn')} of agent sessions")
    if survey.silent:
        parts.append(f"those of {_number(len(survey.silent), 'silent node')}")
    return ", and ".join(parts)


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
