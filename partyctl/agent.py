"""The `Agent` of the public face: that of the actors' floor, whose sessions have their workers from a private host."""

from typing import ClassVar

from partyctl.grounds import SharedGrounds
from partyctl_actors.participants import Agent as ActorsAgent
from partyctl_actors.supervision.hired import Grounds


class Agent(ActorsAgent):
    __doc__ = ActorsAgent.__doc__

    grounds: ClassVar[Grounds | None] = SharedGrounds()
