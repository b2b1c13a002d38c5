"""Whether a participant fits its role, as far as it can be told before anything runs.

A participant that can tell has `check(protocol, role)`; a session calls it when it is made.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol as Structure
from typing import runtime_checkable

from partyctl_actors.errors import ConformanceError
from partyctl_actors.protocol.conformance import Answers, ParticipantShape, accepts
from partyctl_actors.protocol.exploration import explore
from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.projection import ReceiveState, SendState, View
from partyctl_actors.protocol.protocol import Protocol
from partyctl_actors.protocol.role import Role


@runtime_checkable
class Checked(Structure):
    """A participant that can be checked against its role beforehand."""

    def check(self, protocol: Protocol, role: Role) -> None:
        """Do nothing if it can play `role`, as far as that can be told.

        Raises:
            ConformanceError: it cannot.
        """
        ...


def fits(protocol: Protocol, role: Role, shape: ParticipantShape) -> None:
    """See that a participant of this shape can play the role.

    Raises:
        ConformanceError: it cannot.
    """
    view = protocol.view(role)
    acceptance = accepts(view, shape)
    if isinstance(shape, Answers) and isinstance(view.states[view.start], SendState):
        acceptance = replace(acceptance, problems=acceptance.problems + waiting(protocol, view))
    acceptance.require()


def waiting(protocol: Protocol, view: View) -> tuple[str, ...]:
    """What comes of it when the role of this view does not speak before it was spoken to: who waits for whom."""
    asked = next((n for n, state in enumerate(view.states) if isinstance(state, ReceiveState)), None)
    if asked is None:
        return ()
    silent = View(view.role, asked, view.states)
    found = explore(silent if role == view.role else protocol.view(role) for role in protocol.roles)
    return (found.what,) if found.trouble == "deadlock" else ()


def labels(protocol: Protocol, role: Role, kinds: Iterable[type[Message]], what: str) -> frozenset[str]:
    """The labels of these classes, all of which belong to the protocol.

    Args:
        what: what they are to the participant, for the error.

    Raises:
        ConformanceError: the protocol has no such class, or another of its name.
    """
    found = []
    for kind in kinds:
        known = protocol.messages.get(kind.label)
        if known is not kind:
            why = "the protocol has no such message" if known is None else "the protocol has another class of that name"
            raise ConformanceError(
                f"{role} cannot say or hear {kind.label}",
                role=role,
                where=what,
                why=why,
                fix=f"Its messages are {', '.join(protocol.messages)}",
            )
        found.append(kind.label)
    return frozenset(found)
