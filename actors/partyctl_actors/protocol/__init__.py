"""The protocol language: roles, messages, steps, and the checks on what is made of them."""

from partyctl_actors.protocol.definition import definition, load
from partyctl_actors.protocol.graph import Arm, End, Flow, Fork, Graph, Interaction, Join, State
from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.nodes import Step, Steps
from partyctl_actors.protocol.projection import EndState, ReceiveState, SendState, View, project
from partyctl_actors.protocol.protocol import Protocol
from partyctl_actors.protocol.refine import between, where
from partyctl_actors.protocol.role import Role, roles
from partyctl_actors.protocol.steps import choose, loop, par, repeat, send, stop

__all__ = [
    "Arm",
    "End",
    "EndState",
    "Flow",
    "Fork",
    "Graph",
    "Interaction",
    "Join",
    "Message",
    "Protocol",
    "ReceiveState",
    "Role",
    "SendState",
    "State",
    "Step",
    "Steps",
    "View",
    "between",
    "choose",
    "definition",
    "load",
    "loop",
    "par",
    "project",
    "repeat",
    "roles",
    "send",
    "stop",
    "where",
]
