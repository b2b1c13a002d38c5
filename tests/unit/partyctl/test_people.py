"""Who waits for a person is told so once, and nobody is shown a message twice."""

import io

import pytest
from fakes.runs import A, B

from partyctl.people import Asking, people, shown_once
from partyctl_actors.participants import Desk, Human, Offer, Script, Terminal
from partyctl_actors.protocol import Message
from partyctl_actors.runs import TurnGranted


class Page:
    """A front end of somebody's own."""

    async def choose(self, run_id: str, offer: Offer) -> Message:
        raise NotImplementedError


@pytest.mark.parametrize(("player", "found"), [(Desk(), "Desk"), (Page(), "Page"), (Terminal(), None)])
def test_people_are_those_who_are_asked_elsewhere_than_at_a_terminal(player: Desk, found: str | None) -> None:
    cast = {A: Script([]), B: Human(player)}
    assert people(cast) == ({} if found is None else {"B": found})


def test_the_first_turn_of_a_person_is_told_and_no_other() -> None:
    asking = Asking({"B": "Desk"})
    turns = [TurnGranted("r", turn, role, "C") for turn, role in enumerate(("A", "B", "B"), 1)]
    told = [asking.event(event) for event in (*turns, object())]
    assert told == [None, {"event": "asked", "role": "B", "at": "Desk"}, None, None]


def test_a_terminal_that_writes_elsewhere_goes_on_telling() -> None:
    elsewhere, here, desk = Human(Terminal(write=io.StringIO())), Human(Terminal()), Human(Desk())
    assert shown_once(elsewhere) is elsewhere
    assert shown_once(desk) is desk
    quiet = shown_once(here)
    assert isinstance(quiet, Human)
    assert not hasattr(quiet.io, "told")
