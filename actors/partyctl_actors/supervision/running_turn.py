"""A turn of an agent session while a thread carries it out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from partyctl_actors.supervision.engine import Connection
from partyctl_actors.supervision.policy_commands import Command
from partyctl_base.clock import StopSignal
from partyctl_plugins.contract import AgentEvent, TurnRequest, TurnResult, TurnTicket, TurnTimeoutError

Tell: TypeAlias = Callable[[AgentEvent], None]


def attempt_name(turn_id: str, serial: int) -> str:
    """What a worker knows an attempt by: the outcome of the one before must not be taken for its own."""
    return f"{turn_id}.{serial}"


class RunningTurn:
    """The turn that is carried out by a thread now.

    Args:
        ticket: its reservation.
        deadline: when it must be over, on the session's clock; None for never. seconds: the same as it was given.
        tell: hands an event to the handlers, on the thread that they belong to.
    """

    def __init__(self, ticket: TurnTicket, deadline: float | None, seconds: float | None, tell: Tell) -> None:
        self.ticket = ticket
        self.deadline = deadline
        self.seconds = seconds
        self.tell = tell
        self.stop = StopSignal()
        self.result: TurnResult | None = None
        self.error: Exception | None = None
        self.loss = ""
        self.told_instead: list[Command] | None = None
        self.asked: tuple[Connection, str] | None = None

    def acknowledge(self) -> None:
        """What came of its last attempt is durable."""
        asked, self.asked = self.asked, None
        if asked is not None:
            connection, attempt = asked
            connection.acknowledge(attempt)

    def left(self, now: float) -> float | None:
        """Seconds until its deadline, None without one."""
        return None if self.deadline is None else self.deadline - now

    def late(self) -> TurnTimeoutError:
        """What it raises once its deadline has passed, or would pass in the next wait."""
        error = TurnTimeoutError(self.seconds or 0.0, where=self.ticket.turn_id, why="its deadline covers all retries")
        error.__cause__ = self.error
        return error

    def request(self, left: float | None) -> TurnRequest:
        """Its request, limited to what is left of its deadline."""
        request = self.ticket.request
        if left is None or (request.timeout is not None and request.timeout <= left):
            return request
        return replace(request, timeout=left)
