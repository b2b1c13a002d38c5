"""python durable_session.py DIRECTORY FD: a node with one agent session of twenty turns, which goes on where it stood.

FD is a client's end of a launcher's channel. DIRECTORY/turns has the session's log, DIRECTORY/ledger is written by the
provider. `hired PID` is printed for each worker, `turn N` before each turn, `over` at the end.
"""

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from partyctl_actors.supervision import WorkerPlan
from partyctl_actors.supervision.agent_session import AgentSession
from partyctl_actors.supervision.hired import HiredEngine
from partyctl_actors.supervision.plan import SupervisorLimits
from partyctl_actors.supervision.policy_events import Phase
from partyctl_actors.supervision.policy_state import from_plain
from partyctl_actors.supervision.running_turn import attempt_name
from partyctl_actors.supervision.session_parts import SessionParts
from partyctl_actors.supervision.turn_log import TurnLog, TurnLogs
from partyctl_base.aio import AsyncChannel
from partyctl_base.channel import Channel
from partyctl_base.clock import SystemClock
from partyctl_base.ids import RandomIds
from partyctl_confinement.client import LauncherClient
from partyctl_plugins.contract import (
    AgentSessionError,
    ApprovalPolicy,
    ConversationSpec,
    NativePermissions,
    RetryPolicy,
    TransportKind,
    TurnRequest,
    TurnTicket,
)
from partyctl_plugins.manager import ProviderEntry

TURNS = 20
RETRIES = 2
FAILING: Mapping[int, int] = {5: 1, 9: 99, 13: 2}
"""How many attempts of a turn fail for the moment; 99: all."""

THINK = 0.01


class Grounds:
    """The one launcher there is, and a loop on a thread of its own."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._client: LauncherClient | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def hold(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def release(self) -> None:
        """The loop is needed to the end."""

    async def client(self) -> LauncherClient:
        if self._client is None:
            self._client = LauncherClient(AsyncChannel(Channel.from_fd(self._fd)))
        return self._client

    def close(self) -> None:
        if self._client is not None:
            asyncio.run_coroutine_threadsafe(self._client.close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Names(RandomIds):
    """Names the turn that comes next by its number."""

    coming = 0

    def new_id(self, kind: str) -> str:
        return ticket(self.coming) if kind == "turn" else super().new_id(kind)


def session_id(directory: Path) -> str:
    return "/".join(directory.parts[-2:])


def ticket(number: int) -> str:
    return f"t-{number}"


def request(number: int) -> TurnRequest:
    return TurnRequest(f"{ticket(number)} {THINK} {FAILING.get(number, 0)}")


def under_way(log: TurnLog) -> str | None:
    """The attempt that the log leaves under way; empty if none is, None if the log is new."""
    found = log.recover()
    turn = None if found.state is None else from_plain(dict(found.state)).turn
    if turn is not None and turn.phase is Phase.RUNNING:
        return attempt_name(turn.turn_id, turn.serial)
    return None if found.state is None else ""


def play(session: AgentSession, log: TurnLog, names: Names) -> None:
    """All turns that are not over, first the one that was under way."""
    if session.unfinished is not None:
        run(session, session.unfinished)
    for number in range(TURNS):
        if ticket(number) not in log.recover().outcomes:
            names.coming = number
            print(f"turn {number}", flush=True)
            run(session, session.prepare_turn(request(number)))


def run(session: AgentSession, turn: TurnTicket) -> None:
    with contextlib.suppress(AgentSessionError):  # the log says so
        session.run(turn)


def main(directory: Path, fd: int) -> None:
    logs, grounds, names = TurnLogs(directory / "turns"), Grounds(fd), Names()
    try:
        log = logs.open(session_id(directory))
        spec = ConversationSpec(str(directory), NativePermissions.bypass(), ApprovalPolicy.DENY)
        provider = ProviderEntry("ledger", "ledger_plugin", "test-plugins", "1.0")
        options, env = {"ledger": str(directory / "ledger")}, {"PATH": os.environ["PATH"]}
        labels = {"session": log.session_id}
        plan = WorkerPlan(provider, TransportKind.STREAM, spec, options, env, labels=labels, epoch=log.epoch)
        limits = SupervisorLimits()
        engine = HiredEngine(
            grounds, plan, limits, names, lambda pid, _: print(f"hired {pid}", flush=True), attempt=under_way(log)
        )
        retry = RetryPolicy(delays=(0.02,) * RETRIES)
        with AgentSession(SessionParts(engine, spec, SystemClock(), names, retry, limits=limits, log=log)) as session:
            play(session, log, names)
        print("over", flush=True)
    finally:
        grounds.close()
        logs.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
