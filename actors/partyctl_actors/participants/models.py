"""Language models, as an `Agent` asks them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from partyctl_actors.errors import ModelError
from partyctl_actors.participants.function import is_async, run_function
from partyctl_actors.participants.interface import Offer, unwatched
from partyctl_actors.protocol.message import Message
from partyctl_actors.transcript import Envelope, Transcript


@dataclass(frozen=True, slots=True)
class Correction:
    """An answer that could not be used, and why."""

    answer: str
    why: str


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One question to a model. It holds everything: a model need not remember anything.

    Attributes:
        instructions: how the agent was told to behave.
        history: what the role heard and said, as far as its memory keeps it.
        offer: what the role may say now.
        corrections: answers to this same question that could not be used.
        watch: told, on the event loop, what is worth knowing about how it is answered; the run's tracer hears it.
    """

    instructions: str
    history: Sequence[Envelope]
    offer: Offer
    corrections: tuple[Correction, ...] = ()
    watch: Callable[[object], None] = field(default=unwatched, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model answers.

    Attributes:
        content: text that holds `{"label": ..., "payload": {...}}`, or the message itself.
        tokens: what it cost, input and output together.
    """

    content: str | Message
    tokens: int = 0


@runtime_checkable
class LanguageModel(Protocol):
    """Answers questions.

    An `async def complete` is awaited on the event loop and must not block it; a plain `def` runs in a thread of its
    own, so that one that hangs holds up neither a deadline nor the end of the run.

    A model may also have, all of them optional:

    fresh() -> LanguageModel    called once for each role of each run; for what is used up by answering
    skip()                      the role said something in an earlier life of the run, and the model is not asked for it
    close()                     the role is over; may be an `async def`
    check(protocol, role)       raises ConformanceError if it cannot play the role; called when a session is made
    """

    def complete(self, request: ModelRequest) -> Answer | Awaitable[Answer]:
        """Answer one question.

        Raises:
            ModelUnavailable: it cannot now, and later it may.
            ModelRefused: it will not.
        """
        ...


class Memory(Protocol):
    """What an agent's model is shown of the past."""

    def keep(self, history: Transcript) -> Sequence[Envelope]:
        """The part of `history` to show; called before each question."""
        ...


async def complete(model: LanguageModel, request: ModelRequest) -> Answer:
    """The answer of a model, wherever it has to run.

    Raises:
        ModelError: it gave something else than an `Answer`, or what it raised itself.
    """
    name = f"partyctl model of {request.offer.role}"
    answer = await run_function(name, is_async(model.complete), lambda: model.complete(request))
    if not isinstance(answer, Answer):
        raise ModelError("A model answers with Answer(...)", where=str(request.offer.role), why=f"got {answer!r:.100}")
    return answer


def fresh(model: LanguageModel) -> LanguageModel:
    """The model as one role of one run uses it."""
    make = getattr(model, "fresh", None)
    made: LanguageModel = model if make is None else make()
    return made


def skip(model: LanguageModel) -> None:
    """Tell a model that it is not asked for what was said in an earlier life of the run."""
    pass_over = getattr(model, "skip", None)
    if pass_over is not None:
        pass_over()


async def close(model: LanguageModel) -> None:
    """Let go of what a fresh model holds."""
    end = getattr(model, "close", None)
    if end is not None:
        await run_function("partyctl model", is_async(end), end)
