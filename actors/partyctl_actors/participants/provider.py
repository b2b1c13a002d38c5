"""A role played by a provider: what the role hears becomes a prompt, the answer becomes a message.

The schema of what may be said stands in the prompt, and the answer is one JSON object, so that any provider can play.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from partyctl_actors.errors import ContentError, SelectionError, SessionError
from partyctl_actors.participants import answers
from partyctl_actors.participants.interface import Offer, Seat
from partyctl_actors.participants.prompts import again, form, told
from partyctl_actors.participants.sessions import worker_plan
from partyctl_actors.protocol.message import Message
from partyctl_actors.supervision import Supervisor, WorkerPlan, WorkerStarted
from partyctl_actors.transcript import Envelope
from partyctl_base.ids import RandomIds
from partyctl_plugins.contract import ConversationSpec, TurnRequest, TurnResult

if TYPE_CHECKING:
    from partyctl_actors.participants.agent import Agent

TURN_LIMIT = 4 * 3600.0
"""Seconds one turn of an agent may take at the most; a step's `within=` is the limit that a protocol sets."""


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
        self._heard: list[Envelope] = []
        self._said: list[Envelope] = []
        self._supervisor: Supervisor | None = None
        self._begun = False
        self._ids = agent.ids or RandomIds()

    @property
    def supervisor(self) -> Supervisor | None:
        """The supervisor of the role's agent session, None before its first turn."""
        return self._supervisor

    async def author(self, offer: Offer) -> Message:
        """Ask the agent for the role's next message; one it cannot form right is asked for again, `repair` times."""
        if self._supervisor is None:
            self._supervisor = await self._hire()
        prompt = self._prompt(offer)
        for attempt in range(self._agent.repair + 1):
            request = TurnRequest(prompt, timeout=TURN_LIMIT)
            result = await self._supervisor.turn(self._ids.new_id("turn"), request)
            try:
                message = answers.read(result.text, offer)
            except (ContentError, SelectionError) as error:
                if attempt == self._agent.repair:
                    raise
                prompt = again(str(error), offer)
            else:
                self._heard.clear()
                return message
            finally:
                self._count(result)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def hear(self, envelope: Envelope) -> None:
        """Keep what was said to the role for the next prompt."""
        self._heard.append(envelope)

    def recall(self, envelope: Envelope) -> None:
        """Keep what the role said in an earlier life of the run; a fresh conversation does not know it."""
        self._said.append(envelope)

    async def cancel(self, reason: str) -> None:
        """End the running turn."""
        if self._supervisor is not None:
            await self._supervisor.interrupt()

    async def close(self) -> None:
        """Close the conversation and end the worker."""
        if self._supervisor is not None:
            await self._supervisor.close()

    async def _hire(self) -> Supervisor:
        if self._seat.workers is None:
            raise SessionError("There is no source of workers", where=str(self._seat.role), fix="Use partyctl.Session")
        supervisor = Supervisor(await self._seat.workers.client(), self._plan, self._seat.watch)
        try:
            await supervisor.open(self._started)
        except BaseException:
            await asyncio.shield(supervisor.close())
            raise
        return supervisor

    def _started(self, pid: int, confinement: str) -> None:
        self._seat.watch(WorkerStarted(self._seat.role.name, self._plan.provider.name, pid, confinement))

    def _prompt(self, offer: Offer) -> str:
        parts = []
        if not self._begun:
            self._begun = True
            others = ", ".join(role.name for role in self._seat.protocol.roles if role != self._seat.role)
            parts.append(f"You are {self._seat.role.name}, in a conversation with {others}.")
            if self._agent.instructions:
                parts.append(self._agent.instructions)
            if self._said:
                parts.append("Said before:\n" + told(self._said))
        if self._heard:
            parts.append("New messages:\n" + told(self._heard))
        parts.append(form(offer))
        return "\n\n".join(parts)

    def _count(self, result: TurnResult) -> None:
        tokens = result.usage.tokens.input_tokens + result.usage.tokens.output_tokens
        self._seat.meter.add(tokens)


def _worker_plan(agent: Agent, seat: Seat) -> WorkerPlan:
    if agent.provider is None:
        raise SessionError(
            "A Transport object cannot play a role",
            where=str(seat.role),
            why="a role's provider runs in a worker process of its own, which loads it by its name",
            fix="Name an installed provider",
        )
    assert agent.permissions is not None
    assert agent.approvals is not None
    cwd = os.path.abspath(agent.cwd or os.getcwd())
    spec = ConversationSpec(cwd, agent.permissions, agent.approvals, model=agent.model)
    return worker_plan(agent, spec, {"role": seat.role.name, "run": seat.run_id})
