"""The player of a role whose participant is elsewhere. To its own role actor it is a player like any other; to the role
actor that plays the role elsewhere it is the conductor of the run, as far as that role can see.

Rules

1. The deputy keeps all that the role heard and said in this run, and the question that it is asked now.
2. It invites the process that serves the role, and again whenever that is gone or was not there. Whoever joins is told
   everything from the beginning, and then the question. So what was decided is never asked again, and a question whose
   answer was under way when the process died is asked once more.
3. An answer counts if it answers the question that is asked now; its fields and label are checked here, then by the
   role actor here, then by the conductor.
4. A question that nobody is there to answer for `patience` seconds fails the role, whether the role or the broker is
   away; counted from the question, or from when it was known that who had joined is gone. A link that is refused fails
   it at once.
5. When the run ends the role is told so, and not waited for; when it is stopped the role is told and has to confirm.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from partyctl_actors.errors import ContentError, ProtocolMismatch, SelectionError, SessionError
from partyctl_actors.participants.interface import BasePlayer, Offer, Seat
from partyctl_actors.payloads import pack, unpack
from partyctl_actors.protocol.definition import definition
from partyctl_actors.protocol.message import Message
from partyctl_actors.remote.invitation import INVITING, Invitation
from partyctl_actors.runs import messages
from partyctl_actors.runs.addresses import deputy_address
from partyctl_actors.runs.verdict import reported
from partyctl_actors.transcript import Envelope
from partyctl_base.errors import PartyError
from partyctl_broker.errors import (
    AddressForbidden,
    BusClosed,
    BusError,
    BusFull,
    EndpointError,
    HelloRefused,
    LetterRefused,
)
from partyctl_broker.port import Bus, Letter, Mailbox

RETRY_FIRST: Final = 0.05
RETRY_LAST: Final = 1.0
"""Seconds between two invitations to somebody who is not there, at first and at most."""

Connect: TypeAlias = Callable[[], AbstractAsyncContextManager[Bus]]

_FOR_GOOD = (AddressForbidden, EndpointError, HelloRefused, LetterRefused)


@dataclass(slots=True)
class _Question:
    turn: int
    offer: Offer
    answer: asyncio.Future[Message]
    since: float
    is_told: bool = False


class Deputy(BasePlayer):
    """Plays a role by having it played elsewhere.

    Args:
        seat: the role and the run.
        peer: the address of the process that serves the role.
        connect: gives the bus for as long as its context lasts; called again when the bus was lost.
        patience: seconds the role may be away while it is asked something.
    """

    def __init__(self, seat: Seat, peer: str, connect: Connect, patience: float) -> None:
        self._seat = seat
        self._peer = peer
        self._connect = connect
        self._lost = ""
        self._patience = patience
        self._history: list[messages.Deliver | messages.Recalled] = []
        self._told = 0
        self._question: _Question | None = None
        self._joined = False
        self._failure: Exception | None = None
        self._why = "the broker has not answered yet"
        self._away_since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._mailbox: Mailbox | None = None
        self._invited = 0
        self._stopped: asyncio.Event | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._is_leaving = self._is_over = False

    # --- what the role actor here tells ---

    def hear(self, envelope: Envelope) -> None:
        """See `Player.hear`."""
        message = envelope.message
        payload = pack(message.to_wire())
        self._remember(messages.Deliver(self._next, envelope.sender.name, message.label, payload, False, None))
        if self._failure is not None:
            raise self._failure
        # Not told at once: if the role is asked next, the question rides along.
        asyncio.get_running_loop().call_soon(self._tell)

    def recall(self, envelope: Envelope) -> None:
        """See `Player.recall`."""
        message = envelope.message
        receiver = envelope.receiver.name
        self._remember(messages.Recalled(self._next, receiver, message.label, pack(message.to_wire())))
        self._tell()

    def author(self, offer: Offer) -> Awaitable[Message]:
        """See `Player.author`."""
        loop = asyncio.get_running_loop()
        question = self._question = _Question(self._next, offer, loop.create_future(), loop.time())
        if self._failure is not None:
            question.answer.set_exception(self._failure)
        else:
            self._keep()
            self._tell()
            self._be_patient()
        return question.answer

    async def cancel(self, reason: str) -> None:
        """See `Player.cancel`."""
        if self._joined and self._mailbox is not None:
            self._stopped = asyncio.Event()
            # One that cannot even be told this hears that the run is gone.
            with contextlib.suppress(BusError):
                self._mailbox.send(self._peer, messages.encode(messages.Cancel(reason)))
                await self._stopped.wait()
        self._joined = False

    async def close(self) -> None:
        """See `Player.close`."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        keeper = self._keeper
        if self._joined and self._mailbox is not None:
            self._tell()
            # One that cannot even be told this hears that the run is gone.
            with contextlib.suppress(BusError):
                self._mailbox.send(self._peer, messages.encode(messages.End()))
        if keeper is not None:
            # One that is leaving the bus must not be interrupted in it.
            if not self._is_leaving:
                keeper.cancel()
            await asyncio.wait({keeper})

    # --- keeping somebody there ---

    @property
    def _next(self) -> int:
        return len(self._history) + 1

    def _remember(self, message: messages.Deliver | messages.Recalled) -> None:
        self._history.append(message)
        self._keep()

    def _keep(self) -> None:
        if self._keeper is None and self._failure is None and not self._is_over:
            name = f"deputy of {self._seat.role} in run {self._seat.run_id}"
            self._keeper = asyncio.get_running_loop().create_task(self._stay(), name=name)

    async def _stay(self) -> None:
        """Hold a mailbox, and in it a role that has joined, until cancelled or the role has failed."""
        wait = RETRY_FIRST
        while self._failure is None and not self._is_over:
            self._is_leaving = False
            try:
                async with self._connect() as bus:
                    self._lost = ""
                    self._mailbox = await bus.open(deputy_address(self._seat.run_id, self._seat.role), self)
                    self._why = "it was invited and has not joined yet"
                    wait = RETRY_FIRST
                    try:
                        await self._invite_and_tell(self._mailbox)
                    finally:
                        self._is_leaving = True
                        self._mailbox.close()
                        self._mailbox = None
            except _FOR_GOOD as error:
                self._fail(error)
            except BusError as error:
                self._absent(str(error))
                self._is_leaving = False
                await asyncio.sleep(wait)
                wait = min(2 * wait, RETRY_LAST)

    async def _invite_and_tell(self, mailbox: Mailbox) -> None:
        wait = RETRY_FIRST
        seat = self._seat
        invitation = Invitation(seat.run_id, seat.role.name, seat.protocol.id, definition(seat.protocol)).encode()
        while self._failure is None:
            if self._lost:
                raise BusClosed("the bus is gone", where=mailbox.address, why=self._lost)
            self._news.clear()
            if self._joined:
                wait = RETRY_FIRST
                await mailbox.room(self._peer)
                self._tell()
                await self._news.wait()
            elif not self._invited:
                self._invited = mailbox.send(self._peer, invitation, INVITING)
            else:
                await self._hear_news()
                if not self._invited:
                    await asyncio.sleep(wait)
                    wait = min(2 * wait, RETRY_LAST)

    async def _hear_news(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(RETRY_LAST, self._patience)):
                await self._news.wait()

    def _tell(self) -> None:
        """Tell the role what it does not know yet, as far as there is room; the rest follows when there is."""
        if not self._joined or self._mailbox is None:
            return
        question = self._question if self._question is not None and not self._question.is_told else None
        try:
            while self._told < len(self._history):
                message = self._history[self._told]
                last = self._told + 1 == len(self._history)
                if last and question is not None and isinstance(message, messages.Deliver):
                    message = replace(message, granted=True)
                self._mailbox.send(self._peer, messages.encode(message))
                self._told += 1
                if isinstance(message, messages.Deliver) and message.granted and question is not None:
                    question.is_told = True
            if question is not None and not question.is_told:
                self._mailbox.send(self._peer, messages.encode(messages.Grant(question.turn, None)))
                question.is_told = True
        except BusFull:
            self._news.set()
        except _FOR_GOOD as error:
            self._fail(error)
        except BusError as error:
            self._absent(str(error))

    # --- what the bus tells ---

    def letter(self, letter: Letter) -> None:
        """See `Receiver`."""
        if letter.source != self._peer:
            return
        try:
            message = messages.decode(letter.payload)
            if isinstance(message, messages.Join):
                self._join(message)
            elif isinstance(message, messages.Sent):
                self._answered(message)
            elif isinstance(message, messages.Failed):
                self._fail(reported(message, self._seat.role.name, self._place()))
            elif isinstance(message, messages.Cancelled):
                if self._stopped is not None:
                    self._stopped.set()
            else:
                self._fail(self._illegal(f"it sent what only a conductor sends: {type(message).__name__}"))
        except PartyError as error:
            self._fail(error)

    def undelivered(self, letter_id: int, destination: str, why: str) -> None:
        """See `Receiver`."""
        if letter_id >= self._invited > 0:
            self._absent(why)

    def gone(self, address: str, unknown: tuple[int, ...], why: str) -> None:
        """See `Receiver`."""
        self._absent(why)
        if address != self._peer:
            # Our own: the bus is closed for good, and another has to be had.
            self._lost = why or "it was closed"

    def link_lost(self, why: str) -> None:
        """See `Receiver`. Nothing said is lost by it."""

    def _join(self, join: messages.Join) -> None:
        if join.protocol != self._seat.protocol.id:
            why = f"its protocol is {join.protocol[:80]}, the run's is {self._seat.protocol.id}"
            fix = "Start it from the same source"
            raise ProtocolMismatch(f"{self._seat.role} follows another protocol", where=self._place(), why=why, fix=fix)
        self._joined = True
        self._told = 0
        if self._question is not None:
            self._question.is_told = False
        self._tell()
        self._news.set()

    def _answered(self, sent: messages.Sent) -> None:
        question = self._question
        if question is not None and question.answer.cancelled():
            return  # Too late: its time was up.
        if question is None or question.answer.done() or sent.turn != question.turn or not question.is_told:
            raise self._illegal("it spoke without being asked")
        if sent.tokens < 0 or sent.receiver != question.offer.receiver.name:
            raise self._illegal(f"it spoke to {sent.receiver[:80]}, at a cost of {sent.tokens} tokens")
        kind = next((kind for kind in question.offer.messages if kind.label == sent.label), None)
        if kind is None:
            raise self._illegal(f"it said {sent.label[:80]}")
        try:
            message = kind.from_wire(unpack(sent.payload))
        # A message class is the user's own code: whatever its checks raise, the fields do not fit.
        except Exception as error:
            raise ContentError(
                f"{self._seat.role} sent a message whose fields do not fit", where=self._place(), why=str(error)
            ) from error
        self._seat.meter.add(sent.tokens)
        self._history.append(messages.Recalled(sent.turn, sent.receiver, sent.label, sent.payload))
        self._told += 1
        self._question = None
        question.answer.set_result(message)

    # --- what goes wrong ---

    def _absent(self, why: str) -> None:
        """Nobody plays the role now; invite again."""
        self._why = why
        if self._joined:
            self._away_since = asyncio.get_running_loop().time()
            self._joined = False
            self._be_patient()
        self._invited = 0
        if self._stopped is not None:
            self._stopped.set()
        self._news.set()

    def _be_patient(self) -> None:
        """See to it that the question does not wait too long for somebody to answer it."""
        if self._timer is not None:
            self._timer.cancel()
        if self._question is not None and not self._is_over:
            end = max(self._question.since, self._away_since) + self._patience
            self._timer = asyncio.get_running_loop().call_at(end, self._lose_patience, self._question)

    def _lose_patience(self, question: _Question) -> None:
        if question is self._question and not self._joined and not question.answer.done():
            self._fail(
                SessionError(
                    f"{self._seat.role} is not served",
                    where=self._peer,
                    why=f"nobody joined within {self._patience:g} s: {self._why}",
                    fix="Start the process that serves the role",
                )
            )

    def _fail(self, error: Exception) -> None:
        self._joined = False
        if self._failure is None:
            self._failure = error
        if self._question is not None and not self._question.answer.done():
            self._question.answer.set_exception(self._failure)
        self._news.set()

    def _illegal(self, why: str) -> SelectionError:
        offered = "" if self._question is None else ", ".join(kind.label for kind in self._question.offer.messages)
        return SelectionError(
            f"{self._seat.role} said what was not on offer",
            where=self._place(),
            why=f"{why}; on offer: {offered or 'nothing'}",
        )

    def _place(self) -> str:
        return f"run {self._seat.run_id}, at {self._peer}"
