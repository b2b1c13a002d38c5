"""An agent session's policy, driven by hand: each call is an event, and what it returns are the commands."""

from __future__ import annotations

from typing import TypeVar

from partyctl_actors.supervision.policy import SessionPolicy
from partyctl_actors.supervision.policy_commands import Command, Decided, Open, Rule
from partyctl_actors.supervision.policy_config import PolicyConfig
from partyctl_actors.supervision.policy_events import (
    CloseAsked,
    Event,
    Failed,
    InterruptAsked,
    Opened,
    Outcome,
    PrepareAsked,
    RunAsked,
    Succeeded,
    Waited,
)
from partyctl_plugins.contract import RenewalBudget, RetryPolicy

C = TypeVar("C", bound=Command)


class Driven:
    """A session whose every event is given by a test, at the time `now`."""

    def __init__(
        self,
        conversation_id: str | None = None,
        *,
        delays: tuple[float, ...] = (30, 60),
        after_tool: str = "retry",
        retire_after_stalled: int | None = None,
        renewal: RenewalBudget | None = None,
        supports_resume: bool = True,
        supports_steer: bool = True,
        idle_release_after: float | None = None,
    ) -> None:
        retry = RetryPolicy(delays, after_tool, retire_after_stalled)  # type: ignore[arg-type]
        self.policy = SessionPolicy(PolicyConfig(retry, renewal, supports_resume, supports_steer, idle_release_after))
        self.state = self.policy.begin(conversation_id)
        self.now = 0.0
        self.decided: list[Decided] = []
        self._tickets = 0

    def on(self, event: Event) -> list[Command]:
        """The commands of an event, without the reports, which go to `decided`."""
        self.state, commands = self.policy.step(self.state, event)
        self.decided += [command for command in commands if isinstance(command, Decided)]
        return [command for command in commands if not isinstance(command, Decided)]

    @property
    def rules(self) -> list[Rule]:
        """The rules that were applied so far."""
        return [each.rule for each in self.decided]

    @property
    def serial(self) -> int:
        """What the next answer must carry."""
        return self.state.serial

    def prepare(self, *, expect: str | None = None, pin: bool = False) -> list[Command]:
        """Reserve turn-1, turn-2, ..."""
        self._tickets += 1
        return self.on(PrepareAsked(self.now, self.ticket, expect, pin))

    @property
    def ticket(self) -> str:
        """The turn that was prepared last."""
        return f"turn-{self._tickets}"

    def run(self, ticket: str | None = None) -> list[Command]:
        return self.on(RunAsked(self.now, ticket or self.ticket))

    def opened(self, conversation_id: str | None = None) -> list[Command]:
        return self.on(Opened(self.now, self.serial, conversation_id))

    def succeed(self, conversation_id: str | None = None, **more: int) -> list[Command]:
        return self.on(Succeeded(self.now, self.serial, conversation_id, **more))

    def fail(self, outcome: Outcome, conversation_id: str | None = None, **more: object) -> list[Command]:
        return self.on(Failed(self.now, self.serial, outcome, conversation_id, **more))  # type: ignore[arg-type]

    def waited(self, stopped: bool = False) -> list[Command]:
        return self.on(Waited(self.now, self.serial, stopped))

    def interrupt(self, ticket: str | None = None) -> list[Command]:
        return self.on(InterruptAsked(self.now, ticket))

    def close(self) -> list[Command]:
        return self.on(CloseAsked(self.now))

    def begin(self, *, expect: str | None = None, pin: bool = False) -> list[Command]:
        """Prepare a turn and run it, up to the attempt."""
        self.prepare(expect=expect, pin=pin)
        commands = self.run()
        return self.opened() if any(isinstance(command, Open) for command in commands) else commands

    def turn(self, conversation_id: str | None = None, **more: int) -> list[Command]:
        """A whole turn that succeeds."""
        self.begin()
        return self.succeed(conversation_id, **more)


def only(kind: type[C], commands: list[Command]) -> C:
    """The one command of this kind."""
    found = [command for command in commands if isinstance(command, kind)]
    assert len(found) == 1, commands
    return found[0]


def kinds(commands: list[Command]) -> list[str]:
    """What the commands are, in order."""
    return [type(command).__name__ for command in commands]
