"""What a handler raises waits for the end of its turn."""

import pytest

from partyctl_plugins.emitting import GuardedEmit
from partyctl_plugins.errors import TurnFailedError
from partyctl_plugins.events import AgentEvent, AssistantText


class Handler:
    def __init__(self) -> None:
        self.told: list[AgentEvent] = []
        self.stops = 0

    def emit(self, event: AgentEvent) -> None:
        self.told.append(event)
        raise ValueError("no room")

    def stop(self) -> None:
        self.stops += 1


def test_a_handler_that_raises_is_told_nothing_more_and_the_turn_is_stopped_once() -> None:
    handler, seen = Handler(), []

    def turn(guarded: GuardedEmit) -> None:
        for number in range(3):
            guarded(AssistantText(str(number)))
            seen.append(number)

    with pytest.raises(ValueError, match="no room"), GuardedEmit(handler.emit, handler.stop) as guarded:
        turn(guarded)
    assert (len(handler.told), handler.stops, seen) == (1, 1, [0, 1, 2])


def test_it_stands_in_place_of_what_the_turn_itself_raises() -> None:
    handler = Handler()

    def turn(guarded: GuardedEmit) -> None:
        guarded(AssistantText("x"))
        raise TurnFailedError("cut off")

    with pytest.raises(ValueError, match="no room"), GuardedEmit(handler.emit, handler.stop) as guarded:
        turn(guarded)


def test_a_turn_whose_handler_is_content_ends_as_it_ends() -> None:
    with GuardedEmit(lambda event: None, lambda: None) as guarded:
        guarded(AssistantText("x"))
    with pytest.raises(TurnFailedError), GuardedEmit(lambda event: None, lambda: None):
        raise TurnFailedError("its own")


def test_what_ends_the_program_is_not_kept() -> None:
    def interrupted(event: AgentEvent) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        GuardedEmit(interrupted, lambda: None)(AssistantText("x"))
