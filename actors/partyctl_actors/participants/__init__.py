"""Who plays the roles of a run."""

from partyctl_actors.participants.agent import Agent
from partyctl_actors.participants.casting import Cast
from partyctl_actors.participants.conformity import Checked
from partyctl_actors.participants.desk import Desk
from partyctl_actors.participants.function import Function, PlainFunction
from partyctl_actors.participants.hosted_models import model
from partyctl_actors.participants.human import Human, HumanIo
from partyctl_actors.participants.interface import (
    BasePlayer,
    Meter,
    Offer,
    Participant,
    Player,
    Seat,
    WorkerSource,
)
from partyctl_actors.participants.machine import Machine
from partyctl_actors.participants.models import Answer, Correction, LanguageModel, Memory, ModelRequest
from partyctl_actors.participants.policy import Policy, View
from partyctl_actors.participants.replies import Replies, replies
from partyctl_actors.participants.script import Script
from partyctl_actors.participants.terminal import Terminal
from partyctl_actors.participants.wrapped_models import (
    ModelAnswered,
    ModelAsked,
    ModelFailed,
    ModelTracer,
    fallback,
    metered,
    retrying,
    traced,
)

__all__ = [
    "Agent",
    "Answer",
    "BasePlayer",
    "Cast",
    "Checked",
    "Correction",
    "Desk",
    "Function",
    "Human",
    "HumanIo",
    "LanguageModel",
    "Machine",
    "Memory",
    "Meter",
    "ModelAnswered",
    "ModelAsked",
    "ModelFailed",
    "ModelRequest",
    "ModelTracer",
    "Offer",
    "Participant",
    "PlainFunction",
    "Player",
    "Policy",
    "Replies",
    "Script",
    "Seat",
    "Terminal",
    "View",
    "WorkerSource",
    "fallback",
    "metered",
    "model",
    "replies",
    "retrying",
    "traced",
]
