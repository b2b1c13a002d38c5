"""python durable_session.py DIRECTORY FD: a node with one agent session of twenty turns, which goes on where it stood.

FD is a client's end of a launcher's channel. DIRECTORY/turns has the session's log, DIRECTORY/ledger is written by the
provider. `hired PID` is printed for each worker, `turn N` before each turn, `over` at the end.
"""

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from partyctl_actors.supervision import Supervisor, WorkerPlan
from partyctl_actors.supervision import policy_commands as commands
from partyctl_actors.supervision import policy_events as events
from partyctl_actors.supervision.policy import SessionPolicy
from partyctl_actors.supervision.policy_config import PolicyConfig
from partyctl_actors.supervision.policy_events import Found, Outcome, Phase
from partyctl_actors.supervision.policy_state import SessionState, from_plain, to_plain
from partyctl_actors.supervision.turn_log import SqliteTurnLog, TurnLogs
from partyctl_base.aio import AsyncChannel
from partyctl_base.channel import Channel
from partyctl_base.clock import SystemClock
from partyctl_confinement.client import LauncherClient
from partyctl_plugins.contract import (
    ApprovalPolicy,
    ConversationSpec,
    NativePermissions,
    RenewalBudget,
    RetryPolicy,
    TransportKind,
    TurnFailedError,
    TurnRequest,
)
from partyctl_plugins.errors import AgentSessionError, SessionResumeError
from partyctl_plugins.manager import ProviderEntry

TURNS = 20
RETRIES = 2
FAILING: Mapping[int, int] = {5: 1, 9: 99, 13: 2}
"""How many attempts of a turn fail for the moment; 99: all."""

THINK = 0.01
CONFIG = PolicyConfig(RetryPolicy(delays=(0.02,) * RETRIES), RenewalBudget(max_turns=4))


def session_id(directory: Path) -> str:
    return "/".join(directory.parts[-2:])


def ticket(number: int) -> str:
    return f"t-{number}"


