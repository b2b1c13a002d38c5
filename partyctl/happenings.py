"""What of an agent's work is a line of `partyctl events`.

That its session goes on in another process, decisions of the recovery rules, tools, refused approvals.
"""

from dataclasses import asdict
from typing import NamedTuple

from partyctl.maps import Map
from partyctl_actors.supervision import TakenUp
from partyctl_actors.supervision.policy_commands import Decided
from partyctl_plugins.events import ApprovalDenied, ToolCall


class Happening(NamedTuple):
    """One line.

    Attributes:
        kind: `session_taken_up`, `recovery`, `tool` or `approval_denied`.
        cause: what happened, for a person.
        fields: further values.
    """

    kind: str
    cause: str
    fields: Map


def happening(event: object) -> Happening | None:
    """The line of an event that an agent session tells; None for what is no line."""
    if isinstance(event, Decided):
        fields: Map = {**asdict(event), "rule": event.rule.value}
        fields["outcome"] = None if event.outcome is None else event.outcome.value
        cause = str(fields.pop("cause"))
        fields["turn"], fields["conversation"] = fields.pop("turn_id"), fields.pop("conversation_id")
        return Happening("recovery", cause, fields)
    if isinstance(event, TakenUp):
        return Happening("session_taken_up", "", {"worker": event.worker.value, "turn": event.turn_id})
    if isinstance(event, ToolCall):
        return Happening("tool", event.tool, {"args": dict(event.args)})
    if isinstance(event, ApprovalDenied):
        return Happening("approval_denied", event.detail or event.kind, {"asked": event.kind})
    return None
