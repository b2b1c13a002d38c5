"""A role played by a provider: what the role hears becomes a prompt, the answer becomes a message.

A provider that takes output schemas is given one for the whole run; any other finds the schema of what may be said in
each prompt. The answer is one JSON object. A role of a run has one agent session. What its conversation has heard is
not told again; a fresh one is told everything.

Where the run's record is durable, so is the agent session: a run that goes on elsewhere continues its conversation, an
answer that was given and not recorded in the run is not asked for again, and a turn that is under way in a worker whose
node died is waited for; see `begin_hired`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from partyctl_actors.errors import ContentError, SelectionError, SessionError
from partyctl_actors.participants import answers
from partyctl_actors.participants.interface import Offer, Seat
from partyctl_actors.participants.past_turns import Past, TurnNames, message_of, past_of
from partyctl_actors.participants.prompts import again, form, told
from partyctl_actors.participants.schemas import output_schema, sendable
from partyctl_actors.participants.sessions import HiredParts, LoopGrounds, begin_hired, hired_plan
from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.projection import project
from partyctl_actors.protocol.role import Role
from partyctl_actors.supervision import Supervisor, TakenUp, WorkerPlan, WorkerStarted
from partyctl_actors.supervision.agent_session import AgentSession
from partyctl_actors.supervision.hired import HiredEngine
from partyctl_actors.supervision.off_loop import off_loop
from partyctl_actors.supervision.spending import Used
from partyctl_actors.supervision.turn_log import Recovered, SqliteTurnLog
from partyctl_actors.transcript import Envelope
from partyctl_base.errors import PartyError
from partyctl_base.ids import RandomIds
from partyctl_plugins.contract import (
    AgentEvent,
    FailureKind,
    OutputSchema,
    SessionResumeError,
    Turn,
    TurnFailedError,
    TurnRequest,
    TurnResult,
    TurnTicket,
)

if TYPE_CHECKING:
    from partyctl_actors.participants.agent import Agent

T = TypeVar("T")

TURN_LIMIT = 4 * 3600.0
"""Seconds one turn of an agent may take at the most; a step's `within=` is the limit that a protocol sets."""

TURN_END = 1.5
"""Seconds a turn may take to end when its role is over; then its worker is ended."""


class _Watcher:
    """Hands a provider's events to the run."""

    def __init__(self, watch: Callable[[object], None]) -> None:
        self._watch = watch

    def on_event(self, event: AgentEvent) -> None:
        self._watch(event)


def _on_loop(call: Callable[[T], None]) -> Callable[[T], None]:
    """`call` for any thread: what an agent session tells there comes to the run on its loop, in order."""
    loop = asyncio.get_running_loop()

    def tell(told: T) -> None:
        loop.call_soon_threadsafe(call, told)

    return tell


