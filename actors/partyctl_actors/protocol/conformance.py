"""Whether a participant that says beforehand what it does fits the role it is cast for.

Three shapes of participants can be checked against a role's view:

`Answers`  a table: for each label that it is asked with, what it may answer. It never speaks first, and answers each
           request at once, to whoever asked.
`Lines`    a row of labels, said in this order whatever is heard. Lines left over at the end are fine.
`Says`     a set of labels, one of which it says whenever asked. It fits if at each place one of them is on offer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from partyctl_actors.errors import ConformanceError
from partyctl_actors.protocol.projection import EndState, ReceiveState, SendState, View, ViewState


@dataclass(frozen=True, slots=True)
class Answers:
    """What a table answers: request label to the labels of its possible answers, None if they are not known."""

    replies: Mapping[str, frozenset[str] | None]


@dataclass(frozen=True, slots=True)
class Lines:
    """The labels of what will be said, in order."""

    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Says:
    """The labels of all that will ever be said."""

    labels: frozenset[str]


ParticipantShape: TypeAlias = Answers | Lines | Says


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Whether a view accepts a participant: true if there is no problem.

    Attributes:
        problems: what does not fit, one sentence each without its full stop.
    """

    view: View
    problems: tuple[str, ...]

    def __bool__(self) -> bool:
        return not self.problems

    def require(self) -> None:
        """Do nothing if it fits.

        Raises:
            ConformanceError: it does not.
        """
        if self.problems:
            raise ConformanceError(
                f"This participant does not fit the role {self.view.role}",
                role=self.view.role,
                where="the cast",
                why="; ".join(self.problems),
                fix=f"Cast another participant for {self.view.role}, or change its table or lines",
            )


def accepts(view: View, shape: ParticipantShape) -> Acceptance:
    """Whether a participant of this shape can play the role of this view."""
    if isinstance(shape, Answers):
        problems = _answers(view, shape)
    elif isinstance(shape, Lines):
        problems = _lines(view, shape)
    else:
        problems = _says(view, shape)
    return Acceptance(view, tuple(dict.fromkeys(problems)))


def requests(view: View) -> dict[str, frozenset[str]]:
    """The labels that are answered at once, each with all labels that may be on offer then."""
    found: dict[str, set[str]] = {}
    for state in view.states:
        if isinstance(state, ReceiveState):
            for label, after in state.arms.items():
                following = view.states[after]
                if isinstance(following, SendState):
                    found.setdefault(label, set()).update(following.arms)
    return {label: frozenset(offered) for label, offered in found.items()}


def _answers(view: View, shape: Answers) -> list[str]:
    problems: list[str] = []
    if isinstance(view.states[view.start], SendState):
        problems.append("a table only answers, and this role speaks first")
    for state in view.states:
        if isinstance(state, ReceiveState):
            for label, after in state.arms.items():
                problems += _answer(view, shape, state, label, view.states[after])
        elif isinstance(state, SendState) and any(isinstance(view.states[i], SendState) for i in state.arms.values()):
            problems.append(f"a table answers once, and after {' or '.join(state.arms)} this role speaks again")
    asked = requests(view)
    problems += [f"{label} is never asked of this role" for label in shape.replies if label not in asked]
    return problems


def _answer(view: View, shape: Answers, asked: ReceiveState, label: str, state: ViewState) -> list[str]:
    """What is wrong with the answer to `label`, heard in the state `asked` and answered in `state`."""
    if not isinstance(state, SendState):
        return []
    if state.receiver != asked.sender:
        return [
            f"a table answers whoever asked, and after {label} from {asked.sender} this role tells {state.receiver}"
        ]
    if label not in shape.replies:
        return [f"it has no answer to {label}"]
    unfit = sorted((shape.replies[label] or frozenset()) - state.arms.keys())
    offered = ", ".join(state.arms)
    return [f"it may answer {label} with {', '.join(unfit)}, on offer is {offered}"] if unfit else []


def _lines(view: View, shape: Lines) -> list[str]:
    """Follow all places where the role may be, line by line."""
    places = _speaking(view, {view.start})
    for number, label in enumerate(shape.labels, 1):
        if not places:
            return []
        offers = [state.arms for place in sorted(places) if isinstance(state := view.states[place], SendState)]
        following = {arms[label] for arms in offers if label in arms}
        if not following:
            offered = ", ".join(dict.fromkeys(name for arms in offers for name in arms))
            return [f"line {number}, {label}, is never on offer there; it may say {offered}"]
        places = _speaking(view, following)
    return []


def _says(view: View, shape: Says) -> list[str]:
    offers = [
        state.arms for state in view.states if isinstance(state, SendState) and not shape.labels & state.arms.keys()
    ]
    said = ", ".join(sorted(shape.labels))
    return [f"it says {said}, and {' or '.join(arms)} is on offer somewhere" for arms in offers]


def _speaking(view: View, places: set[int]) -> set[int]:
    """Where the role may next speak, from these places."""
    seen, waiting = set(places), list(places)
    while waiting:
        state = view.states[waiting.pop()]
        if isinstance(state, ReceiveState):
            fresh = set(state.arms.values()) - seen
            seen |= fresh
            waiting.extend(fresh)
    return {place for place in seen if not isinstance(view.states[place], (ReceiveState, EndState))}
