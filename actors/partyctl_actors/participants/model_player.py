"""A role played by a language model."""

from __future__ import annotations

from partyctl_actors.errors import ContentError, SelectionError
from partyctl_actors.participants import models
from partyctl_actors.participants.answers import given_up, read
from partyctl_actors.participants.interface import BasePlayer, Meter, Offer, Seat
from partyctl_actors.participants.models import Answer, Correction, LanguageModel, Memory, ModelRequest
from partyctl_actors.protocol.message import Message
from partyctl_actors.transcript import Envelope, Log


class ModelPlayer(BasePlayer):
    """Puts what the role heard and what is on offer to a model, and has unusable answers corrected.

    Args:
        model: the model; `fresh()` is taken if it has it.
        instructions: the agent's instructions.
        repair: how many more times it is asked after an answer that could not be used.
        memory: what the model is shown of the past; None for everything.
        seat: the role it plays.
    """

    def __init__(self, model: LanguageModel, instructions: str, repair: int, memory: Memory | None, seat: Seat) -> None:
        self._model = models.fresh(model)
        self._instructions = instructions
        self._repair = repair
        self._memory = memory
        self._meter: Meter = seat.meter
        self._watch = seat.watch
        self._history = Log(seat.protocol.messages)

    def hear(self, envelope: Envelope) -> None:
        self._history.add(envelope)

    def recall(self, envelope: Envelope) -> None:
        self._history.add(envelope)
        models.skip(self._model)

    async def author(self, offer: Offer) -> Message:
        past = self._history.snapshot()
        history = past if self._memory is None else self._memory.keep(past)
        corrections: tuple[Correction, ...] = ()
        while True:
            request = ModelRequest(self._instructions, history, offer, corrections, self._watch)
            answer = await models.complete(self._model, request)
            self._meter.add(answer.tokens)
            try:
                message = self._read(answer, offer)
            except (ContentError, SelectionError) as error:
                if len(corrections) == self._repair:
                    given_up(error, len(corrections) + 1)
                    raise
                assert isinstance(answer.content, str)
                corrections += (Correction(answer.content, str(error)),)
                continue
            self._history.add(Envelope(offer.role, offer.receiver, message))
            return message

    async def close(self) -> None:
        await models.close(self._model)

    def _read(self, answer: Answer, offer: Offer) -> Message:
        # A message that is not on offer is a mistake in a program, which asking again does not cure; the role actor
        # refuses it.
        return answer.content if isinstance(answer.content, Message) else read(answer.content, offer)