class DurableSession:
    """The policy, a supervisor and a log, as thin as it goes: nothing is done before it is written."""

    def __init__(self, directory: Path, launcher: LauncherClient, log: SqliteTurnLog) -> None:
        self._policy = SessionPolicy(CONFIG)
        self._log = log
        self._clock = SystemClock()
        self._launcher = launcher
        found = log.recover()
        self.state: SessionState = from_plain(dict(found.state)) if found.state else self._policy.begin()
        self.over = {*found.outcomes}
        self._is_new = found.state is None
        spec = ConversationSpec(str(directory), NativePermissions.bypass(), ApprovalPolicy.DENY)
        provider = ProviderEntry("ledger", "ledger_plugin", "test-plugins", "1.0")
        options = {"ledger": str(directory / "ledger")}
        env = {"PATH": os.environ["PATH"]}
        labels = {"session": log.session_id}
        self._plan = WorkerPlan(provider, TransportKind.STREAM, spec, options, env, labels=labels, epoch=log.epoch)
        self._supervisor: Supervisor | None = None
        self._result = ""
        self._cause = ""

    async def run(self) -> None:
        """All turns that are not over, first the one that was under way."""
        if not self._is_new:
            await self._restore()
        for number in range(TURNS):
            if ticket(number) not in self.over:
                print(f"turn {number}", flush=True)
                await self._turn(number)
        if self._supervisor is not None:
            await self._supervisor.close()

    async def _turn(self, number: int) -> None:
        name, at = ticket(number), self._clock.monotonic()
        self._result, self._cause = "", ""
        self.state, _ = self._policy.step(self.state, events.PrepareAsked(at, name))
        self.state, told = self._policy.step(self.state, events.RunAsked(at, name))
        self._log.intend(name, {"prompt": request(name).prompt}, to_plain(self.state))
        await self._to_its_end(name, told)

    async def _to_its_end(self, name: str, told: list[commands.Command]) -> None:
        while True:
            event: events.Event | None = None
            for command in told:
                if isinstance(command, commands.CloseConversation):
                    await self._hang_up()
                elif isinstance(command, commands.Open):
                    event = await self._open(command.serial, command.conversation_id)
                elif isinstance(command, commands.Execute):
                    event = await self._execute(name, command.serial)
                elif isinstance(command, commands.Wait):
                    await asyncio.sleep(command.seconds)
                    event = events.Waited(self._clock.monotonic(), command.serial)
            if event is None:
                return
            told = await self._happened(event)

    async def _happened(self, event: events.Event) -> list[commands.Command]:
        """What is to be done about it, once that is durable; then a worker may forget what it was about."""
        before = self.state
        self.state, told = self._policy.step(before, event)
        ends = [command for command in told if isinstance(command, commands.Finish | commands.Fail)]
        if not ends:
            self._log.state(to_plain(self.state))
        for end in ends:
            self._log.outcome(end.turn_id, self._outcome(end), to_plain(self.state))
            self.over.add(end.turn_id)
        if isinstance(event, events.Succeeded | events.Failed) and self._supervisor is not None:
            assert before.turn is not None
            await self._supervisor.acknowledge(wire_id(before.turn.turn_id, event.serial))
        return told

    # --- the worker ---

    async def _open(self, serial: int, conversation_id: str | None) -> events.Event:
        spec = replace(self._plan.spec, resume_id=conversation_id)
        self._supervisor = Supervisor(self._launcher, replace(self._plan, spec=spec), lambda event: None)
        try:
            await self._supervisor.open(self._hired)
        except AgentSessionError as error:
            return self._failed(serial, error)
        return events.Opened(self._clock.monotonic(), serial, self._supervisor.conversation_id)

    async def _execute(self, name: str, serial: int) -> events.Event:
        if self._supervisor is None:  # it was closed because its worker had died
            raise AssertionError("the policy runs a turn without a connection")
        return await self._heard(serial, self._supervisor.turn(wire_id(name, serial), request(name)))

    async def _heard(self, serial: int, coming) -> events.Event:  # type: ignore[no-untyped-def]
        try:
            result = await coming
        except AgentSessionError as error:
            return self._failed(serial, error)
        self._result = result.text
        return events.Succeeded(self._clock.monotonic(), serial, result.session_id)

    def _failed(self, serial: int, error: AgentSessionError) -> events.Event:
        self._cause = str(error)
        died = self._supervisor is None or self._supervisor.state == "failed"
        outcome = Outcome.RESUME_REFUSED if isinstance(error, SessionResumeError) else Outcome.OTHER
        if isinstance(error, TurnFailedError) and not died:
            outcome = Outcome(error.kind.value)
        return events.Failed(self._clock.monotonic(), serial, outcome, died=died, cause=self._cause)

    async def _hang_up(self) -> None:
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            await supervisor.close()

    def _hired(self, pid: int, confinement: str) -> None:
        print(f"hired {pid}", flush=True)

    def _outcome(self, end: commands.Finish | commands.Fail) -> dict[str, object]:
        if isinstance(end, commands.Finish):
            return {"finished": self._result, "in": end.conversation_id}
        return {"lost" if end.in_flight else "failed": self._cause, "rule": end.rule.value, "attempts": end.attempts}

    # --- after a death ---

    async def _restore(self) -> None:
        turn = self.state.turn
        running = turn is not None and turn.phase is Phase.RUNNING
        name = wire_id(turn.turn_id, turn.serial) if turn is not None and running else ""
        supervisor = Supervisor(self._launcher, self._plan, lambda event: None)
        found, loss = await supervisor.attach(name, self._hired)
        usable = supervisor.state in ("idle", "busy", "opening")
        if found is Found.GONE:
            self._cause = str(loss or "nothing is known of its worker")
            print(f"gone {self._cause.splitlines()[0]}", flush=True)
        elif usable and (self.state.live or (turn is not None and turn.phase is Phase.OPENING)):
            self._supervisor = supervisor
        else:
            await supervisor.close()
            found = Found.AT_REST if found is Found.BUSY else found
        told = await self._happened(events.Restored(self._clock.monotonic(), found))
        if turn is None:
            return
        if found is Found.BUSY and running:
            told = await self._happened(await self._heard(turn.serial, supervisor.result()))
        elif found is Found.BUSY and turn.phase is Phase.OPENING:
            conversation_id = await supervisor.opened()
            told = await self._happened(events.Opened(self._clock.monotonic(), turn.serial, conversation_id))
        await self._to_its_end(turn.turn_id, told)


def request(name: str) -> TurnRequest:
    return TurnRequest(f"{name} {THINK} {FAILING.get(int(name.split('-')[1]), 0)}")


def wire_id(name: str, serial: int) -> str:
    """What a worker knows an attempt by: the outcome of the one before must not be taken for its own."""
    return f"{name}.{serial}"


async def main(directory: Path, fd: int) -> None:
    launcher = LauncherClient(AsyncChannel(Channel.from_fd(fd)))
    logs = TurnLogs(directory / "turns")
    session = DurableSession(directory, launcher, logs.open(session_id(directory)))
    await session.run()
    print("over", flush=True)
    await launcher.close()
    logs.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
