"""A flow, or a view, as a Mermaid state diagram."""

from __future__ import annotations

from partyctl_actors.protocol.graph import Flow, Fork, Interaction, Join
from partyctl_actors.protocol.mermaid_sequence import escaped
from partyctl_actors.protocol.projection import EndState, SendState, View


def flow_as_states(flow: Flow) -> str:
    """One state per interaction, named after who speaks to whom; one arrow per label."""
    lines = ["stateDiagram-v2", f"    [*] --> s{flow.start}"]
    for number, state in enumerate(flow.states):
        name = f"s{number}"
        if isinstance(state, Interaction):
            lines.append(f"    {name}: {escaped(state.sender.name)} to {escaped(state.receiver.name)}")
            lines += [f"    {name} --> s{arm.next}: {label}" for label, arm in state.arms.items()]
        elif isinstance(state, Fork):
            lines.append(f"    state {name} <<fork>>")
            lines += [f"    {name} --> s{branch}" for branch in state.branches]
        elif isinstance(state, Join):
            lines.append(f"    state {name} <<join>>")
            lines += [] if state.next is None else [f"    {name} --> s{state.next}"]
        else:
            lines += [f"    {name}: done", f"    {name} --> [*]"]
    return "\n".join(lines)


def view_as_states(view: View) -> str:
    """One state per state of the view; an arrow is what the role says (!) or hears (?)."""
    lines = ["stateDiagram-v2", f"    [*] --> v{view.start}"]
    for number, state in enumerate(view.states):
        name = f"v{number}"
        if isinstance(state, EndState):
            lines += [f"    {name}: done", f"    {name} --> [*]"]
            continue
        says = isinstance(state, SendState)
        peer = state.receiver if isinstance(state, SendState) else state.sender
        lines.append(f"    {name}: {'speaks to' if says else 'listens to'} {escaped(peer.name)}")
        lines += [f"    {name} --> v{after}: {'!' if says else '?'}{label}" for label, after in state.arms.items()]
    return "\n".join(lines)
