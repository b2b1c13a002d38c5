"""Agent sessions whose process dies, and others with the same log that go on in the same worker."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.agent_sessions import GO, WorkerGrounds
from support.party import wait_until

from partyctl_actors.errors import JournalError
from partyctl_actors.participants import Agent
from partyctl_actors.participants.sessions import HiredParts, begin_hired, hired_plan
from partyctl_actors.supervision.agent_session import AgentSession
from partyctl_actors.supervision.hired import HiredEngine
from partyctl_actors.supervision.policy_commands import Decided, Rule
from partyctl_actors.supervision.policy_events import Found, Phase
from partyctl_actors.supervision.turn_log import TurnLogs
from partyctl_base.process import is_alive
from partyctl_confinement.client import LauncherClient
from partyctl_plugins.contract import (
    ApprovalPolicy,
    NativePermissions,
    ProviderProfile,
    RetryPolicy,
    SessionStateError,
    TurnCancelledError,
    TurnRequest,
    TurnTimeoutError,
)
from partyctl_plugins.testing import RecordingEventHandler

Steps = list[dict[str, object]]

THINK: Steps = [{"say": "thinking"}, {"think": 1.5}, {"say": "thought"}]
HANG: Steps = [{"say": "thinking"}, {"hang": True}]


class Heir:
    """One process after another with the session `s`, each of which may die without a word.

    Attributes:
        session, engine: those of the process that lives.
        decided: what its policy decided.
        pids: the workers it had.
        told: the events of its turns, whoever heard them.
    """

    session: AgentSession
    engine: HiredEngine

    def __init__(self, grounds: WorkerGrounds, directory: Path) -> None:
        self.grounds = grounds
        self.decided: list[Decided] = []
        self.pids: list[int] = []
        self.told = RecordingEventHandler()
        self.profile: ProviderProfile | None = None
        self._directory = directory
        self._agent: Agent | None = None
        self._logs = TurnLogs(directory / "turns")
        self._threads: list[threading.Thread] = []
        self._dead: list[tuple[AgentSession, HiredEngine]] = []

    def begin(self, *turns: Steps, retry: RetryPolicy | None = None) -> None:
        options = {"script": [*turns], "state": "position"}
        self._agent = Agent(
            "scripted", permissions=NativePermissions.bypass(), approvals=ApprovalPolicy.DENY, cwd=self._directory,
            options=options, retry=retry,
        )  # fmt: skip
        self._open()

    def under_way(self, phase: Phase, deadline: float | None = None, request: TurnRequest = GO) -> str:
        """Begin a turn on another thread; its id, once it is in that phase, and its worker knows of it."""
        session, engine, ticket = self.session, self.engine, self.session.prepare_turn(request)

        def is_under_way() -> bool:
            asked = phase is not Phase.RUNNING or "busy" in engine.workers.values()
            return session.state.phase is phase and asked

        def run() -> None:
            with contextlib.suppress(Exception):  # its process dies
                session.run(ticket, deadline=deadline)

        self._threads.append(threading.Thread(target=run, daemon=True))
        self._threads[-1].start()
        wait_until(is_under_way, 20, f"the turn is {phase}")
        return ticket.turn_id

    def die(self, *, with_worker: bool = False) -> None:
        """The process dies, perhaps with its worker; another one takes the log, and then the worker."""
        log, client = self._logs.open("s"), self.grounds._client
        assert client is not None
        self.grounds._client = None
        self.grounds.loop.call_soon_threadsafe(self._close_descriptors, client)
        wait_until(lambda: client.is_over, 20, "the client is gone")
        if with_worker:
            os.kill(self.pids[-1], signal.SIGKILL)
            wait_until(lambda: not is_alive(self.pids[-1]), 20, "the worker is dead")
        self.profile = self.engine.profile
        self._dead.append((self.session, self.engine))
        self._open(log)

    def _close_descriptors(self, client: LauncherClient) -> None:
        """As the kernel does, so that nothing of the dead process reaches its worker."""
        client._channel.close()
        for connection in self.engine._connections:
            if connection._supervisor._link.hired is not None:
                connection._supervisor._link.hired.channel.close()

    def close(self) -> None:
        self.session.close()
        for session, engine in self._dead:  # what the kernel does of itself
            session.interrupt()
            engine.close()
        for thread in self._threads:
            thread.join(20)
        self._logs.close()

    def _open(self, log: object = None) -> None:
        log = log or self._logs.open("s")
        self.decided = decided = list[Decided]()
        parts = HiredParts(
            self.grounds, log, profile=self.profile, on_decided=decided.append,  # type: ignore[arg-type]
            on_hired=lambda pid, confinement: self.pids.append(pid), handlers=(self.told,),
        )  # fmt: skip
        assert self._agent is not None
        self.session, self.engine = begin_hired(self._agent, hired_plan(self._agent, {"role": "R"}), parts)

    @property
    def rules(self) -> list[Rule]:
        return [each.rule for each in self.decided]

    def outcome(self, turn_id: str) -> object:
        return self._logs.open("s").recover().outcomes[turn_id]


@pytest.fixture
def heir(grounds: WorkerGrounds, tmp_path: Path) -> Iterator[Heir]:
    made = Heir(grounds, tmp_path)
    yield made
    made.close()
    wait_until(lambda: grounds.launcher.workers() == [], 20, "no worker is left")


def test_a_running_turn_goes_on_and_has_its_result(heir: Heir) -> None:
    heir.begin(THINK, [{"say": "next"}])
    turn_id = heir.under_way(Phase.RUNNING)
    heir.die()
    ticket = heir.session.unfinished
    assert ticket is not None
    assert (ticket.turn_id, ticket.request, heir.engine.found) == (turn_id, GO, Found.BUSY)
    with pytest.raises(SessionStateError):
        heir.session.prepare_turn(GO)
    turn = heir.session.run(ticket)
    assert (turn.turn_id, turn.result.text) == (turn_id, "thought")
    assert heir.session.unfinished is None
    assert heir.session.run(heir.session.prepare_turn(GO)).result.text == "next"
    assert (len(set(heir.pids)), heir.rules) == (1, [])


def test_what_happened_meanwhile_is_told_to_the_handlers_of_its_heir(heir: Heir) -> None:
    heir.begin([{"say": "thinking"}, {"think": 0.5}, {"tool": "read"}, {"say": "thought"}])
    heir.under_way(Phase.RUNNING)
    wait_until(lambda: bool(heir.told.events), 20, "the turn thinks")
    heir.told.events.clear()
    begun = time.monotonic()
    heir.die()
    wait_until(lambda: time.monotonic() > begun + 1.0, 20, "the turn is over")
    ticket = heir.session.unfinished
    assert ticket is not None
    heir.session.run(ticket)
    heard = [type(event).__name__ for event in heir.told.events]
    assert heard == ["ToolCall", "ToolResult", "AssistantText", "UsageReport"]


def test_a_running_turn_is_interrupted_by_its_heir(heir: Heir) -> None:
    heir.begin(HANG)
    heir.under_way(Phase.RUNNING)
    heir.die()
    ticket = heir.session.unfinished
    assert ticket is not None
    heir.session.interrupt(ticket)
    assert heir.session.run(ticket).result.interrupted


def test_an_interrupt_that_nobody_carried_out_is_carried_out_by_the_second_heir(heir: Heir) -> None:
    heir.begin(HANG)
    heir.under_way(Phase.RUNNING)
    heir.die()
    ticket = heir.session.unfinished
    assert ticket is not None
    heir.session.interrupt(ticket)
    heir.session._core.notes.moved(heir.session.state)
    heir.die()
    again = heir.session.unfinished
    assert again is not None
    assert heir.session.run(again).result.interrupted


def test_a_turn_whose_worker_died_too_is_lost_in_flight_and_not_run_again(heir: Heir) -> None:
    heir.begin([{"say": "one"}], HANG, [{"say": "three"}])
    conversation = heir.session.run(heir.session.prepare_turn(GO)).conversation_id
    turn_id = heir.under_way(Phase.RUNNING)
    heir.die(with_worker=True)
    assert (heir.session.unfinished, heir.session.state.phase) == (None, Phase.IDLE)
    assert heir.rules == [Rule.LOST]
    turn = heir.session.run(heir.session.prepare_turn(GO))
    assert (turn.result.text, turn.conversation_id) == ("three", conversation)
    failed = heir.outcome(turn_id)
    assert isinstance(failed, dict)
    assert (failed["failed"]["type"], failed["failed"]["in_flight"]) == ("TurnLostError", True)


def test_a_wait_goes_on_with_its_counters(heir: Heir) -> None:
    heir.begin([{"fail": "transient"}], [{"fail": "transient"}], [{"say": "ok"}], retry=RetryPolicy((600, 0.1)))
    heir.under_way(Phase.WAITING)
    heir.die()
    ticket = heir.session.unfinished
    assert ticket is not None
    assert heir.session.state.turn is not None
    assert (heir.session.state.turn.retries, heir.session.state.turn.attempts) == (1, 1)
    ended: list[BaseException] = []

    def run() -> None:
        try:
            heir.session.run(ticket)
        except TurnCancelledError as error:
            ended.append(error)

    running = threading.Thread(target=run, daemon=True)
    running.start()
    heir.session.interrupt()
    running.join(20)
    assert [str(error) for error in ended] == [f"the turn was ended between two attempts ({ticket.turn_id})"]
    assert (heir.rules[-1], len(set(heir.pids))) == (Rule.INTERRUPTED, 1)


def test_an_idle_session_keeps_its_worker_and_a_released_one_has_none(heir: Heir) -> None:
    heir.begin([{"say": "one"}], [{"say": "two"}], [{"say": "three"}])
    heir.session.run(heir.session.prepare_turn(GO))
    heir.die()
    assert heir.session.unfinished is None
    assert heir.session.run(heir.session.prepare_turn(GO)).result.text == "two"
    assert len(set(heir.pids)) == 1
    heir.session.release()
    heir.die()
    assert (heir.engine.found, heir.engine.workers) == (Found.GONE, {})
    assert heir.session.run(heir.session.prepare_turn(GO)).result.text == "three"
    assert len(set(heir.pids)) == 2


def test_who_was_taken_over_writes_nothing_more(heir: Heir) -> None:
    heir.begin([{"say": "one"}], [{"say": "two"}])
    heir.session.run(heir.session.prepare_turn(GO))
    first = heir.session
    heir.die()
    with pytest.raises(JournalError, match="taken over"):
        first.run(first.prepare_turn(GO))
    assert heir.session.run(heir.session.prepare_turn(GO)).result.text == "two"


def test_a_person_ends_a_wait_and_what_was_spent_is_forgiven(heir: Heir) -> None:
    heir.begin([{"fail": "transient"}], [{"say": "ok"}], retry=RetryPolicy((600,)))
    results: list[str] = []
    ticket = heir.session.prepare_turn(TurnRequest("x"))
    running = threading.Thread(target=lambda: results.append(heir.session.run(ticket).result.text), daemon=True)
    running.start()
    wait_until(lambda: heir.session.state.phase is Phase.WAITING, 20, "it waits")
    heir.session.go_on()
    running.join(20)
    assert (results, heir.rules) == (["ok"], [Rule.RETRY, Rule.CONTINUE])
    heir.session.go_on()
    assert heir.rules[-1] is Rule.CONTINUE


def test_a_running_turn_ends_at_the_deadline_that_it_had_before(heir: Heir) -> None:
    heir.begin(THINK, [{"say": "next"}], retry=RetryPolicy((0.1,)))
    begun = time.monotonic()
    turn_id = heir.under_way(Phase.RUNNING, deadline=0.8)
    heir.die()
    ticket = heir.session.unfinished
    assert ticket is not None
    with pytest.raises(TurnTimeoutError, match=r"0\.8 s"):
        heir.session.run(ticket)
    assert 0.8 <= time.monotonic() - begun < 1.5 + 0.8
    assert heir.session.run(heir.session.prepare_turn(GO)).result.text == "next"
    failed = heir.outcome(turn_id)
    assert isinstance(failed, dict)
    assert failed["failed"]["type"] == "TurnTimeoutError"


def test_a_turn_that_falls_silent_before_its_heir_ends_by_the_limit_that_it_was_given(heir: Heir) -> None:
    heir.begin([{"say": "thinking"}, {"think": 1.5}, {"say": "more"}, {"hang": True}], [{"say": "next"}])
    heir.under_way(Phase.RUNNING, request=TurnRequest("go", idle_timeout=3))
    heir.die()
    ticket = heir.session.unfinished
    assert ticket is not None
    with pytest.raises(TurnTimeoutError, match="told nothing for 3 s"):
        heir.session.run(ticket)
    assert heir.session.run(heir.session.prepare_turn(GO)).result.text == "next"


def test_a_result_that_was_there_in_time_counts_though_it_is_found_after_the_deadline(heir: Heir) -> None:
    heir.begin([{"say": "thinking"}, {"think": 0.3}, {"say": "thought"}])
    begun = time.monotonic()
    heir.under_way(Phase.RUNNING, deadline=2.0)
    heir.die()
    ticket = heir.session.unfinished
    assert ticket is not None
    wait_until(lambda: time.monotonic() > begun + 2.1, 20, "the deadline has passed")
    assert heir.session.run(ticket).result.text == "thought"
