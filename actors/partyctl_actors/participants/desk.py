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

    Questions wait in the order in which they were asked; an answer goes to the oldest one that offers its class. When
    more than one run asks for it, the answer has to say which it is for.
    """

    def __init__(self) -> None:
        self._questions: list[_Question] = []

    @property
    def offered(self) -> tuple[type[Message], ...]:
        """The classes that can be submitted now, each once, oldest question first; empty when nothing is asked."""
        return tuple(dict.fromkeys(kind for question in self._questions for kind in question.offer.messages))

    @property
    def runs(self) -> tuple[str, ...]:
        """The ids of the runs that wait for an answer, oldest question first."""
        return tuple(dict.fromkeys(question.run_id for question in self._questions))

    def waiting(self, run: str | None = None) -> tuple[Offer, ...]:
        """What is asked now, oldest first; `run` is the id of the only run of interest."""
        return tuple(question.offer for question in self._asked(run))

    async def submit(self, message: Message, *, run: str | None = None) -> None:
        """Answer the oldest question that offers this message.

        Args:
            run: the id of the run whose question is meant; omitted, the only one that asks for such a message.

        Raises:
            SessionError: nothing is asked, or it was answered already.
            SelectionError: this message is not on offer, or several runs ask for it; the questions stay.
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
        fitting = [question for question in asked if type(message) in question.offer.messages]
        if not fitting:
            offered = dict.fromkeys(kind.label for q in asked for kind in q.offer.messages)
            raise SelectionError(
                f"{type(message).__name__} is not on offer at this desk",
                where=where,
                fix=f"Submit {' or '.join(offered)}",
            )
        question = fitting[0]
        runs = dict.fromkeys(question.run_id for question in fitting)
        if len(runs) > 1:
            # The oldest would do, but a second answer to it would then go to another run.
            raise SelectionError(
                f"Several runs ask for {type(message).__name__} at this desk",
                why=f"it is not said whether it is for {' or '.join(runs)}",
                fix="Submit it with run=",
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
