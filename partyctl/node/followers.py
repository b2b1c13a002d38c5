"""Who hears what comes of the turn of a session, and what is kept of it while nobody listens."""

from collections.abc import Callable

from partyctl.maps import Map
from partyctl_plugins.backlog import Backlog
from partyctl_plugins.codec import codec, pack, unpack
from partyctl_plugins.contract import AgentEvent
from partyctl_plugins.events import EventsDropped

Tell = Callable[[str, Map], None]

_EVENT = codec(AgentEvent)


class Followers:
    """Those who follow the turn of one session. Lives on the node's loop.

    Args:
        tell: has somebody hear a message.
    """

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._followers: set[str] = set()
        self._detaching: set[str] = set()
        self._unheard = Backlog()

    def begin(self) -> None:
        """Another turn begins: what was said in the one before is of no use any more."""
        self._unheard.clear()

    def add(self, follower: str, *, detach: bool = False) -> None:
        """From now on `follower` hears all; with `detach` no more than that the turn has begun."""
        (self._detaching if detach else self._followers).add(follower)

    def catch_up(self, follower: str, turn_id: str | None) -> None:
        """What was said while nobody followed the turn, and from now on all; how much is not known comes first."""
        kept, dropped = self._unheard.take()
        first = [_EVENT.encode(EventsDropped(dropped))] if dropped else []
        for said in (*first, *(unpack(data) for data in kept)):
            self._tell(follower, {"event": "said", "turn": turn_id, "said": said})
        self.add(follower)

    def began(self, message: Map, ended: Map) -> None:
        """The turn is durable; whoever detaches hears `ended` as well, and no more."""
        self.say(message)
        for follower in self._detaching:
            self._tell(follower, message)
            self._tell(follower, ended)
        self._detaching.clear()

    def said(self, event: AgentEvent, turn_id: str | None) -> None:
        """The provider says something."""
        encoded = _EVENT.encode(event)
        assert isinstance(encoded, dict)
        if self._followers:
            self.say({"event": "said", "turn": turn_id, "said": encoded})
        else:
            # Whoever followed the turn when its node died is about to ask for it here.
            self._unheard.add(pack(encoded))

    def say(self, message: Map) -> None:
        """All who follow hear it."""
        for follower in self._followers:
            self._tell(follower, message)

    def end(self, message: Map) -> None:
        """All who follow hear it as the last."""
        self.say(message)
        self._followers.clear()
        self._detaching.clear()
