"""What an agent session costs, `python -m benchmarks.agent_session`: from `run` to the result, with the intent and the
outcome of every turn on the disk, through a worker process, against a provider that answers at once; and what an
interrupt of a running turn takes until `run` returns, where the provider obeys. The yardstick is agentshim 0.23.0
(extra `bench`), which records nothing and has no process between, with the same command that answers at once. A turn
is synced twice, so beside it stands what the disk takes for that alone: 0.3 ms at rest, 15 while others sync too."""

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

import agentshim

from benchmarks.harness import Comparison, Target, parser, run, spread
from partyctl.grounds import SharedGrounds
from partyctl_actors.supervision.agent_session import AgentSession
from partyctl_actors.supervision.hired import HiredEngine
from partyctl_actors.supervision.plan import SupervisorLimits, WorkerPlan
from partyctl_actors.supervision.session_parts import SessionParts
from partyctl_actors.supervision.turn_log import TurnLogs
from partyctl_base.clock import SystemClock
from partyctl_base.ids import RandomIds
from partyctl_plugins import manager
from partyctl_plugins.contract import (
    AgentEvent,
    ApprovalPolicy,
    ConversationSpec,
    NativePermissions,
    RetryPolicy,
    TransportKind,
    TurnRequest,
)

TURNS = 50
INTERRUPTS = 30
PROMPT = "Write the article. " * 20
STUB = Path(__file__).parent / "yardsticks" / "instant_claude.py"


class Interrupting:
    """Interrupts each turn at its first event, and notes when."""

    def __init__(self) -> None:
        self.session: AgentSession | None = None
        self.at = 0.0

    def on_event(self, event: AgentEvent) -> None:
        if self.session is not None and not self.at:
            self.at = time.perf_counter()
            self.session.interrupt()


@contextmanager
def opened(
    grounds: SharedGrounds, logs: TurnLogs, provider: str, options: Mapping[str, object], handler: Interrupting
) -> Iterator[AgentSession]:
    """An agent session over a worker, with a durable log."""
    spec = ConversationSpec(os.getcwd(), NativePermissions.bypass(), ApprovalPolicy.DENY)
    env = {name: os.environ[name] for name in ("PATH", "HOME")}
    plan = WorkerPlan(manager.resolve(provider), TransportKind.STREAM, spec, options, env)
    engine = HiredEngine(grounds, plan, SupervisorLimits(), RandomIds())
    parts = SessionParts(
        engine, spec, SystemClock(), RandomIds(), RetryPolicy(), [handler], log=logs.open(RandomIds().new_id("session"))
    )
    with AgentSession(parts) as session:
        yield session


def turns(ask: Callable[[], str]) -> Mapping[str, float]:
    """Turns, one after the other."""
    times: list[float] = []
    for _ in range(TURNS):
        start = time.perf_counter()
        text = ask()
        times.append((time.perf_counter() - start) * 1000)
        assert text == "done"
    return spread(times)


def interrupts(session: AgentSession, handler: Interrupting) -> Mapping[str, float]:
    """Turns that are interrupted, one after the other."""
    times: list[float] = []
    handler.session = session
    for _ in range(INTERRUPTS):
        handler.at = 0.0
        turn = session.run(session.prepare_turn(TurnRequest(PROMPT)))
        times.append((time.perf_counter() - handler.at) * 1000)
        assert turn.result.interrupted
        assert not turn.forced
    return spread(times)


def syncs(file: BinaryIO) -> Mapping[str, float]:
    """What a disk takes for a turn's intent and outcome: two writes of 4 KiB, each synced."""
    times: list[float] = []
    for _ in range(TURNS):
        start = time.perf_counter()
        for _ in range(2):
            file.write(bytes(4096))
            file.flush()
            os.fdatasync(file.fileno())
        times.append((time.perf_counter() - start) * 1000)
    return spread(times)


def asking(session: AgentSession) -> Callable[[], str]:
    return lambda: session.run(session.prepare_turn(TurnRequest(PROMPT))).result.text


@contextmanager
def setting(rounds: int) -> Iterator[Sequence[Comparison]]:
    """Everything that is measured side by side, open."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stub = directory / "claude"
        stub.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E {STUB} "$@"\n')
        stub.chmod(0o755)
        stack.enter_context(_on_path(directory))
        logs, grounds = TurnLogs(directory / "turns"), SharedGrounds()
        stack.callback(logs.close)
        grounds.hold()
        stack.callback(grounds.release)
        quiet, hasty = Interrupting(), Interrupting()
        script: list[object] = [[{"say": "done"}]] * TURNS * rounds
        waiting: list[object] = [[{"say": "hm"}, {"hang": True}]] * INTERRUPTS * rounds
        scripted = stack.enter_context(opened(grounds, logs, "scripted", {"script": script}, quiet))
        behind = stack.enter_context(opened(grounds, logs, "claude", {"binary": str(stub)}, quiet))
        ended = stack.enter_context(opened(grounds, logs, "scripted", {"script": waiting}, hasty))
        shim = stack.enter_context(_shim())
        disk = stack.enter_context((directory / "synced").open("wb"))
        request = agentshim.TurnRequest(prompt=PROMPT)
        variants = {
            "agent session": lambda: turns(asking(scripted)),
            "agent session, the same command": lambda: turns(asking(behind)),
            "two syncs": lambda: syncs(disk),
            "agentshim 0.23.0": lambda: turns(lambda: str(shim.run(shim.prepare_turn(request)).result.text)),
        }
        targets = [
            Target("agent session", "p50 ms", 5.0),
            Target("agent session", "p50 ms", 0.1, against="agentshim 0.23.0"),
            Target("agent session, the same command", "p50 ms", 0.1, against="agentshim 0.23.0"),
        ]
        yield [
            Comparison(f"{TURNS} turns, recorded, with a provider that answers at once", variants, targets),
            Comparison(
                f"{INTERRUPTS} interrupts of a running turn",
                {"interrupt": lambda: interrupts(ended, hasty)},
                [Target("interrupt", "p99 ms", 100.0)],
            ),
        ]


@contextmanager
def _on_path(directory: Path) -> Iterator[None]:
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{directory}{os.pathsep}{before}"
    try:
        yield
    finally:
        os.environ["PATH"] = before


def _shim() -> AbstractContextManager[agentshim.Session]:
    agent = agentshim.Agent(
        "claude",
        permissions=agentshim.NativePermissions.bypass(),
        approvals=agentshim.ApprovalPolicy.DENY,
        transport=agentshim.TransportKind.STREAM,
    )
    return contextlib.closing(agent.session(os.getcwd()))


def main() -> int:
    """Measure and print; 1 if a target is missed."""
    options = parser(__doc__, rounds=10).parse_args()
    with setting(options.rounds) as comparisons:
        return run(comparisons, options)


if __name__ == "__main__":
    sys.exit(main())
