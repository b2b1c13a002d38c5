"""Random protocols, played by random players in one process: they end as declared, and a liar ends them by name."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from fakes.protocols import KINDS, accepted
from fakes.runs import jumping
from hypothesis import given, settings
from hypothesis import strategies as st

from partyctl_actors.errors import AllowanceExceeded, SelectionError
from partyctl_actors.participants import BasePlayer, Offer, Participant, Seat
from partyctl_actors.protocol import End, Interaction, Message, Protocol, Role
from partyctl_actors.runs import Allowance, Session, Transcript


class Any(BasePlayer):
    """Says anything on offer, at once or later. A liar says what is not, once its chance has come."""

    def __init__(self, random: Random, lie_at: int | None = None) -> None:
        self.random = random
        self.lie_at = lie_at
        self.turns = 0

    def bind(self, seat: Seat) -> Any:
        return self

    def author(self, offer: Offer) -> Message:
        self.turns += 1
        wrong = [kind for kind in KINDS if kind not in offer.messages]
        if self.lie_at is not None and self.turns >= self.lie_at and wrong:
            return self.random.choice(wrong)()
        return self.random.choice(offer.messages)()


class AnyLater(Any):
    async def author(self, offer: Offer) -> Message:  # type: ignore[override]
        return super().author(offer)


def follow(protocol: Protocol, transcript: Transcript) -> Interaction | End:
    """The state that a transcript leads to; a KeyError if it leaves the protocol."""
    state = protocol.flow.states[protocol.flow.start]
    for envelope in transcript:
        assert isinstance(state, Interaction)
        assert (state.sender, state.receiver) == (envelope.sender, envelope.receiver)
        state = protocol.flow.states[state.arms[envelope.label].next]
    return state


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_every_accepted_protocol_runs_to_its_end_or_to_its_limit(seed: int) -> None:
    random = Random(seed)
    protocol = accepted(random)
    cast: dict[Role, Participant] = {role: random.choice((Any, AnyLater))(random) for role in protocol.roles}

    async def test() -> None:
        run = Session(protocol, cast, allowance=Allowance(steps=40)).start()
        (outcome,) = await asyncio.gather(run.result(), return_exceptions=True)
        if isinstance(outcome, Transcript):
            assert isinstance(follow(protocol, outcome), End)
        else:
            assert isinstance(outcome, AllowanceExceeded)
            assert (outcome.limit, outcome.spent, len(run.transcript)) == ("steps", 40, 40)
            assert isinstance(follow(protocol, run.transcript), Interaction)

    jumping(test())


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_a_role_that_says_what_is_not_on_offer_ends_the_run_and_is_named(seed: int) -> None:
    random = Random(seed)
    protocol = accepted(random)
    liar = random.choice([state.sender for state in protocol.flow.states if isinstance(state, Interaction)])
    cast = {role: Any(random, lie_at=1 if role == liar else None) for role in protocol.roles}

    async def test() -> None:
        run = Session(protocol, cast, allowance=Allowance(steps=40)).start()
        (outcome,) = await asyncio.gather(run.result(), return_exceptions=True)
        if cast[liar].turns == 0:
            assert isinstance(outcome, (Transcript, AllowanceExceeded))
        else:
            assert isinstance(outcome, SelectionError)
            assert f"{liar} said what was not on offer" in str(outcome)
            assert not any(envelope.sender == liar for envelope in run.transcript)

    jumping(test())


@pytest.mark.parametrize("seed", range(3))
def test_the_generator_makes_protocols_with_choices(seed: int) -> None:
    random = Random(seed)
    states = [state for _ in range(20) for state in accepted(random).flow.states]
    assert any(isinstance(state, Interaction) and len(state.arms) > 1 for state in states)
    assert any(isinstance(state, Interaction) and state.unfolds for state in states)
