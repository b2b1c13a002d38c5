"""People in a run of `partyctl run`: whoever waits for one is told so, and nobody is shown a message twice."""

import sys
from collections.abc import Mapping

from partyctl.maps import Map
from partyctl_actors.participants import Human, Offer, Participant, Terminal
from partyctl_actors.protocol import Message, Role
from partyctl_actors.runs import TurnGranted

ASKED = "asked"
"""The event of a person who is asked somewhere else than at a terminal: the first time in a run."""


def people(cast: Mapping[Role, object]) -> dict[str, str]:
    """The roles of people who are asked elsewhere than at a terminal, and the name of what asks them."""
    asked = {role.name: who.io for role, who in cast.items() if isinstance(who, Human)}
    return {name: type(io).__name__ for name, io in asked.items() if not isinstance(io, Terminal)}


class Asking:
    """Who is asked, and whether somebody who looks on was told so: the first time that each role is.

    Args:
        people: as `people` finds them.
    """

    def __init__(self, people: Mapping[str, str]) -> None:
        self._untold = dict(people)

    def event(self, event: object) -> Map | None:
        """The event to tell, if this one is a person's turn for the first time."""
        if not isinstance(event, TurnGranted) or event.role not in self._untold:
            return None
        return {"event": ASKED, "role": event.role, "at": self._untold.pop(event.role)}


class _Silent:
    """A terminal under a command that shows what is said on stdout: it asks on stderr, and tells nothing once more."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        terminal.ask_on(sys.stderr)

    async def choose(self, run_id: str, offer: Offer) -> Message:
        """See `HumanIo.choose`."""
        return await self._terminal.choose(run_id, offer)


def shown_once(participant: Participant) -> Participant:
    """The participant for a run whose messages are shown anyway: one at this terminal is not told them once more."""
    if isinstance(participant, Human) and isinstance(participant.io, Terminal) and participant.io.is_standard:
        return Human(_Silent(participant.io))
    return participant
