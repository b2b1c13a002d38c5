"""The protocol language: roles, messages, steps, and the checks on what is made of them."""

from partyctl_actors.protocol.definition import definition, load
from partyctl_actors.protocol.graph import Arm, End, Graph, Interaction
from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.projection import EndState, ReceiveState, SendState, View, project
from partyctl_actors.protocol.protocol import Protocol
from partyctl_actors.protocol.role import Role, roles
from partyctl_actors.protocol.steps import Step, Steps, choose, loop, repeat, send

__all__ = [
    "Arm",
    "End",
    "EndState",
    "Graph",
    "Interaction",
    "Message",
    "Protocol",
    "ReceiveState",
    "Role",
    "SendState",
    "Step",
    "Steps",
    "View",
    "choose",
    "definition",
    "load",
    "loop",
    "project",
    "repeat",
    "roles",
    "send",
]
