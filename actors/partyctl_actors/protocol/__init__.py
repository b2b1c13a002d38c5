"""The protocol language: roles, messages, steps, and the checks on what is made of them."""

from partyctl_actors.protocol import patterns
from partyctl_actors.protocol.check import Report, RoleVerdict, check, check_views
from partyctl_actors.protocol.conformance import Acceptance, Answers, Lines, ParticipantShape, Says, accepts
from partyctl_actors.protocol.definition import definition, load
from partyctl_actors.protocol.endpoint import load_view, view_definition
from partyctl_actors.protocol.exits import Finding
from partyctl_actors.protocol.exploration import Act, Exploration, explore, refines
from partyctl_actors.protocol.graph import Arm, End, Flow, Fork, Interaction, Join, State
from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.nodes import Step, Steps
from partyctl_actors.protocol.projection import EndState, ReceiveState, SendState, View, project
from partyctl_actors.protocol.protocol import Protocol
from partyctl_actors.protocol.refine import between, where
from partyctl_actors.protocol.render import render
from partyctl_actors.protocol.role import Role, roles
from partyctl_actors.protocol.steps import choose, loop, par, repeat, send, stop

__all__ = [
    "Acceptance",
    "Act",
    "Answers",
    "Arm",
    "End",
    "EndState",
    "Exploration",
    "Finding",
    "Flow",
    "Fork",
    "Interaction",
    "Join",
    "Lines",
    "Message",
    "ParticipantShape",
    "Protocol",
    "ReceiveState",
    "Report",
    "Role",
    "RoleVerdict",
    "Says",
    "SendState",
    "State",
    "Step",
    "Steps",
    "View",
    "accepts",
    "between",
    "check",
    "check_views",
    "choose",
    "definition",
    "explore",
    "load",
    "load_view",
    "loop",
    "par",
    "patterns",
    "project",
    "refines",
    "render",
    "repeat",
    "roles",
    "send",
    "stop",
    "view_definition",
    "where",
]
