"""Language models, as an `Agent` asks them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from partyctl_actors.participants.interface import Offer
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
    """

    instructions: str
    history: Sequence[Envelope]
    offer: Offer
    corrections: tuple[Correction, ...] = ()


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
    """Answers questions. One that uses something up as it answers also has `fresh() -> LanguageModel`, called once for
    each role of each run."""

    async def complete(self, request: ModelRequest) -> Answer:
        """Answer one question."""
        ...


class Memory(Protocol):
    """What an agent's model is shown of the past."""

    def keep(self, history: Transcript) -> Sequence[Envelope]:
        """The part of `history` to show; called before each question."""
        ...
