"""A protocol, or one role's part of it, as text or as a Mermaid diagram."""

from __future__ import annotations

from typing import Literal, TypeAlias

from partyctl_actors.errors import ProtocolError
from partyctl_actors.protocol.mermaid_sequence import as_sequence
from partyctl_actors.protocol.mermaid_state import flow_as_states, view_as_states
from partyctl_actors.protocol.projection import EndState, SendState, View
from partyctl_actors.protocol.protocol import Protocol
from partyctl_actors.protocol.role import Role

Form: TypeAlias = Literal["text", "mermaid-sequence", "mermaid-state"]
_FORMS = ("text", "mermaid-sequence", "mermaid-state")


def render(protocol: Protocol, form: Form = "text", role: Role | None = None) -> str:
    """The protocol as people read it.

    Args:
        form: "text" is one line per message (of a role: per state of its view, "!" for what it says, "?" for what it
            hears); "mermaid-sequence" and "mermaid-state" are diagrams for a Mermaid renderer.
        role: whose view is shown; None is the whole protocol.

    Raises:
        ProtocolError: there is no such form.
        ProjectionError: the protocol has no such role.
    """
    if form not in _FORMS:
        raise ProtocolError("There is no such form", where="render()", why=f"got {form!r:.60}", fix=", ".join(_FORMS))
    view = None if role is None else protocol.view(role)
    if form == "mermaid-sequence":
        return as_sequence(protocol.steps, protocol.roles, role)
    if form == "mermaid-state":
        return flow_as_states(protocol.flow) if view is None else view_as_states(view)
    return str(protocol) if view is None else view_as_text(view)


def view_as_text(view: View) -> str:
    """One line per state and label: where the role is, what it says or hears, where it is then."""
    lines = [f"{view.role}, from {view.start}"]
    for number, state in enumerate(view.states):
        if isinstance(state, EndState):
            lines.append(f"{number}: done")
            continue
        peer = f"!{state.receiver}" if isinstance(state, SendState) else f"?{state.sender}"
        lines += [f"{number}: {peer} {label} -> {after}" for label, after in state.arms.items()]
    return "\n".join(lines)
