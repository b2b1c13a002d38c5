from __future__ import annotations

import pytest
from fakes.runs import A, B, Ping, Pong, jumping, rally, request_reply

from partyctl_actors.errors import ContentError, ModelError, SelectionError
from partyctl_actors.participants import Agent, Answer, ModelRequest, Offer, Script, Seat, replies
from partyctl_actors.protocol import Message
from partyctl_actors.runs import Session
from partyctl_actors.transcript import Envelope, Transcript

OFFER = Offer(B, A, (Pong,))


class Model:
    """Gives these answers, and keeps the questions."""

    def __init__(self, *answers: object, tokens: int = 0) -> None:
        self.answers = list(answers)
        self.tokens = tokens
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest) -> Answer:
        self.requests.append(request)
        return Answer(self.answers.pop(0), self.tokens)  # type: ignore[arg-type]


def author(model: object, *, repair: int = 1, seat: Seat | None = None) -> Message:
    seat = seat or Seat("r", B, request_reply)
    player = Agent(model, "Be brief.", repair=repair).bind(seat)  # type: ignore[call-overload]
    player.hear(Envelope(A, B, Ping("hi")))
    return jumping(player.author(OFFER))


GOOD = '{"label": "Pong", "payload": {"text": "yo"}}'


def test_the_model_is_told_its_instructions_what_was_said_and_what_is_on_offer() -> None:
    model = Model(GOOD)
    assert author(model) == Pong("yo")
    (request,) = model.requests
    assert (request.instructions, request.offer, request.corrections) == ("Be brief.", OFFER, ())
    assert list(request.history) == [Envelope(A, B, Ping("hi"))]


@pytest.mark.parametrize("bad", ["Sure!", '{"label": "Ping"}', '{"label": "Pong", "payload": {"txt": 1}}', "[]", "{"])
def test_an_answer_that_cannot_be_used_is_asked_for_again_with_the_reason(bad: str) -> None:
    model = Model(bad, GOOD)
    assert author(model) == Pong("yo")
    (correction,) = model.requests[1].corrections
    assert correction.answer == bad
    assert correction.why


def test_repairs_are_counted_and_the_last_error_arrives() -> None:
    model = Model("one", "two", "three", GOOD)
    with pytest.raises(ContentError, match="not a JSON object"):
        author(model, repair=2)
    assert len(model.requests) == 3
    with pytest.raises(SelectionError, match="'Ping' is not on offer"):
        author(Model('{"label": "Ping"}'), repair=0)


def test_tokens_of_every_attempt_are_counted() -> None:
    seat = Seat("r", B, request_reply)
    author(Model("bad", GOOD, tokens=30), seat=seat)
    assert seat.meter.take() == 60


def test_a_model_that_answers_something_else_is_a_model_error() -> None:
    class Rude:
        async def complete(self, request: ModelRequest) -> str:
            return GOOD

    with pytest.raises(ModelError, match="answers with Answer"):
        author(Rude())


def test_what_the_role_said_is_part_of_its_history_and_memory_decides_what_is_shown() -> None:
    class LastOne:
        def keep(self, history: Transcript) -> tuple[Envelope, ...]:
            return history[-1:]

    model = Model(GOOD, '{"label": "Stop"}')
    Session(rally, {A: Script([Ping("1"), Ping("2")]), B: Agent(model)}).run()
    assert [envelope.message for envelope in model.requests[1].history] == [Ping("1"), Pong("yo"), Ping("2")]
    model = Model(GOOD, '{"label": "Stop"}')
    Session(rally, {A: Script([Ping("1"), Ping("2")]), B: Agent(model, memory=LastOne())}).run()
    assert [envelope.message for envelope in model.requests[1].history] == [Ping("2")]


def test_replies_begin_anew_for_every_player_and_skip_what_was_recalled() -> None:
    model = replies([Pong("1"), Pong("2")])
    assert author(model) == author(model) == Pong("1")
    player = Agent(model).bind(Seat("r", B, request_reply))
    player.recall(Envelope(B, A, Pong("1")))
    assert jumping(player.author(OFFER)) == Pong("2")  # type: ignore[arg-type]


def test_replies_that_ran_out_are_a_model_error() -> None:
    with pytest.raises(ModelError, match=r"no line left \(B\): all 0"):
        author(replies([]))


def test_replies_may_be_a_function_of_the_offer_sync_or_async() -> None:
    async def later(offer: Offer) -> Message:
        return Pong(f"later to {offer.receiver}")

    assert author(replies(lambda offer: Pong(str(offer.role)))) == Pong("B")
    assert author(replies(later)) == Pong("later to A")


def test_a_reply_that_is_no_message_is_refused_when_it_is_given() -> None:
    with pytest.raises(TypeError, match="a reply is a message"):
        replies(["Pong"])  # type: ignore[list-item]
