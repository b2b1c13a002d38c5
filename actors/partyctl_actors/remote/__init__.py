"""Roles that are played in another process or on another machine: the deputy here, and who is served there."""

from partyctl_actors.remote.deputy import Deputy
from partyctl_actors.remote.invitation import INVITING, Invitation
from partyctl_actors.remote.served import Served

__all__ = ["INVITING", "Deputy", "Invitation", "Served"]
