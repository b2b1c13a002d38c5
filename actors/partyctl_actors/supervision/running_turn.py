"""A turn of an agent session while a thread carries it out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from partyctl_actors.supervision.deadlines import Deadline
from partyctl_actors.supervision.engine import Connection
from partyctl_actors.supervision.policy_commands import Command, Decided
from partyctl_actors.supervision.policy_state import TurnState
from partyctl_actors.supervision.spending import NOTHING
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
        deadline: when it must be over, on the clocks of now; None for never.
        tell: hands an event to the handlers, on the thread that they belong to.
        is_taken_over: whether another session had begun it, so that its first attempt may have been asked for.

    Attributes:
        used: what its attempts used until now.
    """

    def __init__(
        self, ticket: TurnTicket, deadline: Deadline | None, tell: Tell, *, is_taken_over: bool = False
    ) -> None:
        self.ticket = ticket
        self.deadline = deadline
        self.tell = tell
        self.is_taken_over = is_taken_over
        self.rules: tuple[str, ...] = ()
        self.used = NOTHING
        self.stop = StopSignal()
        self.result: TurnResult | None = None
        self.error: Exception | None = None
        self.loss = ""
        self.told_instead: list[Command] | None = None
        self.asked: tuple[Connection, str] | None = None

    def note(self, before: TurnState | None, commands: Sequence[Command] = ()) -> None:
        """Keep which rules were applied to it: up to the state before a step, and in that step, if it ends the turn."""
        if before is not None:
            self.rules = before.rules
        self.rules += tuple(each.rule.value for each in commands if isinstance(each, Decided))

    def acknowledge(self) -> None:
        """What came of its last attempt is durable."""
        asked, self.asked = self.asked, None
        if asked is not None:
            connection, attempt = asked
            connection.acknowledge(attempt)

    def left(self, now: float) -> float | None:
        """Seconds until its deadline, None without one."""
        return None if self.deadline is None else self.deadline.due - now

    def late(self) -> TurnTimeoutError:
        """What it raises once its deadline has passed, or would pass in the next wait."""
        seconds = 0.0 if self.deadline is None else self.deadline.seconds
        error = TurnTimeoutError(seconds, where=self.ticket.turn_id, why="its deadline covers all retries")
        error.__cause__ = self.error
        return error

    def request(self, left: float | None) -> TurnRequest:
        """Its request, limited to what is left of its deadline."""
        request = self.ticket.request
        if left is None or (request.timeout is not None and request.timeout <= left):
            return request
        return replace(request, timeout=left)
