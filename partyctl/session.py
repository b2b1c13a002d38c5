"""The `Session` of the public face: that of the actors' floor, with workers from a private host."""

from partyctl.embedded import PrivateHost
from partyctl_actors.runs import Session as ActorsSession


class Session(ActorsSession):
    __doc__ = ActorsSession.__doc__

    _workers = PrivateHost
