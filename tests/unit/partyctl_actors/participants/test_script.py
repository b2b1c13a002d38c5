from __future__ import annotations

import pytest
from fakes.runs import A, B, Ping, Pong, request_reply

from partyctl_actors.errors import SessionError
from partyctl_actors.participants import Offer, Script, Seat
from partyctl_actors.transcript import Envelope

SEAT = Seat("r", A, request_reply)
OFFER = Offer(A, B, (Ping, Pong))


def test_lines_are_said_in_order_and_every_player_begins_at_the_first() -> None:
    script = Script([Ping("1"), Ping("2")])
    for _ in range(2):
        player = script.bind(SEAT)
        assert [player.author(OFFER), player.author(OFFER)] == [Ping("1"), Ping("2")]


def test_a_recalled_line_is_not_said_again() -> None:
    player = Script([Ping("1"), Ping("2")]).bind(SEAT)
    player.recall(Envelope(A, B, Ping("1")))
    assert player.author(OFFER) == Ping("2")


def test_a_script_without_a_line_left_says_what_is_asked_for() -> None:
    with pytest.raises(SessionError, match=r"no line left \(A\): all 0 were said; asked for Ping or Pong"):
        Script([]).bind(SEAT).author(OFFER)


@pytest.mark.parametrize("line", [Ping, "Ping", None])
def test_a_line_that_is_no_message_is_refused_when_the_script_is_made(line: object) -> None:
    with pytest.raises(TypeError, match="a line of a Script is a message"):
        Script([line])  # type: ignore[list-item]
