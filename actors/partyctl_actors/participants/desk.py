"""A desk: where the program that embeds a run answers for a person."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from partyctl_actors.errors import SelectionError, SessionError
from partyctl_actors.participants.interface import Offer
from partyctl_actors.protocol.message import Message


@dataclass(frozen=True, slots=True, eq=False)
class _Question:
    run_id: str
    offer: Offer
    answer: asyncio.Future[Message]


class Desk:
    """Holds what people are asked until it is answered. One desk may serve many roles and runs at once.

    Questions wait in the order in which they were asked; an answer goes to the oldest one that offers its class.
    """

    def __init__(self) -> None:
        self._questions: list[_Question] = []

    @property
    def offered(self) -> tuple[type[Message], ...]:
        """The classes that can be submitted now, each once, oldest question first; empty when nothing is asked."""
        return tuple(dict.fromkeys(kind for question in self._questions for kind in question.offer.messages))

    def waiting(self, run: str | None = None) -> tuple[Offer, ...]:
        """What is asked now, oldest first; `run` is the id of the only run of interest."""
        return tuple(question.offer for question in self._asked(run))

    async def submit(self, message: Message, *, run: str | None = None) -> None:
        """Answer the oldest question that offers this message.

        Args:
            run: the id of the run whose question is meant; omitted, any.

        Raises:
            SessionError: nothing is asked, or it was answered already.
            SelectionError: this message is not on offer; the question stays.
        """
        asked = self._asked(run)
        where = f"run {run}" if run is not None else ""
        if not asked:
            raise SessionError(
                "Nothing is asked at this desk",
                where=where,
                why="no role is waiting for an answer, or it was answered already",
                fix="Submit when `offered` is not empty",
            )
        question = next((q for q in asked if type(message) in q.offer.messages), None)
        if question is None:
            offered = dict.fromkeys(kind.label for q in asked for kind in q.offer.messages)
            raise SelectionError(
                f"{type(message).__name__} is not on offer at this desk",
                where=where,
                fix=f"Submit {' or '.join(offered)}",
            )
        # Taken away here and not when the run wakes, so that a second answer cannot go to the same question.
        self._questions.remove(question)
        loop = question.answer.get_loop()
        if loop is asyncio.get_running_loop():
            _settle(question.answer, message)
        else:
            loop.call_soon_threadsafe(_settle, question.answer, message)

    async def choose(self, run_id: str, offer: Offer) -> Message:
        """Ask, and wait for the answer. See `HumanIo.choose`."""
        question = _Question(run_id, offer, asyncio.get_running_loop().create_future())
        self._questions.append(question)
        try:
            return await question.answer
        finally:
            if question in self._questions:
                self._questions.remove(question)

    def _asked(self, run: str | None) -> list[_Question]:
        return [question for question in self._questions if run in (None, question.run_id)]


def _settle(answer: asyncio.Future[Message], message: Message) -> None:
    if not answer.done():
        answer.set_result(message)