class ProviderPlayer:
    """Plays one role of one run with one agent session. The worker is hired at the role's first turn.

    Args:
        agent: provider, instructions and settings.
        seat: which role of which run, and where workers come from.

    Raises:
        ProviderNotFound, ProviderConflict: the provider's name is nobody's, or several packages'.
        ConfinementRefused: the confinement asked for cannot be enforced here.
    """

    def __init__(self, agent: Agent, seat: Seat) -> None:
        self._agent = agent
        self._seat = seat
        self._plan = _worker_plan(agent, seat)
        self._past: list[Envelope] = []
        self._heard: list[Envelope] = []
        self._engine: HiredEngine | None = None
        self._schema: OutputSchema | None = None
        self._opening: asyncio.Task[AgentSession] | None = None
        self._turning: asyncio.Task[Turn] | None = None
        self._names = TurnNames(agent.ids or RandomIds())
        self._log: SqliteTurnLog | None = None
        self._past_turns = Past(is_known=True)
        self._found: Recovered | None = None

    @property
    def role(self) -> Role:
        """Which role it plays."""
        return self._seat.role

    @property
    def supervisor(self) -> Supervisor | None:
        """The supervisor of the worker that the role has now, None before its first turn."""
        return None if self._engine is None else self._engine.supervisor

    async def author(self, offer: Offer) -> Message:
        """Ask the agent for the role's next message; one it cannot form right is asked for again, `repair` times."""
        session = await asyncio.shield(self._opened())
        if self._found is not None:
            self._past_turns, self._found = past_of(self._found, self._names.said), None
            self._count(self._past_turns.used)
        message, correction = await self._answered(session, offer)
        if message is not None:
            return self._say(offer, message)
        for attempt in range(self._agent.repair + 1):
            is_last = attempt == self._agent.repair
            try:
                return self._say(offer, await self._attempt(session, offer, correction))
            except (ContentError, SelectionError) as error:
                if is_last:
                    answers.given_up(error, attempt + 1)
                    raise
                why = str(error)
            except TurnFailedError as error:
                # The provider itself got no answer by the schema out of its model.
                if is_last or error.kind is not FailureKind.SCHEMA:
                    raise
                why = str(error)
            correction = again(why, offer, by_schema=self._schema is not None)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def take_up(self) -> None:
        """Attach to the worker that the role's session still has, before it is the role's turn; it would not wait."""
        self._opened()

    def hear(self, envelope: Envelope) -> None:
        """Keep what was said to the role for the next prompt."""
        self._heard.append(envelope)

    def recall(self, envelope: Envelope) -> None:
        """Keep what the role said in an earlier life of the run; a fresh conversation does not know it."""
        self._past += [*self._heard, envelope]
        self._heard.clear()
        self._names.said += 1

    async def cancel(self, reason: str) -> None:
        """End the running turn."""
        if self._opening is not None and self._opening.done() and not self._opening.exception():
            self._opening.result().interrupt()

    async def close(self) -> None:
        """Close the conversation and end the worker. What goes on ends within the limits of the supervisor."""
        if self._opening is None:
            return
        await asyncio.wait((self._opening,))
        log = self._log
        try:
            if not self._opening.exception():
                await self._let_go(self._opening.result())
            if self._turning is not None:
                await asyncio.wait((self._turning,))
        finally:
            if log is not None:
                await asyncio.shield(off_loop(lambda _: log.close()))

    async def _let_go(self, session: AgentSession) -> None:
        engine = self._engine
        if self._log is None or engine is None:
            await session.aclose()
            return
        # A session that is closed is closed for good. This one lets its worker go, for the run may go on elsewhere.
        session.interrupt()
        if self._turning is not None:
            await asyncio.wait((self._turning,), timeout=TURN_END)
        try:
            await session.arelease()
        finally:
            await asyncio.shield(off_loop(lambda _: engine.close()))

    def _opened(self) -> asyncio.Task[AgentSession]:
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open())
        return self._opening

    async def _open(self) -> AgentSession:
        if self._seat.workers is None:
            raise SessionError("There is no source of workers", where=str(self._seat.role), fix="Use partyctl.Session")
        seat, grounds, open_log = self._seat, LoopGrounds(self._seat.workers), self._seat.log
        if open_log is not None:
            self._log = log = await off_loop(lambda _: open_log(seat.run_id, seat.role.name))
            self._found = await off_loop(lambda _: log.recover())
        is_going_on = self._found is not None and self._found.state is not None
        parts = HiredParts(
            grounds, self._log, handlers=(_Watcher(seat.watch), *self._agent.event_handlers),
            on_decided=_on_loop(seat.watch), on_used=_on_loop(self._count), on_hired=self._started, ids=self._names,
        )  # fmt: skip
        session, engine = await off_loop(lambda _: begin_hired(self._agent, self._plan, parts))
        self._engine = engine
        try:
            self._schema = output_schema(sendable(seat.protocol, project(seat.protocol, seat.role)), engine.profile)
            if is_going_on:
                turn = await off_loop(lambda _: session.unfinished)
                seat.watch(TakenUp(seat.role.name, engine.found, None if turn is None else turn.turn_id))
        except BaseException:
            await asyncio.shield(off_loop(lambda _: engine.close()))
            raise
        return session

    def _started(self, pid: int, confinement: str) -> None:
        self._seat.watch(WorkerStarted(self._seat.role.name, self._plan.provider.name, pid, confinement))

    async def _answered(self, session: AgentSession, offer: Offer) -> tuple[Message | None, str]:
        """What was answered for this message in an earlier life of the run, or why that cannot be used."""
        result, self._past_turns = self._past_turns.answer, replace(self._past_turns, answer=None)
        unfinished = await off_loop(lambda _: session.unfinished) if self._log is not None else None
        if unfinished is not None:
            is_due = self._past_turns.is_known and message_of(unfinished.turn_id) == self._names.said
            try:
                result = await self._finished(session, unfinished, is_due=is_due)
            except TurnFailedError as error:
                if error.kind is not FailureKind.SCHEMA:
                    raise
                return None, again(str(error), offer, by_schema=self._schema is not None)
        if result is None:
            return None, ""
        try:
            return answers.read(result.text, offer, result.structured_output), ""
        except (ContentError, SelectionError) as error:
            return None, again(str(error), offer, by_schema=self._schema is not None)

    async def _finished(self, session: AgentSession, ticket: TurnTicket, *, is_due: bool) -> TurnResult | None:
        """What a turn comes to that had begun in an earlier life; one that is not due any more is ended."""
        if not is_due:
            session.interrupt(ticket)
        try:
            result = await self._turn(session, ticket)
        except PartyError:
            if is_due:
                raise
            return None
        return result if is_due and not result.interrupted else None

    def _say(self, offer: Offer, message: Message) -> Message:
        self._past += [*self._heard, Envelope(self._seat.role, offer.receiver, message)]
        self._heard.clear()
        self._names.said += 1
        self._past_turns = Past(is_known=True)
        return message

    async def _attempt(self, session: AgentSession, offer: Offer, correction: str) -> Message:
        result = await self._ask(session, offer, correction)
        return answers.read(result.text, offer, result.structured_output)

    async def _ask(self, session: AgentSession, offer: Offer, correction: str) -> TurnResult:
        if session.conversation_id is not None and self._past_turns.is_known:
            prompt = correction or self._prompt(offer, fresh=False)
            try:
                # A fresh conversation would know nothing of what this prompt leaves out.
                return await self._run(session, prompt, pin=True)
            except SessionResumeError:
                pass
        prompt = self._prompt(offer, fresh=True)
        return await self._run(session, f"{prompt}\n\n{correction}" if correction else prompt, pin=False)

    async def _run(self, session: AgentSession, prompt: str, *, pin: bool) -> TurnResult:
        request = TurnRequest(prompt, timeout=TURN_LIMIT, output_schema=self._schema)
        return await self._turn(session, await off_loop(lambda _: session.prepare_turn(request, pin=pin)))

    async def _turn(self, session: AgentSession, ticket: TurnTicket) -> TurnResult:
        self._turning = turning = asyncio.get_running_loop().create_task(session.arun(ticket))
        try:
            turn = await asyncio.shield(turning)
        except asyncio.CancelledError:
            # The step's time is over now, however long the provider takes to notice; `close` waits for it.
            session.interrupt(ticket)
            turning.add_done_callback(lambda late: late.cancelled() or late.exception())
            raise
        return turn.result

    def _prompt(self, offer: Offer, *, fresh: bool) -> str:
        parts = []
        if fresh:
            others = ", ".join(role.name for role in self._seat.protocol.roles if role != self._seat.role)
            parts.append(f"You are {self._seat.role.name}, in a conversation with {others}.")
            if self._agent.instructions:
                parts.append(self._agent.instructions)
            if self._past:
                parts.append("Said before:\n" + told(self._past))
        if self._heard:
            parts.append("New messages:\n" + told(self._heard))
        parts.append(form(offer, by_schema=self._schema is not None))
        return "\n\n".join(parts)

    def _count(self, used: Used) -> None:
        self._seat.meter.add(used.tokens)


def _worker_plan(agent: Agent, seat: Seat) -> WorkerPlan:
    if agent.provider is None:
        raise SessionError(
            "A Transport object cannot play a role",
            where=str(seat.role),
            why="a role's provider runs in a worker process of its own, which loads it by its name",
            fix="Name an installed provider",
        )
    return hired_plan(agent, {"role": seat.role.name, "run": seat.run_id})
